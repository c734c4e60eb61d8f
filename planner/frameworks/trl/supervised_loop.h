#pragma once

#include "planner/frameworks/trl/trainer_loop.h"

namespace headroom::trl {

/// The model of TRL's SFTTrainer, RewardTrainer or DPOTrainer (1.9), and DPO's reference: one micro-batch a
/// training step, B rows (chosen and rejected ones together) of as many tokens as the job's sequences have.
/// What the trainer holds between its calls all roles share.
///
/// A training step: `add_up_loss`, `take_micro_batch`, then of SFT `supervised_loss`, of a reward model
/// `reward_loss`, of DPO `policy_logprobs`, `reference_logprobs` (of role ref; or of the policy with its
/// adapters off; left out where they were computed before) and `preference_loss`; then `backward`,
/// `detach_loss`, and now and then `clip`, `step` and the gradients' release.
///
/// SFT's loss by `role().loss.token_logprob`: cross_entropy is the model's own on fp32 logits, fused_linear
/// with `chunk` rows TRL's chunked one (each chunk checkpointed, the head widened in it), with 0 Liger's,
/// selective_log_softmax the one of DFT.
class SupervisedLoop : public TrainerLoop {
 public:
  using TrainerLoop::TrainerLoop;

  /// The reference's log-probs of the whole batch, micro-batch by micro-batch, before the training.
  tape::Tensor forward(Experience& experience, Output output) override;

  // Its own calls. Between the first and the last of them micro-batches are of an evaluation: of its size and
  // without gradients.
  void begin_evaluation(Experience& experience);
  void end_evaluation(Experience& experience);
  void take_micro_batch(Experience& experience);
  void supervised_loss(Experience& experience);
  void reward_loss(Experience& experience);
  void policy_logprobs(Experience& experience);
  void reference_logprobs(Experience& experience);
  void preference_loss(Experience& experience);

 private:
  /// The trainer's variables during a micro-batch: [B,S] int64, or log-probs [B,S-1] and sums [B].
  struct Variables {
    tape::Tensor ids, mask, labels;
    tape::Tensor logits, ref_logits;  ///< [B,S,V], until the loss is formed
    tape::Tensor logprobs, sums, ref_sums;
    bool evaluates = false;
  };
  Variables& variables(Experience& experience) { return experience.own<Variables>(role().loop); }
  tape::ModelInput input_of(const Variables& variables) const;
  tape::Tensor model_loss(Variables& variables);
  tape::Tensor chunked_loss(Variables& variables);
  tape::Tensor liger_loss(Variables& variables);
  tape::Tensor dynamic_loss(Variables& variables);
};

}  // namespace headroom::trl
