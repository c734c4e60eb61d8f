#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "models/base/bytes.h"
#include "simulator/engine/sizes.h"
#include "simulator/job/engine.h"
#include "simulator/memory/component.h"

namespace headroom::engine {

/// What a rollout engine finds on its GPU when it starts.
struct Host {
  Bytes total = 0;                     ///< device memory as the driver reports it
  Bytes others = 0;                    ///< in use by other processes (the trainer, a reward engine)
  Bytes context = 0;                   ///< CUDA context and libraries of the engine's process
  std::optional<Bytes> communicators;  ///< its communicators, measured; none: an estimate by its groups
  Bytes graph_kernel = 0;  ///< of each kernel in a captured graph, measured; 0: as on the reference
};

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
  Bytes activation = 0;           ///< what the work given needs of that
  Bytes growth = 0;               ///< outside the allocator, while profiling
  Bytes graphs = 0;
  Bytes kv = 0;         ///< blocks × their bytes: what is really allocated
  Bytes requested = 0;  ///< vLLM: of total; SGLang: static part of the free memory
  std::int64_t blocks = 0;
  std::int64_t tokens = 0;     ///< that the KV cache holds at full attention
  std::int64_t at_once = 0;    ///< sequences of the work's length that it holds
  std::int64_t wanted = 0;     ///< sequences that could run at once
  Bytes leftover = 0;          ///< reserved by PyTorch while asleep
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

/// Device memory of the engine's process in a state; `engine_other` holds activations and growth.
Breakdown resident(const Account& account, Residency state);

/// Pinned host memory that it holds in a state (level 1 keeps the weights).
Bytes host_resident(const Account& account, Residency state);

/// Peak of a forward over `tokens` beyond weights: the widest moment of a layer, when gate and up, their
/// product, the hidden state and the residual are alive; a mixture adds its expert workspace. 16 bits an
/// element. Recorded start-ups of a 0.5B model fit this to 2 MiB at 16,384 and 65,536 tokens.
Bytes forward_peak(const ModelSizes& sizes, std::int64_t tensor, std::int64_t tokens);

/// fp32 [rows, vocabulary] copies that sampling keeps alive, by the engine's factor; logits are gathered to
/// the whole vocabulary on each GPU.
Bytes sampler_peak(const Engine& engine, const ModelSizes& sizes, std::int64_t rows);

/// Batch sizes for which CUDA graphs are captured: the engine's own list, or 1, 2, 4, every 8 below 256,
/// every 16 above, up to twice the sequences and at most 512.
std::vector<std::int64_t> capture_sizes(const Engine& engine);

/// The account by the engine's kind (vLLM or SGLang). Errors: the model does not divide over the engine's
/// ranks.
Result<Account> account(const Engine& engine, const Host& host, const Work& work);

}  // namespace headroom::engine
