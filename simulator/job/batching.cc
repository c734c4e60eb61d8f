#include "simulator/job/batching.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "simulator/job/response_lengths.h"

namespace headroom {

std::int64_t ranks_of(const Job& job, const Role& role) {
  const Process* process = job.process_of(role.name);
  const Pool* pool = process == nullptr ? nullptr : job.pool(process->pool);
  if (pool == nullptr && !job.pools.empty()) pool = &job.pools.front();
  return pool == nullptr ? 1 : pool->gpus();
}

std::int64_t data_parallel_size(const Job& job, const Role& role) {
  return std::max<std::int64_t>(1, ranks_of(job, role) / (role.parallel.model() * role.parallel.ulysses));
}

std::int64_t shard_group_size(const Job& job, const Role& role) {
  // FSDP's context ranks hold equal weights and share them; Megatron's are counted with its buffers.
  const bool megatron = role.sharding.kind == ShardingKind::megatron;
  const std::int64_t whole = megatron ? role.parallel.model() : role.parallel.tensor * role.parallel.pipeline;
  const std::int64_t all = std::max<std::int64_t>(1, ranks_of(job, role) / whole);
  return role.sharding.group > 0 ? std::min(role.sharding.group, all) : all;
}

bool lies_padded(const Job& job, const Role& role) {
  if (role.loop != nullptr) return true;
  const bool from_host = std::any_of(job.roles.begin(), job.roles.end(), [](const Role& one) {
    return (one.loss.keeps_logits && one.loss.logits_end == LogitsEnd::next) || !one.loss.reference.empty();
  });
  return !from_host && !role.packed && role.sharding.kind != ShardingKind::megatron &&
         std::all_of(job.engines.begin(), job.engines.end(),
                     [](const Engine& engine) { return engine.kind == EngineKind::transformers; });
}

std::int64_t mini_batch_of(const Job& job, const Role& role) {
  if (role.mini_batch > 0) return role.mini_batch;
  return job.batch.mini_batch > 0 ? job.batch.mini_batch : job.batch.sequences();
}

namespace {

/// Ranks that gather each layer together: none is ahead of another by more than a layer.
bool gathers_layers(const Role& role) {
  switch (role.sharding.kind) {
    case ShardingKind::fsdp1:
    case ShardingKind::fsdp2:
      return true;
    case ShardingKind::zero3:
      return true;
    default:
      return false;
  }
}

/// Tokens of `sequences` packed ones of the rank that drew most of them, over those of as many of `length`. Lengths
/// vary as given (`Lengths::spread`), else as those of responses that end at random.
double slowest_rank(const Job& job, const Role& role, std::int64_t sequences, std::int64_t length) {
  const Lengths& known = job.lengths;
  if (!role.packed || known.mean_response <= 0) return 1;
  const double prompt =
      known.mean_prompt > 0 ? known.mean_prompt : static_cast<double>(job.batch.prompt_length);
  const double mean = prompt + known.mean_response;
  const auto cap = static_cast<double>(known.max_response > 0 ? known.max_response : job.batch.response_length);
  const double deviation =
      known.spread > 0 ? known.spread : response_deviation(known.mean_response, std::max(cap, known.mean_response));
  double longest = mean;
  if (const auto ranks = static_cast<double>(data_parallel_size(job, role)); ranks > 1 && gathers_layers(role))
    longest += largest_of(ranks) * deviation / std::sqrt(static_cast<double>(std::max<std::int64_t>(1, sequences)));
  return longest / static_cast<double>(length);
}

}  // namespace

MicroBatches micro_batches(const Job& job, const Role& role, Pass pass, std::int64_t length) {
  const MicroBatch& micro = pass == Pass::train ? role.train : role.forward;
  const std::int64_t all = pass == Pass::train ? mini_batch_of(job, role) : job.batch.sequences();
  const std::int64_t mine = std::max<std::int64_t>(1, ceil_div(all, data_parallel_size(job, role)));
  const std::int64_t split = role.parallel.ulysses * role.parallel.context;

  MicroBatches result;
  if (micro.tokens > 0) {
    const std::int64_t budget = micro.tokens * split;
    result.count = std::min(mine, ceil_div(mine * length, budget));
    result.sequences = ceil_div(mine, result.count);
    const auto exceeded = static_cast<std::int64_t>(static_cast<double>(budget) * (1 + micro.overshoot));
    result.tokens = std::min(mine * length, std::max(result.sequences * length, exceeded));
    // No sequence is longer than the longest.
    result.sequences = std::max(result.sequences, ceil_div(result.tokens, length));
  } else {
    result.sequences = micro.sequences > 0 ? std::min(micro.sequences, mine) : mine;
    result.count = ceil_div(mine, result.sequences);
    result.tokens = result.sequences * length;
  }
  result.valid = result.tokens;
  result.filled = static_cast<double>(mine * length) / static_cast<double>(result.count * result.tokens);
  // What is packed up to a budget is dealt out evenly.
  if (micro.tokens == 0) result.filled *= slowest_rank(job, role, result.sequences, length);
  if (role.packed) result.tokens = round_up(result.tokens, std::max<std::int64_t>(1, micro.round_to));
  result.tokens_per_rank = ceil_div(result.tokens, split);
  return result;
}

MicroBatches listed_batch(const Role& role, Pass pass, std::span<const std::int64_t> lengths) {
  const MicroBatch& micro = pass == Pass::train ? role.train : role.forward;
  MicroBatches result;
  result.count = 1;
  result.sequences = static_cast<std::int64_t>(lengths.size());
  result.valid = std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
  result.tokens = role.packed ? round_up(result.valid, std::max<std::int64_t>(1, micro.round_to))
                              : result.sequences * *std::max_element(lengths.begin(), lengths.end());
  result.tokens_per_rank = ceil_div(result.tokens, role.parallel.ulysses * role.parallel.context);
  return result;
}

}  // namespace headroom
