#pragma once

#include <optional>

#include "simulator/trainer/loop.h"

namespace headroom::trainer {

/// The policy of TRL's GRPOTrainer (1.9) without a serving engine, on one GPU: Accelerate wraps the forward
/// (autocast inside, outputs to fp32), `generate` samples through it, log-probs and entropies are formed from
/// the completion's logits, one micro-batch a training step. A LoRA reference is the policy with its adapters
/// off. With `loss.temperature_copy` generation divides its scores by a temperature, into new tensors. The
/// tokenizer has no token to begin with.
///
/// Actions: take_prompts (the trainer's sum of losses, made once, then with each training step's loss); for
/// each generation generate, experience (padded ids), forward (actor: the policy's own log-probs, ref),
/// take_rewards, drop_prompts (advantages; the rows that were scored go), end_step (shuffled, they replace
/// the last generation's); then for each micro-batch loss with Output::logits (its rows joined),
/// gather_logprobs (its forward), loss, backward, drop_outputs (the graph goes); optimizer_step with
/// kGradients (clipping alone) and without, release.
class TrlGrpoRole : public Loop {
 public:
  using Loop::Loop;

  std::optional<Status> act(const Action& action, Experience& experience) override;
  tape::Tensor forward(const Experience&, Output) override { return {}; }
  void train(const Experience&) override {}

 private:
  tape::Tensor call(const tape::ModelInput& input);
  void generate_completions(Experience& experience);
  void make_experience(Experience& experience);
  void take_rewards(Experience& experience);
  void make_advantages(Experience& experience);
  void shuffle(Experience& experience);
  void join_micro_batch(const Experience& experience);
  tape::Tensor logprobs(const tape::Tensor& ids, const tape::Tensor& mask, std::int64_t response,
                        bool entropy);
  tape::Tensor all_logprobs(const Experience& experience);
  void form_loss(const Experience& experience);
  void gather_micro_batch(const Experience& experience);
  void add_up_loss();
  void clip();
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
  std::int64_t micro_batch_ = 0;
};

}  // namespace headroom::trainer
