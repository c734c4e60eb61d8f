#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "simulator/tape/generate/sample.h"
#include "simulator/trainer/loop.h"

namespace headroom::deepspeed_chat {

/// What the trainer holds between its calls, beside the experience.
struct Variables {
  using Tensor = tape::Tensor;
  Tensor prompt_mask;                       ///< [B,P] int64
  Tensor returns;                           ///< as the advantages
  Tensor logits;                            ///< of the last update's forward
  Tensor actor_logits, ref_logits;          ///< [B,T,V], of scoring forwards
  std::vector<Tensor> outputs;              ///< of generation and scoring, until log-probs are gathered
  std::vector<Tensor> locals;               ///< of the code that updates models, until it returns
  std::vector<Tensor> losses, last_losses;  ///< of this step's updates and of the last one's
  std::vector<Tensor> previous;             ///< the last step's experience, until the new one stands
  std::vector<Tensor> waiting;              ///< this step's earlier experiences (--generation_batches)
  std::array<std::int64_t, 2> micro_batches{};  ///< trained on, by actor and critic
  bool trained = true;                          ///< the experience that is held has been trained on
};

/// Of the micro-batches whose gradients add up to a step so many are run: one that is added to, and the last.
inline constexpr std::int64_t kShownAccumulation = 2;

/// A role of DeepSpeed-Chat's PPO trainer: generation and four scoring forwards whose outputs all live until
/// the experience is made, token-level rewards and advantages in a loop over tokens, one update of the actor,
/// then one of the critic. The actor's logits, log-probs and token rewards live until the critic has stepped,
/// losses until the next step's stand; an experience until the next one is made.
///
/// A step: `take_batch` (actor), `generate`, `make_mask`, `keep_logits` (actor, ref), `forward` (reward,
/// critic), `widen_logits` (fp32 loss), `gather_logprobs`, `drop_outputs`, `train` (actor, critic) and `average` (ema)
/// for each micro-batch, `end_update`.
class ChatLoop : public trainer::Loop {
 public:
  using Loop::Loop;
  using Experience = trainer::Experience;

  tape::Tensor generate(Experience& experience) override;
  tape::Tensor forward(Experience& experience, Output output) override;
  void train(Experience& experience) override;

  void take_batch(Experience& experience);
  void make_mask(Experience& experience);
  void keep_logits(Experience& experience);
  void widen_logits(Experience& experience);
  void gather_logprobs(Experience& experience);
  void drop_outputs(Experience& experience);
  void average(Experience& experience);
  void end_update(Experience& experience);

 private:
  Variables& variables(Experience& experience) const { return experience.own<Variables>(role().loop); }
  tape::Tensor sampled(Experience& experience, tape::SampleOptions& options);
  Experience rows_of(const Experience& experience) const;
  tape::ModelInput input_of(const Experience& experience) const;
  tape::Tensor answer_ends(const Experience& experience);
  void make_advantages(Experience& experience);
  void train_actor(Experience& experience);
  void train_critic(Experience& experience);
  void update(tape::Tensor loss, Experience& experience);

  bool completes_ = true;  ///< the running micro-batch's gradients are the last of a step
};

extern const LoopKind kChatLoop;

}  // namespace headroom::deepspeed_chat
