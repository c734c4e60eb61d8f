#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "simulator/job/batching.h"
#include "simulator/job/job.h"
#include "simulator/phases/experience.h"
#include "simulator/tape/megatron/process_buffers.h"
#include "simulator/tape/modules/model.h"
#include "simulator/tape/optimizers/adamw.h"

namespace headroom::phases {

/// What a role's program is made for: its share of the job on one rank.
struct RoleContext {
  tape::Tape& tape;
  tape::Engine& engine;
  const Role& role;
  std::int64_t ranks = 1;          ///< of its shard group
  std::int64_t micro_batch = 1;    ///< sequences a training forward
  std::int64_t forward_batch = 1;  ///< sequences a forward without gradients
  std::int64_t mini_batch = 1;     ///< sequences an optimizer step, of this rank
  std::int64_t epochs = 1;
  Stream first_stream = 1;                    ///< streams of its own from here on
  bool padded = true;                         ///< micro-batches are rectangles; false: packed tokens
  MicroBatches packed_train, packed_forward;  ///< when not padded
  const std::vector<ListedBatches>* listed = nullptr;  ///< ... where the job knows them one by one
  Algorithm algorithm = Algorithm::ppo;       ///< decides the loss
  double* repeat = nullptr;                   ///< how many equal pieces of work the running one stands for
  std::int64_t world = 1, rank = 0;           ///< of the pool that the role is spread over
  tape::megatron::ProcessBuffers* process = nullptr;  ///< of this process, whatever role
  std::function<Bytes()> unused;                      ///< what the process has reserved and not allocated
  std::function<void()>
      communicator_made;  ///< to be called where one is made that others' memory lies around
};

/// A role as a program on one rank: the verbs of actions on it. This class is a model on one GPU without
/// sharding (plain PyTorch); sharding runtimes derive from it and override what they do differently.
class RoleProgram {
 public:
  explicit RoleProgram(const RoleContext& context);
  virtual ~RoleProgram() = default;
  RoleProgram(const RoleProgram&) = delete;
  RoleProgram& operator=(const RoleProgram&) = delete;

  /// The model comes to exist. Errors: no program covers it.
  virtual Status build();
  virtual void build_optimizer();
  virtual void create_states();
  /// Log-probs [B,T-1], values [B,T] or rewards [B] of the whole batch, without gradients.
  virtual tape::Tensor forward(const Experience& experience, Output output);
  virtual tape::Tensor generate(const Experience& experience);
  /// All micro-batches, mini-batches and epochs.
  virtual void train(const Experience& experience);
  /// Parts to the device or to the host.
  virtual void move(unsigned parts, bool to_device, bool first_step);
  /// Parts are dropped.
  virtual void release(unsigned /*parts*/) {}
  /// What sending all weights to an engine takes on the trainer's side.
  virtual void export_weights() {}
  virtual void sync_weights(const WeightSync& sync);
  virtual void save() {}
  /// An action that this trainer's code does in its own way; nothing: as every trainer.
  virtual std::optional<Status> act(const Action&, Experience&) { return std::nullopt; }

  /// Before forward() and train(): in which step, and for which role the weights work (a LoRA reference's
  /// passes are the actor's with its adapters off).
  void begin_pass(const Role& as, int step) {
    acting_ = &as;
    step_ = step;
  }

  const Role& role() const { return context_.role; }
  tape::Model& model() { return *model_; }

 protected:
  /// The part of the batch that one optimizer step sees, in micro-batches.
  virtual void train_mini_batch(const Experience& experience, std::int64_t first, std::int64_t count);
  virtual void optimizer_step();
  /// The loss of sequences [first, first + count).
  virtual tape::Tensor loss(const Experience& experience, std::int64_t first, std::int64_t count);
  virtual void before_micro_batch(std::int64_t micro_batch, std::int64_t micro_batches);
  virtual void after_backward(std::int64_t micro_batch, std::int64_t micro_batches);
  virtual void clip_gradients();
  /// What the optimizer works on.
  virtual std::vector<tape::Tensor> trainable();

  /// The role that the running pass is of.
  const Role& acting() const { return acting_ == nullptr ? role() : *acting_; }

  RoleContext context_;
  const Role* acting_ = nullptr;
  int step_ = -1;
  tape::Tape& tape_;
  std::unique_ptr<tape::Model> model_;
  std::unique_ptr<tape::AdamW> optimizer_;
  std::vector<tape::Tensor> masters_;  ///< fp32 copies that the optimizer works on
  tape::Tensor scale_, growth_;        ///< of a gradient scaler, from the first loss on
  tape::Tensor overflowed_;            ///< ... from unscaling to the end of the optimizer's step

 private:
  /// Of the sequences' tokens, with gradients: log-probs in fp32, entropies if the loss has them.
  struct TokenOutputs {
    tape::Tensor logprobs, entropies;
  };
  TokenOutputs train_outputs(const Experience& experience, const tape::Tensor& ids, std::int64_t count);
  tape::Tensor supervised_loss(const Experience& experience, const tape::Tensor& ids, std::int64_t count);
  tape::Tensor preference_loss(const Experience& experience, const tape::Tensor& ids, std::int64_t first,
                               std::int64_t count);
  tape::Tensor reward_loss(const tape::Tensor& ids, std::int64_t count);
  tape::Tensor scaled(const tape::Tensor& loss);
  void unscale_gradients();
  tape::Tensor policy_loss(const Experience& experience, const tape::Tensor& ids, std::int64_t first,
                           std::int64_t count);
  tape::Tensor value_loss(const Experience& experience, const tape::Tensor& ids, std::int64_t first,
                          std::int64_t count);
};

/// The program that the role's sharding asks for; an error when there is none.
Result<std::unique_ptr<RoleProgram>> make_role_program(const RoleContext& context);

}  // namespace headroom::phases
