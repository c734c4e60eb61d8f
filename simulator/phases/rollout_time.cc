#include "simulator/phases/rollout_time.h"

#include <algorithm>
#include <cmath>

#include "simulator/time/rates.h"

namespace headroom {
namespace {

/// Kernels that an engine launches a layer without graphs, for their dispatch: two norms, products of
/// queries, output and MLP, rotary, cache, attention, activation, two all-reduces or their stand-ins.
constexpr double kKernelsALayer = 14;

/// One replica's work of a step.
struct Load {
  double sequences = 0, prompts = 0, prompt = 0;  ///< prompt: tokens
  double response = 0, cap = 0;                   ///< tokens: mean and longest
  double at_once = 1;
};

Load load_of(const Job& job, const Engine& engine, const engine::Account& account) {
  std::int64_t gpus = job.pools.front().gpus();
  for (const Process& process : job.processes)
    if (process.engine == engine.name)
      if (const Pool* pool = job.pool(process.pool)) gpus = pool->gpus();
  const std::int64_t ranks = std::max<std::int64_t>(1, engine.tensor * engine.pipeline);
  const auto replicas = static_cast<double>(std::max<std::int64_t>(1, gpus / ranks));
  const std::int64_t prompts =
      job.batch.generated_prompts > 0 ? job.batch.generated_prompts : job.batch.prompts;
  Load out;
  out.sequences = std::ceil(static_cast<double>(prompts * job.batch.samples) / replicas);
  out.prompts = std::min(out.sequences, std::ceil(static_cast<double>(prompts) / replicas));
  out.prompt =
      job.lengths.mean_prompt > 0 ? job.lengths.mean_prompt : static_cast<double>(job.batch.prompt_length);
  out.cap = static_cast<double>(job.batch.response_length);
  out.response = job.lengths.mean_response > 0 ? job.lengths.mean_response : out.cap;
  // A job at its usual lengths knows its longest sequence beside them.
  out.cap = std::max({out.cap, out.response, static_cast<double>(job.lengths.max_total) - out.prompt});
  const double held = static_cast<double>(account.tokens) / std::max(1.0, out.prompt + out.response);
  out.at_once = std::clamp(std::min(static_cast<double>(engine.max_sequences), held), 1.0, out.sequences);
  return out;
}

/// The rate at which sequences end, a token, so that their mean is `mean` when all have ended at `cap`.
double ending_rate(double mean, double cap) {
  if (mean >= cap * 0.999) return 0;
  double low = 0, high = 1;  // the mean falls with the rate
  for (int i = 0; i < 60; ++i) {
    const double rate = (low + high) / 2;
    (-std::expm1(-rate * cap) / rate > mean ? low : high) = rate;
  }
  return (low + high) / 2;
}

/// A replica's model on one of its GPUs.
class Decoding {
 public:
  Decoding(const Engine& engine, const engine::Account& account, const Hardware& hardware)
      : engine_(engine),
        account_(account),
        hardware_(hardware),
        ranks_(static_cast<double>(std::max<std::int64_t>(1, engine.tensor * engine.pipeline))),
        rate_(hardware.matrix.of(engine.weights)) {}

  Seconds prefill(const Load& load) const {
    Seconds out;
    const double tokens = load.prompts * load.prompt;
    const double layers = static_cast<double>(engine_.model->decoder.layers);
    const double width = static_cast<double>(engine_.model->decoder.hidden);
    const double flops =
        tokens * (2 * parameters_met(*engine_.model, 1) + 2 * layers * width * load.prompt) / ranks_;
    out[Spent::matrix] = hardware_.matrix_efficiency.seconds(flops / rate_);
    out[Spent::network] =
        reductions(static_cast<Bytes>(std::min(tokens, 8192.0)), std::max(1.0, tokens / 8192));
    return out;
  }

