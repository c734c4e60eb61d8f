#include "simulator/engine/generation/request_load.h"

#include <algorithm>
#include <cmath>

#include "simulator/job/response_lengths.h"

namespace headroom::engine {
namespace {

double replicas_of(const Job& job, const Engine& engine) {
  std::int64_t gpus = job.pools.front().gpus();
  for (const Process& process : job.processes)
    if (process.engine == engine.name)
      if (const Pool* pool = job.pool(process.pool)) gpus = pool->gpus();
  const std::int64_t ranks = std::max<std::int64_t>(1, engine.tensor * engine.pipeline);
  return static_cast<double>(std::max<std::int64_t>(1, gpus / ranks));
}

}  // namespace

double RequestLoad::requests() const {
  double out = 0;
  for (const Requests& one : ends) out += one.count;
  return out;
}

RequestLoad load_of(const Job& job, const Engine& engine, const Account& account) {
  const double replicas = replicas_of(job, engine);
  const std::int64_t prompts =
      job.batch.generated_prompts > 0 ? job.batch.generated_prompts : job.batch.prompts;
  RequestLoad out;
  out.batches = static_cast<double>(std::max<std::int64_t>(1, job.batch.generated_ahead));
  const double all = out.batches * static_cast<double>(prompts);
  const double requests = std::ceil(all * static_cast<double>(job.batch.samples) / replicas);
  out.prompts = std::min(requests, std::ceil(all / replicas));
  out.prompt =
      job.lengths.mean_prompt > 0 ? job.lengths.mean_prompt : static_cast<double>(job.batch.prompt_length);
  double cap = static_cast<double>(job.batch.response_length);
  const double mean = job.lengths.mean_response > 0 ? job.lengths.mean_response : cap;
  // A job at its usual lengths knows its longest response and sequence beside them.
  if (job.lengths.max_response > 0) cap = static_cast<double>(job.lengths.max_response);
  if (job.lengths.max_total > 0) cap = std::min(cap, static_cast<double>(job.lengths.max_total) - out.prompt);
  cap = std::max(cap, mean);
  out.slots = std::clamp(static_cast<double>(engine.max_sequences), 1.0, std::max(1.0, requests));
  out.cache = static_cast<double>(account.tokens);
  constexpr int kParts = 32;
  const int parts = static_cast<int>(std::clamp(requests, 1.0, double{kParts}));
  for (const double tokens : response_quantiles(mean, cap, parts))
    out.ends.push_back({requests / parts, std::max(1.0, tokens)});
  return out;
}

}  // namespace headroom::engine
