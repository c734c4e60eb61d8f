#include "planner/frameworks/verl/knob_keys.h"

#include "planner/frameworks/verl/knob_values.h"

namespace headroom::verl {
namespace {

const std::string kActor = "actor_rollout_ref.actor.";
const std::string kRef = "actor_rollout_ref.ref.";
const std::string kRollout = "actor_rollout_ref.rollout.";

}  // namespace

void add_log_prob(Keys& keys, const Settings& s, bool dynamic) {
  const auto add = [&](const std::string& at, const Packing& pass) {
    if (dynamic) {
      keys.push_back({at + "log_prob_max_token_len_per_gpu", word(pass.tokens)});
    } else {
      keys.push_back({at + "log_prob_micro_batch_size_per_gpu", word(pass.micro)});
    }
  };
  add(kRollout, s.actor.forward);
  if (s.ref.exists) add(kRef, s.ref.forward);
}

void drop_deprecated(Keys& keys, const Settings& s) {
  for (const std::string& key : s.deprecated_micro) keys.push_back({key, "null"});
}

void add_micro(Keys& keys, const Settings& s) {
  keys.push_back({kActor + "ppo_micro_batch_size_per_gpu", word(s.actor.train.micro)});
  add_log_prob(keys, s, false);
  if (s.critic.exists && !s.v1) {
    keys.push_back({"critic.ppo_micro_batch_size_per_gpu", word(s.critic.train.micro)});
    keys.push_back({"critic.forward_micro_batch_size_per_gpu", word(s.critic.forward.micro)});
  }
  if (s.reward.exists)
    keys.push_back({"reward_model.micro_batch_size_per_gpu", word(s.reward.forward.micro)});
  drop_deprecated(keys, s);
}

void add_budgets(Keys& keys, const Settings& s) {
  keys.push_back({kActor + "ppo_max_token_len_per_gpu", word(s.actor.train.tokens)});
  add_log_prob(keys, s, true);
  if (s.critic.exists && !s.v1) {
    keys.push_back({"critic.ppo_max_token_len_per_gpu", word(s.critic.train.tokens)});
    keys.push_back({"critic.forward_max_token_len_per_gpu", word(s.critic.forward.tokens)});
  }
  if (s.reward.exists)
    keys.push_back({"reward_model.forward_max_token_len_per_gpu", word(s.reward.forward.tokens)});
}

}  // namespace headroom::verl
