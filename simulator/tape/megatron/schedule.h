#pragma once

#include <cstdint>
#include <vector>

namespace headroom::tape::megatron {

/// One piece of a pipeline rank's work.
struct PipelineStep {
  bool forward = true;
  std::int64_t chunk = 0;        ///< virtual stage
  std::int64_t micro_batch = 0;  ///< from 0
  bool operator==(const PipelineStep&) const = default;
};

/// What pipeline rank `stage` of `stages` does for `micro_batches`, in order: 1F1B, or with `chunks` > 1 the
/// interleaved schedule in groups of `stages` micro-batches (which must divide `micro_batches`). The rank
/// holds the activations of min(stages - stage, micro_batches) micro-batches, interleaved of
/// min(2(stages - stage - 1) + (chunks - 1) stages + 1, chunks · micro_batches) chunks.
/// Source: pipeline_parallel/schedules.py.
std::vector<PipelineStep> pipeline_schedule(std::int64_t stages, std::int64_t chunks, std::int64_t stage,
                                            std::int64_t micro_batches);

/// The fewest micro-batches after which a rank's memory only repeats.
std::int64_t distinct_micro_batches(std::int64_t stages, std::int64_t chunks, std::int64_t micro_batches);

}  // namespace headroom::tape::megatron
