#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "models/base/bytes.h"
#include "simulator/engine/sizes.h"
#include "simulator/hardware/hardware.h"
#include "simulator/job/engine.h"
#include "simulator/memory/component.h"

namespace headroom::engine {

/// What a rollout engine finds on its GPU when it starts.
struct Host {
  Bytes total = 0;    ///< device memory as the driver reports it
  Bytes others = 0;   ///< in use by other processes (the trainer, a reward engine)
  Bytes context = 0;  ///< CUDA context of the engine's process
  std::optional<Bytes> communicators;  ///< its communicators, where known; none: by its groups
  bool shares_process = false;         ///< inside a trainer: library and kernels are loaded already
  Bytes cublas_handle = 0;             ///< taken while it profiles
  Bytes cublas_workspace = 0;
  Bytes first_kernels = 0;  ///< code that a process's first kernel loads
  Bytes graph_kernel = 0;   ///< of each kernel in a captured graph, measured; 0: as on the reference
  Bytes multicast = 0;      ///< granularity of the fabric's multicast; 0: it has none
  std::int64_t multiprocessors = 0;
  std::int64_t capability = 0;  ///< compute capability times ten
  NcclMemory nccl;
};

/// A GPU of that kind that nothing else uses.
Host host_of(const Hardware& hardware);

/// What it will be asked to do: the requests that one replica holds at a time.
struct Work {
  std::int64_t sequences = 0;  ///< of a replica in one step
  std::int64_t prompt = 0;     ///< tokens, the cap
  std::int64_t length = 0;     ///< prompt and response, the cap
};

/// Memory of one GPU of an engine, decided when it starts.
struct Account {
  Bytes context = 0, communicators = 0;
  Bytes weights = 0;
  Bytes profiled_activation = 0;  ///< peak of the start-up profile beyond weights
  Bytes activation = 0;           ///< what the work given needs of that, beside workspaces
  Bytes growth = 0;               ///< outside the allocator, while profiling: stays, asleep too
  Bytes workspaces = 0;           ///< in the allocator beside the pools: stays, asleep too
  Bytes sleeping_workspaces = 0;  ///< of those: in a pool that sleep gives back
  Bytes graphs = 0;
  Bytes kv = 0;         ///< blocks × their bytes: what is really allocated
  Bytes requested = 0;  ///< vLLM: of total; SGLang: static part of the free memory
  std::int64_t blocks = 0;
  std::int64_t tokens = 0;     ///< that the KV cache holds at full attention
  double concurrency = 0;      ///< requests of the longest length that it holds, as start-up logs print
  std::int64_t at_once = 0;    ///< sequences of the work's length that it holds
  std::int64_t wanted = 0;     ///< sequences that could run at once
  Bytes leftover = 0;          ///< beside workspaces, reserved by PyTorch while asleep
  bool keeps_weights = false;  ///< asleep, the weights stay on the device
  int sleep_level = 0;
  std::optional<std::string> failure;  ///< why it does not start

  bool preempts() const { return at_once < wanted; }
};

enum class Residency {
  absent,    ///< not started
  starting,  ///< the highest of loading, profiling and taking KV memory
  awake,
  weights_only,  ///< waking: weights are mapped, the KV cache is not yet
  asleep,
};

/// Device memory of the engine's process in a state; `engine_other` holds activations, workspaces and growth.
Breakdown resident(const Account& account, Residency state);

/// Pinned host memory that it holds in a state (level 1 keeps the weights).
Bytes host_resident(const Account& account, Residency state);

/// The account by the engine's kind (vLLM or SGLang) of one stage's GPU. Errors: the model does not divide
/// over the engine's ranks.
Result<Account> account(const Engine& engine, const Host& host, const Work& work, const Stage& stage);

/// The same of the fullest stage, whose KV cache is smallest: every stage gets as many blocks.
Result<Account> account(const Engine& engine, const Host& host, const Work& work);

}  // namespace headroom::engine
