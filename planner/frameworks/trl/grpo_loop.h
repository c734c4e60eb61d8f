#pragma once

#include "simulator/trainer/loop.h"

namespace headroom::trl {

/// The policy of TRL's GRPOTrainer (1.9) without a serving engine, on one GPU: Accelerate wraps the forward
/// (autocast inside, outputs to fp32), `generate` samples through it, log-probs and entropies are formed from
/// the completion's logits, one micro-batch a training step. A LoRA reference is the policy with its adapters
/// off. With `loss.temperature_copy` generation divides its scores by a temperature, into new tensors. The
/// tokenizer has no token to begin with.
///
/// A training step: `add_up_loss`; for each generation `generate`, `pad_completions`, `forward` (actor: the
/// policy's own log-probs; ref), `score`, `make_advantages`, `shuffle`; then for each micro-batch
/// `join_micro_batch`, `forward_logprobs`, `form_loss`, `backward`, `detach_loss`; now and then `clip`,
/// `step` and the gradients' release.
class GrpoLoop : public trainer::Loop {
 public:
  using Loop::Loop;
  using Experience = trainer::Experience;

  tape::Tensor generate(Experience& experience) override;
  tape::Tensor forward(Experience& experience, Output output) override;

  // Its calls, in the order of a training step.
  void add_up_loss(Experience& experience);
  void pad_completions(Experience& experience);
  void score(Experience& experience);
  void make_advantages(Experience& experience);
  void shuffle(Experience& experience);
  void join_micro_batch(Experience& experience);
  void forward_logprobs(Experience& experience);
  void form_loss(Experience& experience);
  void backward(Experience& experience);
  void detach_loss(Experience& experience);
  void clip(Experience& experience);
  void step(Experience& experience);

 private:
  tape::Tensor call(const tape::ModelInput& input);
  tape::Tensor logprobs(const tape::Tensor& ids, const tape::Tensor& mask, std::int64_t response,
                        bool entropy);
  tape::Tensor all_logprobs(const Experience& experience);
  void small_tensors(int count);

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
  tape::Tensor loss_, last_loss_;                   ///< this training step's and the last one's
  tape::Tensor norm_;                               ///< of the gradients, as logged
  tape::Tensor training_loss_;                      ///< what the trainer sums losses up in
  std::int64_t micro_batch_ = 0, backwards_ = 0;
};

}  // namespace headroom::trl
