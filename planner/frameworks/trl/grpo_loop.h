#pragma once

#include "planner/frameworks/trl/trainer_loop.h"

namespace headroom::trl {

/// The policy of TRL's GRPOTrainer and RLOOTrainer (1.9): Accelerate wraps the forward (where it computes
/// under autocast, outputs go to fp32), `generate` samples through it or an engine makes the completions,
/// log-probs and entropies are formed from the completion's logits, one micro-batch a training step. A LoRA
/// reference is the policy with its adapters off. With `loss.temperature_copy` generation divides its scores
/// by a temperature, into new tensors. The tokenizer has no token to begin with.
///
/// Of `role().loss`: `train_entropy` none: no entropies are formed (releases before 0.20); forward: for the
/// log; backward: they are part of the loss. `token_logprob` fused_linear: Liger's loss out of hidden states,
/// one sequence at a time. Under ZeRO 3 `generate` gathers every weight first, unless
/// `sharding.gathers_to_generate` is off.
///
/// A training step: `add_up_loss`; for each generation `generate`, `pad_completions`, `forward` (actor: the
/// policy's own log-probs; ref), `score`, `make_advantages`, `shuffle`; then for each micro-batch
/// `join_micro_batch`, `forward_logprobs`, `form_loss`, `backward`, `detach_loss`; now and then `clip`,
/// `step` and the gradients' release.
class GrpoLoop : public TrainerLoop {
 public:
  using TrainerLoop::TrainerLoop;

  tape::Tensor generate(Experience& experience) override;
  tape::Tensor forward(Experience& experience, Output output) override;

  // Its own calls, in the order of a training step.
  void pad_completions(Experience& experience);
  void score(Experience& experience);
  void make_advantages(Experience& experience);
  void shuffle(Experience& experience);
  void join_micro_batch(Experience& experience);
  void forward_logprobs(Experience& experience);
  void form_loss(Experience& experience);

 private:
  tape::Tensor logprobs(const tape::Tensor& ids, const tape::Tensor& mask, std::int64_t response,
                        bool entropy, tape::Tensor& outputs);
  tape::Tensor all_logprobs(const Experience& experience);
  /// What one generation leaves for its micro-batches: ids and masks [B,P] and [B,R], advantages [B],
  /// log-probs [B,R] or undefined.
  struct Completions {
    tape::Tensor prompts, prompt_mask, ids, mask, advantages, old_logprobs, ref_logprobs, items;
    std::vector<tape::Tensor*> tensors() {
      return {&prompts, &prompt_mask, &ids, &mask, &advantages, &old_logprobs, &ref_logprobs};
    }
  };
  Completions made_;                                ///< by the running generation
  Completions buffered_;                            ///< what training steps read
  tape::Tensor ids_, mask_, logprobs_, entropies_;  ///< of the micro-batch: [b,T], [b,T], [b,R], [b,R]
  std::int64_t micro_batch_ = 0;
};

}  // namespace headroom::trl
