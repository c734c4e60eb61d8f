#pragma once

#include <memory>

#include "simulator/job/loop_kind.h"
#include "simulator/trainer/experience.h"
#include "simulator/trainer/store/store.h"

namespace headroom::trainer {

/// What a role does to a batch: the standard verbs generate, forward and train over a store's model. Made
/// once the store is built; the store outlives it.
class Loop {
 public:
  explicit Loop(Store& store) : store_(store), context_(store.context()), tape_(store.context().tape) {}
  virtual ~Loop() = default;
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  /// Responses [B,T] of the prompts, sampled by the model itself.
  virtual tape::Tensor generate(Experience& experience);
  /// Log-probs [B,T-1], values [B,T] or rewards [B] of the whole batch, without gradients.
  virtual tape::Tensor forward(Experience& /*experience*/, Output /*output*/) { return {}; }
  /// All micro-batches, mini-batches and epochs.
  virtual void train(Experience& /*experience*/) {}
  /// Log-probs of one micro-batch, which stay until the next one's: what another role's update asks for.
  virtual void score_micro_batch() {}

  /// Before forward() and train(): in which step, and for which role the weights work (a LoRA reference's
  /// passes are the actor's with its adapters off).
  void begin_pass(const Role& as, int step) {
    acting_ = &as;
    step_ = step;
    store_.use_adapters(as.shares_weights_of.empty());
  }

 protected:
  /// After each micro-batch's forward without gradients, and after its backward.
  void empty_after_micro_batch() {
    if (role().empties_each_micro_batch) tape_.memory().empty_cache();
  }
  /// The role that the running pass is of.
  const Role& acting() const { return acting_ == nullptr ? role() : *acting_; }
  const Role& role() const { return store_.role(); }
  tape::Model& model() const { return store_.model(); }

  Store& store_;
  const RoleContext& context_;
  tape::Tape& tape_;
  const Role* acting_ = nullptr;
  int step_ = -1;
};

namespace detail {
template <typename L>
L* owner(void (L::*)(Experience&));
}  // namespace detail

/// `LoopCall::run` of a loop's member function.
template <auto member>
void run_call(Loop& loop, Experience& experience) {
  (static_cast<decltype(*detail::owner(member))>(loop).*member)(experience);
}
/// `LoopKind::make` of a loop.
template <typename L>
std::unique_ptr<Loop> make_own(Store& store) {
  return std::make_unique<L>(store);
}

/// The loop that the role's trainer and batches ask for.
std::unique_ptr<Loop> make_loop(Store& store);

}  // namespace headroom::trainer
