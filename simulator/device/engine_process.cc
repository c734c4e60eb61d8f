#include "simulator/device/engine_process.h"

#include <fmt/format.h>

#include <algorithm>

namespace headroom {

using engine::Residency;

engine::Work engine_work(const Job& job, const Engine& engine) {
  const auto runs = std::find_if(job.processes.begin(), job.processes.end(),
                                 [&](const Process& process) { return process.engine == engine.name; });
  const Pool* pool = runs == job.processes.end() ? nullptr : job.pool(runs->pool);
  const std::int64_t gpus = pool == nullptr ? job.pools.front().gpus() : pool->gpus();
  const std::int64_t replicas =
      std::max<std::int64_t>(1, gpus / (engine.tensor * engine.pipeline * engine.data));
  const std::int64_t prompts = std::max(job.batch.prompts, job.batch.generated_prompts);
  engine::Work work;
  work.sequences = ceil_div(prompts * job.batch.samples, replicas * engine.data);
  work.prompt = job.batch.prompt_length;
  work.length = job.batch.sequence_length();
  return work;
}

EngineProcess::EngineProcess(const Job& job, const Engine& engine, const Hardware& hardware,
                             bool inside_trainer)
    : engine_(engine), host_(engine::host_of(hardware)), work_(engine_work(job, engine)) {
  if (!inside_trainer) return;
  // The trainer's context, kernels and handle serve the engine too; its groups are its own.
  host_.shares_process = true;
  host_.context = 0;
  host_.cublas_handle = 0;
}

Result<EngineProcess::Effect> EngineProcess::act(Verb verb, Bytes others) {
  Effect effect;
  switch (verb) {
    case Verb::start_engine: {
      host_.others = others;
      HEADROOM_ASSIGN(account_, engine::account(engine_, host_, work_));
      effect.highest = engine::resident(account_, Residency::starting);
      state_ = Residency::awake;
      break;
    }
    case Verb::sleep:
      effect.highest = device();
      if (started()) state_ = Residency::asleep;
      break;
    case Verb::wake_weights:
      if (state_ == Residency::asleep) state_ = Residency::weights_only;
      effect.highest = device();
      break;
    case Verb::wake_kv:
      if (started()) state_ = Residency::awake;
      effect.highest = device();
      break;
    case Verb::score:
      if (started()) effect.highest = engine::resident(account_, Residency::awake);
      if (started()) state_ = Residency::asleep;
      break;
    default:
      effect.highest = device();
      break;
  }
  effect.after = device();
  return effect;
}

EngineReport EngineProcess::start_up() const {
  const engine::Account& a = account_;
  EngineReport out;
  out.engine = engine_.name;
  out.release = engine_.release;
  out.weights = a.weights;
  out.activation_peak = a.profiled_activation;
  out.non_torch = a.growth;
  out.graphs = a.graphs;
  out.kv_cache = a.kv;
  out.kv_tokens = a.tokens;
  out.kv_blocks = a.blocks;
  out.concurrency = a.concurrency;
  out.before = a.context + a.communicators;
  out.asleep = engine::resident(a, Residency::asleep).total();
  return out;
}

std::optional<std::string> EngineProcess::slow() const {
  if (!started() || account_.failure || !account_.preempts()) return std::nullopt;
  return fmt::format(
      "{}: the KV cache holds {} sequences of {} tokens at once, {} could run; requests are preempted and "
      "recomputed",
      engine_.name, account_.at_once, work_.length, account_.wanted);
}

}  // namespace headroom
