#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "models/architecture/architecture.h"
#include "models/base/bytes.h"
#include "models/base/dtype.h"
#include "simulator/job/engine.h"
#include "simulator/job/role.h"
#include "simulator/job/step.h"

namespace headroom {

enum class Algorithm { ppo, grpo, sft, reward_model, dpo };

/// Library versions as far as known; they decide semantics. Empty: the newest that Headroom knows.
struct Versions {
  std::string framework, torch, transformers, vllm, sglang, deepspeed, megatron, cuda, nccl;
  bool operator==(const Versions&) const = default;
};

/// GPUs of one kind. Separate rollout GPUs form a second pool.
struct Pool {
  std::string name = "main";
  std::int64_t nodes = 1, gpus_per_node = 1;
  std::int64_t gpus() const { return nodes * gpus_per_node; }
  bool operator==(const Pool&) const = default;
};

/// Sizes of one step, global over all ranks.
struct Batch {
  std::int64_t prompts = 0;     ///< prompts a step
  std::int64_t samples = 1;     ///< responses a prompt
  std::int64_t mini_batch = 0;  ///< sequences an optimizer step, global
  std::int64_t epochs = 1;
  std::int64_t prompt_length = 0;  ///< tokens, the cap
  std::int64_t response_length = 0;
  std::int64_t generated_prompts =
      0;  ///< prompts a step that are generated for; 0: as `prompts`. More: some are filtered out
  /// Steps whose responses are generated at the same time, ahead of training; 0 and 1: one step's.
  std::int64_t generated_ahead = 0;
  std::int64_t sequences() const { return prompts * samples; }
  std::int64_t sequence_length() const { return prompt_length + response_length; }
  bool operator==(const Batch&) const = default;
};

/// Micro-batches of one role's pass in one step as a run formed them: the tokens of each sequence of each
/// micro-batch, in order, on one rank.
struct ListedBatches {
  int step = 0;
  std::string role;
  bool training = false;  ///< its update; false: its pass without gradients
  std::vector<std::vector<std::int64_t>> micro_batches;
  bool operator==(const ListedBatches&) const = default;
};

/// Lengths below the cap, when given: expected values beside the worst case. An executor whose job has a
/// `max_total` pads rectangles to it instead of to the batch's lengths.
struct Lengths {
  double mean_prompt = 0, mean_response = 0;  ///< tokens; 0: unknown
  std::int64_t max_total = 0;                 ///< longest sequence met; 0: the cap
  std::int64_t max_response = 0;              ///< longest response met; 0: the cap
  double spread = 0;  ///< standard deviation of the tokens of k sequences, over the square root of k
  std::string source;
  std::vector<ListedBatches> listed;  ///< passes whose sequences are known one by one; they decide the batches
  bool operator==(const Lengths&) const = default;
};

/// One operating-system process on a GPU: an allocator, a CUDA context, communicators.
struct Process {
  std::string name;  ///< trainer, rollout, reward_engine
  std::string pool = "main";
  std::vector<std::string> roles;  ///< names of roles that live in it
  std::string engine;              ///< name of the engine it runs; empty: a trainer
  std::string allocator_settings;  ///< PYTORCH_CUDA_ALLOC_CONF of this process
  std::int64_t communicators = 0;  ///< NCCL groups of more than one rank that it uses
  bool operator==(const Process&) const = default;
};

/// What a run is, with every framework's differences normalised. A framework's reader makes it; executors
/// read nothing else. `validate_job` states what must hold.
struct Job {
  std::string name;
  std::string framework;  ///< which schema it came from; for messages and write-back, never for behaviour
  Algorithm algorithm = Algorithm::grpo;
  Versions versions;
  std::string gpu;          ///< hardware profile name or file; empty: not given
  Bytes device_memory = 0;  ///< of a GPU as the driver reports it, where the input says so; 0: the profile's
  std::vector<Pool> pools;  ///< the first one trains
  std::vector<Role> roles;
  std::vector<Engine> engines;
  std::vector<Process> processes;
  Batch batch;
  Lengths lengths;
  std::vector<PhaseSpec> start;  ///< before the first step (step -1)
  std::vector<PhaseSpec> step;   ///< of every step
  int steps = 3;
  bool resumed = false;  ///< optimizer states exist at start
  std::int64_t rank = 0;  ///< which of the GPUs that are counted alike is followed (device_run.h)
  Bytes phase_marker =
      0;  ///< a tensor of so many bytes is made and dropped as each phase begins: marks traces
  bool records_history = false;  ///< PyTorch's memory history, with the stack of every allocation
  std::int64_t helpers =
      0;  ///< processes a node without a GPU: agent loops, servers, reward workers, the driver
  std::vector<std::string> assumptions;
  std::vector<std::string>
      not_modelled;  ///< what no program models yet: while not empty, a verdict is undetermined

  const Role* role(const std::string& name) const;
  const Engine* engine(const std::string& name) const;
  const Process* process(const std::string& name) const;
  /// The process that `role` lives in; the pool of a process. Null when the job names none.
  const Process* process_of(const std::string& role) const;
  const Pool* pool(const std::string& name) const;

  bool operator==(const Job&) const = default;
};

/// Everything that executors rely on: sizes positive, heads divisible, groups that fit the pools, phases that
/// name known roles. The first violation, naming the job's field.
Status validate_job(const Job& job);

}  // namespace headroom
