#include <fmt/format.h>

#include "planner/frameworks/openrlhf/job.h"

namespace headroom::openrlhf {
namespace {

std::optional<Problem> problem(std::string key, std::string message) {
  return Problem{.key = std::move(key), .message = std::move(message)};
}

std::optional<Problem> rollouts(const Settings& s) {
  const std::int64_t gpus = s.engines.value_or(0) * s.engine_tensor;
  if (s.generates() && s.shares_engine() && gpus != s.actor.size())
    return problem(flag(s, "vllm.num_engines"),
                   fmt::format("expected engines x tensor-parallel size to be the actor's {} GPUs "
                               "({} shares them), found {} x {}",
                               s.actor.size(), flag(s, "train.colocate_all"), *s.engines, s.engine_tensor));
  const bool alone = s.has_reward() && !s.colocate_all && !(s.colocate_critic_reward && s.has_critic());
  if (alone && s.reward.size() < 1)
    return problem(flag(s, s.reward.nodes < 1 ? "reward.num_nodes" : "reward.num_gpus_per_node"),
                   "expected GPUs for the reward model, found 0");
  if (s.async && s.engine_sleep)
    return problem(flag(s, "vllm.enable_sleep"), "expected no sleep where training is asynchronous");
  if (!(s.utilization > 0 && s.utilization <= 1))
    return problem(flag(s, "vllm.gpu_memory_utilization"),
                   fmt::format("expected a fraction above 0 and at most 1, found {}", s.utilization));
  const bool groups = s.estimator == "rloo" || s.estimator == "reinforce_baseline" ||
                      s.estimator == "group_norm" || s.estimator == "dr_grpo";
  if (groups && s.samples < 2)
    return problem(flag(s, "rollout.n_samples_per_prompt"),
                   fmt::format("expected more than one answer a prompt ({} compares them), found {}",
                               s.estimator, s.samples));
  return {};
}

}  // namespace

std::optional<Problem> find_problem(const Settings& s) {
  const std::int64_t gpus = s.actor.size(), shared = s.ring * s.tensor;
  if (gpus % shared != 0)
    return problem(flag(s, s.ring > 1 ? "ds.ring_attn_size" : "ds.tensor_parallel_size"),
                   fmt::format("expected sizes that divide the {} GPUs, found {}", gpus, shared));
  const std::int64_t data = gpus / shared;
  if (s.train_batch % data != 0)
    return problem(
        flag(s, "train.batch_size"),
        fmt::format("expected a multiple of the {} data-parallel ranks, found {}", data, s.train_batch));
  if (!s.dynamic && s.train_batch / data % s.micro_train != 0)
    return problem(flag(s, "train.micro_batch_size"),
                   fmt::format("expected a divisor of a rank's {} sequences, found {}", s.train_batch / data,
                               s.micro_train));
  if (s.rl())
    if (auto found = rollouts(s)) return found;
  return {};
}

}  // namespace headroom::openrlhf
