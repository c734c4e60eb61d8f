#include "models/sharding/pipeline.h"

#include <fmt/format.h>

#include <string>

namespace headroom {
namespace {

tl::unexpected<Error> bad(std::string key, std::string message) {
  return fail(Error{.message = std::move(message), .file = {}, .key = std::move(key)});
}

/// Layers of each stage, slots of embedding and loss included when they are accounted for.
Result<std::vector<std::int64_t>> slots(std::int64_t layers, const Parallel& parallel) {
  const std::int64_t stages = parallel.pipeline;
  const std::int64_t first = parallel.first_stage_layers, last = parallel.last_stage_layers;
  const std::int64_t extra = (parallel.account_for_embedding ? 1 : 0) + (parallel.account_for_loss ? 1 : 0);
  if (extra > 0 && (first > 0 || last > 0))
    return bad("first_stage_layers",
               "expected either counts of the first and last stage or account_for_embedding "
               "and account_for_loss, found both");
  const std::int64_t others = stages - (first > 0 ? 1 : 0) - (last > 0 && stages > 1 ? 1 : 0);
  const std::int64_t rest = layers + extra - first - (stages > 1 ? last : 0);
  if (rest < 0 || (others == 0 && rest != 0) || (others > 0 && rest % others != 0) ||
      (others > 0 && rest < others))
    return bad("pipeline", fmt::format("expected {} layers to divide over {} stages, found {} left for {}",
                                       layers, stages, rest, others));
  std::vector<std::int64_t> out(static_cast<size_t>(stages), others > 0 ? rest / others : 0);
  if (first > 0) out.front() = first;
  if (last > 0 && stages > 1) out.back() = last;
  return out;
}

}  // namespace

std::int64_t PipelineStage::layers() const {
  std::int64_t sum = 0;
  for (const LayerRange& chunk : chunks) sum += chunk.count;
  return sum;
}

Result<std::vector<PipelineStage>> pipeline_stages(std::int64_t layers, const Parallel& parallel) {
  const std::int64_t chunks = parallel.virtual_pipeline;
  if (parallel.pipeline < 1 || chunks < 1) return bad("pipeline", "expected at least one stage");
  HEADROOM_ASSIGN(const std::vector<std::int64_t> counts, slots(layers, parallel));
  std::vector<PipelineStage> stages(counts.size());
  std::int64_t next = 0;
  for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
    for (size_t rank = 0; rank < counts.size(); ++rank) {
      if (counts[rank] % chunks != 0)
        return bad("virtual_pipeline",
                   fmt::format("expected a divisor of the {} layers of stage {}, found {}", counts[rank],
                               rank, chunks));
      std::int64_t count = counts[rank] / chunks;
      if (parallel.account_for_embedding && rank == 0 && chunk == 0) --count;
      if (parallel.account_for_loss && rank + 1 == counts.size() && chunk + 1 == chunks) --count;
      stages[rank].chunks.push_back({next, count});
      next += count;
    }
  }
  stages.front().embedding = stages.back().head = true;
  return stages;
}

}  // namespace headroom
