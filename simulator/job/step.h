#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace headroom {

enum class PhaseKind {
  init,
  engine_init,
  load,
  generate,
  reward,
  actor_logprob,
  ref_logprob,
  critic_values,
  train_actor,
  train_critic,
  weight_sync,
  sleep,
  wake,
  validate,
  save_checkpoint,
  empty_cache,
};

/// What one action does. `role`, `engine`, `parts` and `count` say to whom and how much.
enum class Verb {
  join_group,       ///< the process group's first barrier leaves a number on the device
  take_prompts,     ///< the step's prompts come to the device
  drop_prompts,     ///< ... and go
  take_rewards,     ///< one number a sequence comes to the device from outside
  end_step,         ///< the step's sequences, log-probs, values, rewards and advantages go
  build,            ///< model `role` comes to exist on its device
  build_optimizer,  ///< its optimizer object (and what it allocates at once, such as master weights)
  create_states,    ///< optimizer states exist from here on (a resumed run)
  load,             ///< `parts` of `role` from host to device
  offload,          ///< `parts` of `role` from device to host
  release,          ///< `parts` of `role` are dropped
  empty_cache,      ///< of the process that runs `role`
  forward,       ///< passes without gradients over the whole batch: log-probs, values or rewards by `output`
  experience,    ///< advantages and returns on the device
  train,         ///< all mini-batches: forward, backward, optimizer step
  call,          ///< a procedure of the role's own loop, by name
  reset_peaks,   ///< the program resets the allocator's peak counters
  generate,      ///< responses for the whole batch, by `engine`
  start_engine,  ///< load, profile, take KV memory, capture graphs
  export_weights,  ///< the state dict of `role` that sync_weights streams is made (sharded copies stay until
                   ///< then)
  wake_weights,    ///< engine: weights are mapped again
  wake_kv,         ///< engine: KV cache is mapped again
  sleep,           ///< engine sleeps at its level
  score,           ///< a reward engine wakes, scores and sleeps
  sync_weights,    ///< trainer's weights of `role` stream into `engine`
  save,            ///< checkpoint of `role`
  expandable_on,   ///< the process switches expandable segments on …
  expandable_off,  ///< … or off
};

/// Parts of a role that residency actions move.
enum Parts : unsigned { kWeights = 1, kGradients = 2, kOptimizer = 4, kMasterWeights = 8 };

enum class Output {
  logprobs,
  values,
  rewards,
};

struct Action {
  Verb verb = Verb::forward;
  std::string role;    ///< or empty
  std::string engine;  ///< or empty
  std::string call;    ///< of Verb::call: which
  unsigned parts = 0;  ///< bits of Parts; of a save: what each rank writes of its own; 0: all, or nothing where `gathered`
  Output output = Output::logprobs;
  bool from_step_one = false;  ///< does nothing in the first step (states that do not exist yet)
  bool gathered = false;       ///< save: the whole model is gathered on the host of the first rank
  bool operator==(const Action&) const = default;
};

/// When a phase runs.
struct When {
  std::int64_t every = 1;  ///< in step i (from 0) when (i + 1) % every == 0
  std::int64_t from = 0;   ///< first step that has it
  std::int64_t shift = 0;  ///< in step i when (i + 1 + shift) % every == 0: every - 1 begins with the first
  bool operator==(const When&) const = default;
};

/// A phase: what users see as one row. Actions run in order. Phases of one name in one step are one row.
struct PhaseSpec {
  PhaseKind kind = PhaseKind::init;
  std::string name;    ///< shown; empty: the kind's name
  std::string within;  ///< name of the later row, of the same step, whose peaks cover this phase too
  std::vector<Action> actions;
  When when;
  bool overlaps_next = false;  ///< runs at the same time as the next phase, in other processes
  bool reported = true;        ///< false: what happens between two phases; no row, and no phase's peak
  bool empties_cache = false;  ///< the cache is emptied when the phase is over: `reserved_after_empty`
  bool operator==(const PhaseSpec&) const = default;
};

/// Whether `phase` runs in `step` (from 0) of a run of which `steps` are simulated. A phase rarer than the
/// simulated steps (a checkpoint each 20th step) runs in the last one: it comes in every real run, so a
/// prediction must contain it.
bool runs_in(const PhaseSpec& phase, int step, int steps);

/// `train_actor`, `ref_logprob`, …
const char* name(PhaseKind kind);

}  // namespace headroom
