#include "planner/frameworks/verl/knob_keys.h"

#include "planner/frameworks/verl/knob_values.h"
#include "planner/frameworks/verl/sections.h"

namespace headroom::verl {
namespace {}  // namespace

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

void add_sizes(Keys& keys, const Settings& s, bool dynamic) {
  const auto add = [&](const std::string& start, const Packing& pass) {
    if (dynamic)
      keys.push_back({start + "max_token_len_per_gpu", word(pass.tokens)});
    else
      keys.push_back({start + "micro_batch_size_per_gpu", word(pass.micro)});
  };
  add(kActor + "ppo_", s.actor.train);
  add_log_prob(keys, s, dynamic);
  if (s.critic.exists && !s.v1) {
    add("critic.ppo_", s.critic.train);
    add("critic.forward_", s.critic.forward);
  }
  if (s.reward.exists) add(dynamic ? "reward_model.forward_" : "reward_model.", s.reward.forward);
  if (!dynamic) drop_deprecated(keys, s);
}

}  // namespace headroom::verl
