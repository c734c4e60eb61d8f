#pragma once

#include <memory>
#include <vector>

#include "simulator/tape/modules/layers.h"
#include "simulator/trainer/loop.h"

namespace headroom::trl {

/// What TRL's trainers have of Transformers' Trainer: Accelerate's forward, and a training step a micro-batch
/// with its loss, backward, clipping and update. Calls in their order: `add_up_loss`, what makes `loss_`,
/// `backward`, `detach_loss`, and now and then `clip` and `step`.
class TrainerLoop : public trainer::Loop {
 public:
  using Loop::Loop;
  using Experience = trainer::Experience;

  /// The trainer's sum: once made, then anew with each training step's loss, which stays until the next one.
  void add_up_loss(Experience& experience);
  /// Accelerate's own division by steps of accumulation.
  void backward(Experience& experience);
  void detach_loss(Experience& experience);
  void clip(Experience& experience);
  void step(Experience& experience);
  /// From here to `end_equals` what runs stands for all micro-batches of an optimizer step but the first and
  /// the last: their memory only repeats.
  void begin_equals(Experience& experience);
  void end_equals(Experience& experience);

 protected:
  /// The model under autocast, its outputs in fp32 where Accelerate wraps it so.
  tape::Tensor call(const tape::ModelInput& input);
  /// What Accelerate makes of an output.
  tape::Tensor widened(tape::Tensor output) const;
  /// Tensors of a few numbers that come and go.
  void small_tensors(int count);
  /// Micro-batches of an optimizer step.
  std::int64_t together() const;

  tape::Tensor loss_, last_loss_;  ///< this training step's and the last one's
  tape::Tensor norm_;              ///< of the gradients, as logged
  tape::Tensor training_loss_;     ///< what the trainer sums losses up in
  std::int64_t backwards_ = 0;
};

/// Checkpointing off for a scope; the model stays in train mode, with its dropout.
class WithoutCheckpoints {
 public:
  explicit WithoutCheckpoints(tape::Model& model);
  ~WithoutCheckpoints() { model_.options().recompute = before_; }
  WithoutCheckpoints(const WithoutCheckpoints&) = delete;
  WithoutCheckpoints& operator=(const WithoutCheckpoints&) = delete;

 private:
  tape::Model& model_;
  Recompute before_;
};

/// Adapters out of the way for a scope.
class WithoutAdapters {
 public:
  explicit WithoutAdapters(tape::Model& model);
  ~WithoutAdapters();
  WithoutAdapters(const WithoutAdapters&) = delete;
  WithoutAdapters& operator=(const WithoutAdapters&) = delete;

 private:
  tape::Model& model_;
  std::vector<std::unique_ptr<tape::LoraPair>> pairs_;
};

/// ZeRO 3's weights in one piece for a scope in which nothing gathers them one by one, where the role's
/// sharding says so; else nothing.
class GatheredWeights {
 public:
  GatheredWeights(tape::Model& model, const Role& role);
  ~GatheredWeights() {
    if (all_.defined()) model_.hooks = hooks_;
  }
  GatheredWeights(const GatheredWeights&) = delete;
  GatheredWeights& operator=(const GatheredWeights&) = delete;

 private:
  tape::Model& model_;
  tape::UnitHooks* hooks_ = nullptr;
  tape::Tensor all_;
};

/// Entropies [B,T] of logits [B,T,V], 128 rows at a time, out of a copy that lies in order.
tape::Tensor entropies(const tape::Tensor& logits);

}  // namespace headroom::trl
