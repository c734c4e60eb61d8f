#pragma once

#include <memory>
#include <vector>

#include "simulator/tape/modules/model.h"
#include "simulator/trainer/role_context.h"

namespace headroom::trainer {

/// Where a role's weights, gradients and optimizer states lie on one rank, and what becomes of them: built,
/// gathered around the work that needs them, updated, moved, sent and saved. What is done to a batch is the
/// loop's (loop.h); any loop runs on any store that holds a whole `model()` to call.
class Store {
 public:
  explicit Store(const RoleContext& context) : context_(context), tape_(context.tape) {}
  virtual ~Store() = default;
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  /// The model comes to exist. Errors: no program covers it.
  virtual Status build() = 0;
  virtual void build_optimizer() = 0;
  virtual bool has_optimizer() const { return true; }
  /// A resumed run's optimizer states.
  virtual void create_states() = 0;

  /// Before a micro-batch's forward. `last`: of its optimizer step, so that its backward completes gradients.
  virtual void begin_micro_batch(bool /*last*/) {}
  virtual void backward(const tape::Tensor& loss) = 0;
  /// After a backward that another store's loss started and that reached this one's weights.
  virtual void end_joint_backward() {}
  /// Before all forwards of a pass without gradients, and after them.
  virtual void begin_pass() {}
  virtual void end_pass() {}
  /// An optimizer step: gradients are clipped, weights updated, gradients dropped.
  virtual void step() = 0;
  // Its parts, for loops that call them one by one.
  virtual void clip() {}
  virtual void update() { step(); }

  /// Parts (bits of Parts) to the device or to the host.
  virtual void move(unsigned parts, bool to_device) = 0;
  /// Parts are dropped.
  virtual void release(unsigned /*parts*/) {}
  /// The state dict that `sync_weights` streams is made.
  virtual void export_weights() {}
  /// What sending all weights to an engine takes on the trainer's side.
  virtual void sync_weights(const WeightSync& sync);
  /// A checkpoint of what this rank holds of `parts` (bits of Parts). `gathered`: the whole model is made as well.
  virtual void save(unsigned parts, bool gathered) = 0;

  const RoleContext& context() const { return context_; }
  const Role& role() const { return context_.role; }
  tape::Model& model() { return *model_; }
  /// Whether passes go through the adapters; nothing where no whole model is held.
  void use_adapters(bool on) {
    if (model_) model_->options().adapters = on;
  }

 protected:
  /// Whether this rank has every weight whole, so that nothing is gathered to be sent.
  virtual bool holds_whole_weights() const { return false; }
  /// Makes `model_` as the role asks, with its adapters.
  Status build_model();

  /// Bytes in the stored dtype: the largest tensor, the root unit, the largest layer, all.
  struct Extent {
    Bytes largest = 0, root = 0, layer = 0, whole = 0;
  };
  /// Of the whole weights, wherever they lie now.
  const Extent& extent() const { return extent_; }

  RoleContext context_;
  tape::Tape& tape_;
  std::unique_ptr<tape::Model> model_;

 private:
  Extent extent_;
};

/// The store that the role's sharding asks for; an error when there is none.
Result<std::unique_ptr<Store>> make_store(const RoleContext& context);

}  // namespace headroom::trainer
