#pragma once

#include <cstdint>
#include <vector>

#include "models/base/result.h"
#include "models/sharding/parallel.h"

namespace headroom {

struct LayerRange {
  std::int64_t first = 0, count = 0;
  bool operator==(const LayerRange&) const = default;
};

/// What one pipeline rank holds.
struct PipelineStage {
  std::vector<LayerRange> chunks;  ///< one for each virtual stage, in the order of the forward
  bool embedding = false;          ///< first stage, in its first chunk
  bool head = false;               ///< last stage, in its last chunk: final norm and head
  std::int64_t layers() const;
};

/// Megatron's split of `layers` decoder layers over the pipeline.
///   * Even: layers / pipeline each.
///   * `first_stage_layers`, `last_stage_layers`: as stated, the rest evenly over the other stages.
///   * `account_for_embedding`, `account_for_loss`: even over layers plus one slot for each; the first
///   stage's
///     first and the last stage's last chunk give up the slot. Excludes the former.
///   * Virtual stages: each stage's layers in `virtual_pipeline` equal chunks; chunk c of all stages comes
///   before
///     chunk c + 1 of any.
/// Errors name the key: a count that does not divide, more stages than layers, keys that exclude each other.
Result<std::vector<PipelineStage>> pipeline_stages(std::int64_t layers, const Parallel& parallel);

}  // namespace headroom
