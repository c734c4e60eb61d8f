#pragma once

#include "simulator/trainer/loop.h"

namespace headroom::trainer {

/// A role of DeepSpeed-Chat's PPO trainer: a DeepSpeed engine, generation and four scoring forwards whose
/// outputs all live until the experience is made, token-level rewards and advantages in a loop over tokens,
/// one update of the actor, then one of the critic. The actor's logits, log-probs and token rewards live
/// until the critic has stepped, losses until the next step's stand; an experience until the next one is
/// made.
class DeepSpeedChatRole : public Loop {
 public:
  using Loop::Loop;

  std::optional<Status> act(const Action& action, Experience& experience) override;
  tape::Tensor forward(const Experience&, Output) override { return {}; }
  void train(const Experience&) override {}

 private:
  tape::ModelInput input_of(const Experience& experience) const;
  void take_prompts(Experience& experience);
  void generate_responses(Experience& experience);
  void score(Experience& experience, Output output);
  void gather_logprobs(Experience& experience);
  void drop_outputs(Experience& experience);
  tape::Tensor answer_ends(const Experience& experience);
  void make_advantages(Experience& experience);
  void train_actor(Experience& experience);
  void train_critic(Experience& experience);
  void update(tape::Tensor loss, Experience& experience);
};

}  // namespace headroom::trainer
