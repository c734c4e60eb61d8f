#pragma once

#include <vector>

#include "planner/frameworks/colossalchat/supervised_loop.h"
#include "simulator/trainer/loop.h"

namespace headroom::colossalchat {

/// What the trainer holds between its calls, beside the experience.
struct Variables {
  using Tensor = tape::Tensor;
  Tensor prompt_mask;
  std::vector<Tensor> actor_parts, ref_parts;  ///< logits of a scoring forward each
  Tensor actor_logits, ref_logits;             ///< [B,T,V]
  std::vector<Tensor> outputs;                 ///< of scoring, until the experience is made
  std::vector<Tensor> kept;                    ///< of the running update, until both models have stepped
  std::vector<Tensor> batch;                   ///< the update's experience beside what `Experience` names
  std::int64_t collects = 0, updates = 0;      ///< of the running episode that were begun
};

/// A role of ColossalChat's PPO trainer. An episode collects batches of experience (generation, scoring forwards whose
/// outputs live until the experience is made, then everything goes to the host), then trains on the whole buffer,
/// batch by batch, the actor and then the critic, as often as is asked for. `Experience::batch` is the buffer; a
/// collect has the role's forward batch, an update its micro-batch.
///
///   collect   take_prompts, generate, score (actor, ref), [gather], forward (reward, critic), make_experience
///   update    take_batch, train (actor, critic), [update (actor, critic)], end_batch
class ChatLoop : public trainer::Loop {
 public:
  using Loop::Loop;
  using Experience = trainer::Experience;

  tape::Tensor generate(Experience& experience) override;
  tape::Tensor forward(Experience& experience, Output output) override;
  void train(Experience& experience) override;

  void take_prompts(Experience& experience);
  virtual void score(Experience& experience) = 0;
  void make_experience(Experience& experience);
  void take_batch(Experience& experience);
  void end_batch(Experience& experience);

 protected:
  using Tensor = tape::Tensor;
  virtual void train_actor(Experience& experience) = 0;
  virtual void finish(const Experience& experience, bool completes) = 0;

  Variables& variables(Experience& experience) const;
  /// Sequences of a collect.
  std::int64_t collected() const { return context_.forward_batch; }
  /// For how many equal collects, or updates, the running one stands.
  std::int64_t all_collects(const Experience& e) const;
  std::int64_t all_updates(const Experience& e) const;
  /// Whether the running update's gradients complete an optimizer step.
  bool completes(Experience& experience) const;
  tape::ModelInput input_of(const Experience& experience) const;
  Tensor policy_loss(Experience& experience, const Tensor& logits);
  /// Next-token loss of the texts that the update also learns; their logits stay.
  Tensor text_loss(Experience& experience, bool wide);
  void train_critic(Experience& experience);
};

/// Coati, up to 0.3.5. Logits and caches of scoring forwards live side by side; the actor's and the texts' losses
/// have one backward; each model steps after its own backward.
class CoatiLoop : public ChatLoop {
 public:
  using ChatLoop::ChatLoop;
  void score(Experience& experience) override;

 protected:
  void train_actor(Experience& experience) override;
  void finish(const Experience& experience, bool completes) override;
};

/// ColossalChat since 0.3.7. Scoring forwards of few sequences, whose logits are joined; losses have backwards of their
/// own; both models step at the end of an update that completes the accumulated gradients (`update`).
class BoostedLoop : public ChatLoop {
 public:
  using ChatLoop::ChatLoop;
  void score(Experience& experience) override;
  void gather(Experience& experience);
  void update(Experience& experience);

 protected:
  void train_actor(Experience& experience) override;
  void finish(const Experience&, bool) override {}
};

extern const LoopKind kCoatiLoop, kBoostedLoop;
inline constexpr const LoopKind* kLoops[] = {&kCoatiLoop, &kBoostedLoop, &kSupervisedLoop};

}  // namespace headroom::colossalchat