  /// A token of `running` sequences with `context` tokens each.
  Seconds token(double running, double context) const {
    Seconds out;
    const double parameters = parameters_met(*engine_.model, running) / ranks_;
    const double whole = static_cast<double>(engine_.model->parameters()) / ranks_;
    const double weights = static_cast<double>(account_.weights) * std::min(1.0, parameters / whole);
    const double cached =
        account_.tokens > 0 ? static_cast<double>(account_.kv) / static_cast<double>(account_.tokens) : 0;
    const double logits = 4 * running * static_cast<double>(engine_.model->decoder.vocabulary);
    constexpr double kSamplingPasses = 6;  // gather, cast, scale, softmax, draw
    const double read = memory_seconds(hardware_, static_cast<Bytes>(weights));
    const double computed =
        hardware_.matrix_efficiency.seconds(2 * parameters_met(*engine_.model, 1) / ranks_ * running / rate_);
    out[Spent::matrix] = std::max(0.0, computed - read);
    out[Spent::memory] =
        read +
        memory_seconds(hardware_, static_cast<Bytes>(running * context * cached + kSamplingPasses * logits));
    const double layers = static_cast<double>(engine_.model->decoder.layers);
    if (engine_.graphs) out[Spent::memory] += layers * kKernelsALayer * hardware_.latencies.kernel / 2;
    out[Spent::network] = reductions(static_cast<Bytes>(running), 1);
    const double device = out.total();
    out[Spent::host] = hardware_.host_times.engine_step + running * hardware_.host_times.engine_sequence;
    if (!engine_.graphs)
      out[Spent::host] += std::max(0.0, layers * kKernelsALayer * hardware_.latencies.operation - device);
    return out;
  }

 private:
  double reductions(Bytes tokens, double times) const {
    if (engine_.tensor <= 1) return 0;
    const Bytes message = tokens * engine_.model->decoder.hidden * element_size(engine_.weights);
    double each = collective_seconds(hardware_, Collective::all_reduce, message,
                                     {.ranks = engine_.tensor, .nodes = 1});
    // Engines reduce small messages in one kernel in which every rank reads all others' over NVLink (vLLM's and
    // SGLang's custom all-reduce).
    if (hardware_.links.nvlink > 0)
      each = std::min(each, hardware_.latencies.kernel + 2 * hardware_.latencies.node_hop +
                                static_cast<double>(message) * static_cast<double>(engine_.tensor - 1) /
                                    hardware_.links.nvlink);
    return times * 2 * static_cast<double>(engine_.model->decoder.layers) * each;
  }

  const Engine& engine_;
  const engine::Account& account_;
  const Hardware& hardware_;
  double ranks_, rate_;
};

}  // namespace

double parameters_met(const Architecture& model, double tokens) {
  double everywhere = 0, met = 0;
  for (const Tensor& tensor : model.tensors) {
    if (!tensor.tied_to.empty() || tensor.buffer) continue;
    const auto count = static_cast<double>(tensor.count());
    if (tensor.expert == -1 || tensor.layer < 0) {
      everywhere += count;
      continue;
    }
    const Mlp& mlp = model.decoder.layer(tensor.layer).mlp;
    const double experts = static_cast<double>(std::max<std::int64_t>(1, mlp.experts));
    met += count * -std::expm1(tokens * std::log1p(-std::min(
                                            0.999999, static_cast<double>(mlp.experts_per_token) / experts)));
  }
  return everywhere + met;
}

Seconds rollout_seconds(const Job& job, const Engine& engine, const engine::Account& account,
                        const Hardware& hardware) {
  if (engine.model == nullptr || job.pools.empty() || hardware.memory_bandwidth <= 0) return {};
  const Load load = load_of(job, engine, account);
  const Decoding decoding(engine, account, hardware);
  Seconds out = decoding.prefill(load);
  // While others wait, as many run as fit; each that ends makes room for the next.
  const double waited = std::max(0.0, load.sequences / load.at_once - 1);
  if (waited > 0)
    out += decoding.token(load.at_once, load.prompt + load.response / 2) * (waited * load.response);
  // Then the batch shrinks as sequences end.
  const double rate = ending_rate(load.response, load.cap);
  constexpr int kStretches = 24;
  for (int i = 0; i < kStretches; ++i) {
    const double tokens = load.cap / kStretches, at = (i + 0.5) * tokens;
    const double running = load.at_once * std::exp(-rate * at);
    if (running < 0.5) break;
    out += decoding.token(std::max(1.0, running), load.prompt + at) * tokens;
  }
  return out;
}

}  // namespace headroom
