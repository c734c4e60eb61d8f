#include "simulator/engine/graphs.h"

#include <algorithm>
#include <array>
#include <span>

#include "simulator/engine/coefficients.h"
#include "simulator/engine/profile.h"

namespace headroom::engine {
namespace {

constexpr std::int64_t kHopper = 90;
/// Parts that FlashAttention 3 may read keys and values in inside a full graph (vLLM's
/// flash_attn_max_num_splits_for_cuda_graph).
constexpr std::int64_t kKvParts = 32;

/// Whether full graphs hold accumulators: FlashAttention 3 runs on Hopper, in 16 bits. Attention sinks and
/// images that see each other (Gemma 3) take other kernels.
bool accumulates(const Engine& engine, const Host& host) {
  const Architecture& model = *engine.model;
  const bool sinks = std::any_of(model.decoder.groups.begin(), model.decoder.groups.end(),
                                 [](const LayerGroup& group) { return group.layer.attention.sinks; });
  const bool images_attend = model.family == "gemma3" && model.vision.blocks > 0;
  return engine.split_kv_graphs && host.capability == kHopper && engine.weights != DType::fp32 && !sinks &&
         !images_attend;
}

Bytes a_graph(const ModelSizes& sizes, Bytes graph_kernel) {
  const Bytes driver = graph_kernel > 0 ? kGraphKernelsALayer * (graph_kernel - kGraphKernel) : 0;
  const Bytes mixture = sizes.experts_per_token > 0 ? kGraphALayerOfExperts : 0;
  return kGraph + sizes.layers * (kGraphALayer + mixture + driver);
}

}  // namespace

std::vector<std::int64_t> capture_sizes(const Engine& engine) {
  if (!engine.graphs) return {};
  const std::int64_t most =
      std::min(std::min<std::int64_t>(2 * engine.max_sequences, 512), engine.max_batched_tokens);
  std::vector<std::int64_t> sizes = engine.capture_sizes;
  if (sizes.empty()) {
    sizes = {1, 2, 4};
    for (std::int64_t size = 8; size < 256; size += 8) sizes.push_back(size);
    for (std::int64_t size = 256; size <= 512; size += 16) sizes.push_back(size);
    std::erase_if(sizes, [most](std::int64_t size) { return size > most; });
  }
  return sizes;
}

Bytes vllm_graphs(const Engine& engine, const ModelSizes& sizes, const Host& host) {
  const std::vector<std::int64_t> captured = capture_sizes(engine);
  if (captured.empty()) return 0;
  const std::int64_t largest = *std::max_element(captured.begin(), captured.end());
  std::int64_t graphs = std::ssize(captured);
  Bytes pool = kFirstGraph + forward_peak(engine, sizes, largest);
  if (engine.full_and_piecewise_graphs) {
    std::int64_t largest_full = 0;
    for (const std::int64_t size : captured)
      if (size <= engine.max_sequences) {
        largest_full = std::max(largest_full, size);
        ++graphs;
      }
    if (accumulates(engine, host))
      pool = std::max<Bytes>(
          pool, bytes_of(DType::fp32, kKvParts * largest_full * sizes.heads * sizes.accumulated));
  }
  // Each size once for batches with adapters and once for those without (cudagraph_specialize_lora).
  if (engine.lora_slots > 0 && engine.full_and_piecewise_graphs) graphs *= 2;
  return pool + (graphs - 1) * a_graph(sizes, host.graph_kernel);
}

std::int64_t sglang_largest_graph(const Engine& engine, Bytes total_memory) {
  if (!engine.capture_sizes.empty())
    return *std::max_element(engine.capture_sizes.begin(), engine.capture_sizes.end());
  struct Limit {
    Bytes below;  ///< memory of the card, exclusive
    std::int64_t most, most_of_many;  ///< for up to three ranks, for more
  };
  // SGLang's server arguments: smaller cards keep their memory for the cache.
  static constexpr std::array kLimits = {Limit{20 * kGiB, 8, 8}, Limit{35 * kGiB, 24, 80},
                                         Limit{60 * kGiB, 32, 160}, Limit{1024 * kGiB, 256, 512}};
  static constexpr std::array kFew = {Limit{25 * kGiB, 8, 8}, Limit{1024 * kGiB, 160, 160}};
  const std::span<const Limit> limits = engine.few_graphs ? std::span<const Limit>(kFew) : kLimits;
  const auto limit = std::find_if(limits.begin(), limits.end() - 1,
                                  [&](const Limit& row) { return total_memory < row.below; });
  return std::min(engine.tensor < 4 ? limit->most : limit->most_of_many, engine.max_sequences);
}

Bytes sglang_graphs(const Engine& engine, const ModelSizes& sizes, const Host& host) {
  if (!engine.graphs) return 0;
  const std::int64_t most = sglang_largest_graph(engine, host.total);
  // 1, 2, 4, 8, 12, then every 8 to 256, every 16 to 512, every 32 above; the shorter list leaves out 12.
  const auto step = [&](std::int64_t size) -> std::int64_t {
    if (size <= 2) return size;
    if (size < 16) return engine.few_graphs && size >= 8 ? 8 : 4;
    return size < 256 ? 8 : size < 512 ? 16 : 32;
  };
  std::int64_t graphs = 0;
  for (std::int64_t size = 1; size <= most; size += step(size)) ++graphs;
  const std::int64_t first = std::min(graphs, kSglangFirstGraphs);
  return (first * kSglangFirstGraph + (graphs - first) * kSglangGraph) * sizes.layers / kGraphReferenceDepth;
}

}  // namespace headroom::engine
