#include "simulator/engine/generation/token_step.h"

#include <algorithm>
#include <cmath>

#include "simulator/time/power_limit.h"
#include "simulator/time/rates.h"

namespace headroom::engine {
namespace {

/// Kernels of a decoding layer beside its products, as vLLM and SGLang fuse them: two norms with their
/// residual sums, rotary positions, the cache's update, attention, the activation.
constexpr double kSmallKernels = 6;
/// Of routed experts: choice, sorting tokens by expert in two kernels, the weighted sum.
constexpr double kRoutingKernels = 4;
/// Of an adapter at one product: shrinking, expanding, the buffer between them.
constexpr double kAdapterKernels = 3;
/// What they cost the host, in eager products of a Linear module: two Triton kernels of some 25 arguments behind
/// registered operations. Measured side by side: `validator/pytorch/engine_host.py`,
/// validator/results/h200-2026-11-29/engine_host.json.
constexpr double kAdapterProducts = 114.332 / 14.548;
/// Products of a layer: queries, keys and values; output; gate and up; down. Latent attention has two more
/// down projections and two absorbed ones; routed experts a router, and shared ones two of their own.
constexpr double kProducts = 4, kLatentProducts = 3, kRouterProducts = 1, kSharedProducts = 2;
/// Passes over logits in fp32 that sampling takes, those of eager PyTorch: widened, scaled, softmax, divided by noise, the
/// largest; log-probabilities of what was drawn, and its rank. Measured on H200 with 16 to 256 rows of 128,256
/// (validator/pytorch/measure_sustained.py, part sampler): 3.26 us a row.
constexpr double kSamplingPasses = 28;
/// vLLM's and SGLang's own all-reduce: one kernel in which each rank reads all others' memory, for messages
/// up to 8 MiB in one node.
constexpr Bytes kOneKernelReduction = 8 * kMiB;

double log2_up(double value) {
  return std::ceil(std::log2(std::max(1.0, value)));
}

}  // namespace

TokenSteps::TokenSteps(const Engine& engine, const Account& account, const Hardware& hardware,
                       std::int64_t gpus_per_node)
    : engine_(engine),
      account_(account),
      hardware_(hardware),
      gpus_per_node_(std::max<std::int64_t>(1, gpus_per_node)),
      parts_(*engine.model),
      ranks_(static_cast<double>(std::max<std::int64_t>(1, engine.tensor * engine.pipeline))),
      rate_(hardware.matrix.of(engine.weights)),
      layers_(static_cast<double>(engine.model->decoder.layers)),
      hidden_(static_cast<double>(engine.model->decoder.hidden)),
      vocabulary_(static_cast<double>(engine.model->decoder.vocabulary)) {
  weight_bytes_ = static_cast<double>(account.weights) * ranks_ / std::max(1.0, parts_.all());
  if (account.tokens > 0)
    cached_bytes_ = static_cast<double>(account.kv) / static_cast<double>(account.tokens);
  double products = 0, kernels = 0;
  for (const LayerGroup& group : engine.model->decoder.groups) {
    const Layer& layer = group.layer;
    const auto count = static_cast<double>(group.count);
    double mine = kProducts, small = kSmallKernels;
    if (layer.attention.kind == AttentionKind::latent) mine += kLatentProducts;
    if (layer.mlp.kind == MlpKind::experts) {
      mine += kRouterProducts + (layer.mlp.shared_hidden > 0 ? kSharedProducts : 0);
      small += kRoutingKernels;
    }
    if (engine.lora_slots > 0) adapted_a_layer_ += count * mine;
    products += count * mine;
    kernels += count * small;
  }
  adapted_a_layer_ /= std::max(1.0, layers_);
  products_a_layer_ = products / std::max(1.0, layers_);
  kernels_a_layer_ = kernels / std::max(1.0, layers_);
}

double TokenSteps::reduction(double tokens) const {
  if (engine_.tensor <= 1) return 0;
  const auto message = static_cast<Bytes>(tokens * hidden_ *
                                          element_size(engine_.kv == DType::fp8 ? DType::bf16 : engine_.kv));
  const std::int64_t nodes = ceil_div(engine_.tensor, gpus_per_node_);
  const RankGroup group{.ranks = engine_.tensor, .nodes = std::min(engine_.tensor, nodes)};
  const double ring = collective_seconds(hardware_, Collective::all_reduce, message, group);
  const Latencies& wait = hardware_.latencies;
  const auto bytes = static_cast<double>(message);
  if (nodes > 1) {
    // NCCL's trees: a chain through each node, a binary tree between them, up and down again.
    const double inside = static_cast<double>(engine_.tensor) / static_cast<double>(nodes) - 1;
    const double tree =
        wait.kernel + 2 * (inside * wait.node_hop + log2_up(static_cast<double>(nodes)) * wait.network_hop) +
        2 * bytes / (hardware_.links.network * (inside + 1));
    return std::min(ring, tree);
  }
  if (hardware_.links.nvlink > 0 && message <= kOneKernelReduction)
    return std::min(ring, wait.kernel + 2 * wait.node_hop +
                              bytes * static_cast<double>(engine_.tensor - 1) / hardware_.links.nvlink);
  return ring;
}

/// Each by its own traffic and arithmetic: small ones reach less of the card's rates.
double TokenSteps::products(double tokens) const {
  const double head = vocabulary_ * hidden_ / ranks_;
  const double body = std::max(0.0, parts_.met(tokens) / ranks_ - head);
  const double flops = 2 * tokens * std::max(0.0, parts_.met(1) / ranks_ - head);
  const double count = std::max(1.0, layers_ * products_a_layer_);
  const auto one = [&](double parameters, double work) {
    return hardware_.latencies.kernel + std::max(hardware_.memory_efficiency.seconds(
                                                     parameters * weight_bytes_ / hardware_.memory_bandwidth),
                                                 hardware_.matrix_efficiency.seconds(work / rate_));
  };
  return count * one(body / count, flops / count) + one(head, 2 * tokens * head);
}

double TokenSteps::attention(double running, double context) const {
  return layers_ * memory_seconds(hardware_, static_cast<Bytes>(running * context * cached_bytes_ /
                                                                std::max(1.0, layers_)));
}

double TokenSteps::sampling(double running) const {
  constexpr double kWide = 4;
  return kSamplingPasses * memory_seconds(hardware_, static_cast<Bytes>(kWide * running * vocabulary_));
}

double TokenSteps::small_kernels() const {
  return layers_ * (kernels_a_layer_ + kAdapterKernels * adapted_a_layer_) * hardware_.latencies.kernel;
}

double TokenSteps::dispatch() const {
  const HostTimes& host = hardware_.host_times;
  const double small = host.allocation + host.launch;
  return layers_ * (kernels_a_layer_ * small +
                    (products_a_layer_ + kAdapterProducts * adapted_a_layer_) * (small + host.product));
}

Seconds TokenSteps::decode(double running, double context) const {
  Seconds out;
  out[Spent::memory] = products(running) + attention(running, context) + sampling(running) + small_kernels();
  out[Spent::network] = 2 * layers_ * reduction(running);
  const double device = out.total();
  const double python =
      engine_.host_work * (hardware_.host_times.engine_step + running * hardware_.host_times.engine_sequence);
  if (engine_.schedules_ahead && engine_.graphs)
    out[Spent::host] = std::max(0.0, python - device);
  else
    out[Spent::host] = python + (engine_.graphs ? 0 : std::max(0.0, dispatch() - device));
  return out;
}

Seconds TokenSteps::prefill(double tokens, double length) const {
  Seconds out;
  if (tokens <= 0) return out;
  const double chunk =
      std::min(tokens, static_cast<double>(std::max<std::int64_t>(1, engine_.max_batched_tokens)));
  const double chunks = tokens / chunk;
  const double flops = tokens * (2 * parts_.met(1) + 2 * layers_ * hidden_ * length) / ranks_;
  out[Spent::matrix] = hardware_.matrix_efficiency.seconds(flops / rate_);
  out = at_power_limit(out, out, hardware_.matrix);
  out[Spent::network] = chunks * 2 * layers_ * reduction(chunk);
  const double device = out.total();
  // Prefill steps run without graphs, or with graphs of the parts between attentions.
  out[Spent::host] = chunks * hardware_.host_times.engine_step;
  out[Spent::host] += std::max(0.0, chunks * dispatch() - device);
  return out;
}

}  // namespace headroom::engine
