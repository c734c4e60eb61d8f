#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "simulator/trainer/loop.h"
#include "simulator/trainer/trl_ppo_loop.h"

namespace headroom::trainer {

/// One model of TRL's PPOTrainer (1.9, experimental) on one GPU without a serving engine: the policy
/// (`actor`), the value model (`critic`), the reference and the reward model. The trainer calls them without
/// autocast and without checkpointing, whatever its arguments say: its loop makes an Accelerator of its own.
/// What it holds between its calls is in `Experience::ppo`.
///
/// Actions: take_prompts (actor); generate; then for each chunk of rollouts gather_logprobs (actor, from
/// generation's scores), forward (ref), gather_logprobs (ref), forward (critic), forward (reward); experience
/// (actor); then for each micro-batch take_prompts (critic: its rows), loss (critic: its values, actor: its
/// logits), gather_logprobs (actor: the loss of both), backward (actor), optimizer_step and release (actor,
/// critic), drop_outputs (actor: the update's statistics, and after a mini-batch all that it held); end_step
/// (actor).
class TrlPpoRole : public Loop {
 public:
  using Loop::Loop;

  std::optional<Status> act(const Action& action, Experience& experience) override;
  tape::Tensor forward(const Experience&, Output) override { return {}; }
  void train(const Experience&) override {}

 private:
  PpoLoop& loop(Experience& experience);
  void take_prompts(Experience& experience);
  void generate_chunks(Experience& experience);
  void generate_chunk(const tape::Tensor& queries, std::vector<tape::Tensor>& sequences,
                      std::vector<tape::Tensor>& scores, std::int64_t response);
  void begin_chunk(Experience& experience);
  void score(Experience& experience);
  void reference_logprobs(Experience& experience);
  void end_chunk(PpoLoop& loop);
  void take_micro_batch(Experience& experience);
  void update_values(Experience& experience);
  void update_logits(Experience& experience);
  void end_update(Experience& experience);
};

}  // namespace headroom::trainer
