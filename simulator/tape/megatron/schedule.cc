#include "simulator/tape/megatron/schedule.h"

#include <algorithm>

namespace headroom::tape::megatron {

std::vector<PipelineStep> pipeline_schedule(std::int64_t stages, std::int64_t chunks, std::int64_t stage,
                                            std::int64_t micro_batches) {
  const std::int64_t all = micro_batches * chunks, group = stages * chunks;
  // Groups of `stages` micro-batches go through one chunk after the other.
  const auto step = [&](bool forward, std::int64_t k) {
    if (chunks == 1) return PipelineStep{forward, 0, k};
    const std::int64_t chunk = k % group / stages;
    return PipelineStep{forward, forward ? chunk : chunks - 1 - chunk, k / group * stages + k % stages};
  };
  const std::int64_t ahead = stages - stage - 1;
  const std::int64_t warmup = std::min(chunks == 1 ? ahead : 2 * ahead + (chunks - 1) * stages, all);
  std::vector<PipelineStep> out;
  for (std::int64_t k = 0; k < warmup; ++k) out.push_back(step(true, k));
  for (std::int64_t k = warmup; k < all; ++k) {
    out.push_back(step(true, k));
    out.push_back(step(false, k - warmup));
  }
  for (std::int64_t k = all - warmup; k < all; ++k) out.push_back(step(false, k));
  return out;
}

std::int64_t distinct_micro_batches(std::int64_t stages, std::int64_t chunks, std::int64_t micro_batches) {
  // Warm-up, two steady ones (the second finds what the first left), cool-down; whole groups when
  // interleaved.
  const std::int64_t enough = chunks == 1 ? stages + 1 : 3 * stages;
  return std::min(micro_batches, enough);
}

}  // namespace headroom::tape::megatron
