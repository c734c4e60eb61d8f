#pragma once

#include <optional>

#include "simulator/phases/role_program.h"

namespace headroom::phases {

/// The policy of TRL's GRPOTrainer (1.9) without a serving engine, on one GPU: Accelerate wraps the forward
/// (autocast inside, outputs to fp32), `generate` samples through it, log-probs and entropies are formed from
/// the completion's logits, one micro-batch a training step. A LoRA reference is the policy with its adapters
/// off. With `loss.temperature_copy` generation divides its scores by a temperature, into new tensors.
class TrlGrpoRole : public RoleProgram {
 public:
  explicit TrlGrpoRole(const RoleContext& context) : RoleProgram(context) {}

  Status build() override;
  std::optional<Status> act(const Action& action, Experience& experience) override;

 private:
  tape::Tensor call(const tape::ModelInput& input);
  void generate_completions(Experience& experience);
  void make_experience(Experience& experience);
  tape::Tensor logprobs(const Experience& experience, std::int64_t first, std::int64_t count, bool entropy);
  tape::Tensor all_logprobs(const Experience& experience);
  void form_loss(const Experience& experience);
  void update();

  tape::Tensor loss_;
  tape::Tensor training_loss_;  ///< what the trainer sums losses up in
  std::int64_t micro_batch_ = 0;
};

}  // namespace headroom::phases
