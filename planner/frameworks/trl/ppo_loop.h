#pragma once

#include <memory>
#include <vector>

#include "planner/frameworks/trl/ppo_variables.h"
#include "simulator/trainer/loop.h"

namespace headroom::trl {

/// One model of TRL's PPOTrainer (1.9, experimental) on one GPU without a serving engine: the policy
/// (`actor`), the value model (`critic`), the reference and the reward model. The trainer calls them without
/// autocast and without checkpointing, whatever its arguments say: its loop makes an Accelerator of its own.
/// What it holds between its calls all models share (PpoVariables).
///
/// An update: `take_queries`; `generate`; then for each chunk of rollouts `begin_chunk` (its log-probs, from
/// generation's scores), `score_reference`, `reference_logprobs`, `score_values`, `score_rewards`; then
/// `make_experience`; for each micro-batch `take_rows`, `update_values` (critic), `update_logits`,
/// `form_loss`, `backward`, `end_values_backward` (critic), `step` and the gradients' release (actor, critic), `end_micro_batch` (statistics;
/// after a mini-batch all that it held goes); `end_update`.
class PpoLoop : public trainer::Loop {
 public:
  using Loop::Loop;
  using Experience = trainer::Experience;

  tape::Tensor generate(Experience& experience) override;

  // Its calls, in the order of an update.
  void take_queries(Experience& experience);
  void begin_chunk(Experience& experience);
  void score_reference(Experience& experience);
  void reference_logprobs(Experience& experience);
  void score_values(Experience& experience);
  void score_rewards(Experience& experience);
  void make_experience(Experience& experience);
  void take_rows(Experience& experience);
  void update_values(Experience& experience);
  void update_logits(Experience& experience);
  void form_loss(Experience& experience);
  void backward(Experience& experience);
  void end_values_backward(Experience& experience);
  void step(Experience& experience);
  void end_micro_batch(Experience& experience);
  void end_update(Experience& experience);

 private:
  /// The variables; of a call's results an underscore keeps the last one, which goes with the next call.
  PpoVariables& variables(Experience& experience);
  void generate_chunk(const tape::Tensor& queries, std::vector<tape::Tensor>& sequences,
                      std::vector<tape::Tensor>& scores, std::int64_t response);
  tape::Tensor score(PpoVariables& variables, const tape::Tensor& sequences, tape::Tensor& last);
  void end_chunk(PpoVariables& variables);
  std::int64_t together() const;
  bool completes_gradients(const PpoVariables& variables) const;
};

}  // namespace headroom::trl
