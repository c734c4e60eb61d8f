#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "simulator/closed_form/action_cost.h"
#include "simulator/hardware/hardware.h"
#include "simulator/job/job.h"
#include "simulator/memory/counting_memory.h"
#include "simulator/time/launch_queue.h"

namespace headroom::closed_form {

/// One action as it ran over a sum of live blocks.
struct RecordedAction {
  std::span<const CountingMemory::Moment> moments;  ///< until the recorder's next action
  std::span<const std::int32_t> layers;             ///< decoder layer of each moment; -1: none
  Bytes before = 0, gathered = 0, buffered = 0;
  Breakdown held;
  Bytes host_before = 0;
  Breakdown host_at_peak, host_held;
  Seconds seconds;         ///< as kernels take in bursts
  LaunchQueue::Work work;  ///< of host and device in them
  MatrixRates rates;       ///< of the card, whose power limit the whole meets
  bool empties_cache = false;
  Bytes cached = 0;
};

/// A job's trainer actions over counted blocks, on one rank.
class ActionRecorder {
 public:
  /// `job` and `hardware` outlive it.
  ActionRecorder(const Job& job, const Hardware& hardware, std::int64_t rank = 0);
  ~ActionRecorder();

  Result<RecordedAction> act(const Action& action, int step);

 private:
  struct Program;
  std::unique_ptr<Program> program_;
};

/// What one action cost as it ran.
ActionCost cost_of(const RecordedAction& action);

/// Layers of the shorter of the two runs that are folded; the longer one has one more.
inline constexpr std::int64_t kFewLayers = 3;

/// How a job's layers are folded.
struct LayerFold {
  Job few, more;  ///< the job with models cut to so many layers of their last group
  /// Layers of `few`. With four of them both runs have as many units in flight as the whole model, unless
  /// every layer adds some: so where FSDP1 keeps parameters after the forward, for their frees then wait for
  /// a stream that no later gather makes the host wait for.
  std::int64_t few_layers = kFewLayers;
  std::int32_t first = 0;   ///< layer of that group
  std::int64_t layers = 0;  ///< of that group, in the whole models
};

/// The fold of `job`; none when its models do not end in equally many equal layers, more than the longer run
/// has, or when work over all layers goes in buckets of a fixed size or is made for each rank of a pipeline,
/// which does not grow evenly with the layers.
std::optional<LayerFold> fold_of(const Job& job);

/// What the action would cost with all layers: every moment of the first and of the last two layers, and what
/// lies outside layers, is linear in their number, and so is what lies between (it grows or falls from layer
/// to layer); the highest of these lines is the peak. None when the two runs' moments do not pair up.
std::optional<ActionCost> folded(const LayerFold& fold, const RecordedAction& few,
                                 const RecordedAction& more);

/// `model` with only `count` of its last group's layers; null when that group has no more, or is not the
/// last.
std::shared_ptr<const Architecture> with_last_group(const Architecture& model, std::int64_t count);

}  // namespace headroom::closed_form
