#pragma once

#include <map>
#include <memory>
#include <vector>

#include "simulator/phases/interleaved_schedule.h"
#include "simulator/tape/megatron/gradient_buffers.h"
#include "simulator/tape/megatron/optimizer.h"
#include "simulator/tape/megatron/schedule.h"
#include "simulator/tape/megatron/stage.h"
#include "simulator/trainer/loop.h"

namespace headroom::phases {

using trainer::Experience;
using trainer::RoleContext;
using trainer::Store;

/// A role under Megatron-Core on one rank of its pipeline: its stage's layers, gradient buffers and optimizer
/// shards, micro-batches of packed tokens by the pipeline's schedule.
///
/// With `LossSpec::logits_fp32` (RL: the model returns its logits) the last stage casts the logits to fp32,
/// divides them by the temperature in place and forms log-probs and entropies as verl does. Without, the loss
/// is formed on the logits as they are: TransformerEngine's cross-entropy with `flash_cross_entropy`, else
/// Megatron's own. Frozen models (references) are separate tensors without buffers.
///
/// Of many micro-batches those are run after which memory only repeats, of many optimizer steps and forwards
/// two; `RoleContext::repeat` says how many each stands for, the pipeline's bubble included.
class MegatronRole : public Store {
 public:
  explicit MegatronRole(const RoleContext& context) : Store(context) {}

  Status build() override;
  void build_optimizer() override;
  void create_states() override;
  tape::Tensor forward(const Experience& experience, Output output);
  void train(const Experience& experience);
  void backward(const tape::Tensor&) override {}  // the pipeline's schedule does it
  void step() override {}
  void move(unsigned parts, bool to_device) override;
  void release(unsigned parts) override;
  void sync_weights(const WeightSync& sync) override;
  void save(unsigned parts, bool gathered) override;

  tape::megatron::Stage& stage() { return *stage_; }

 private:
  /// A micro-batch between its forward and its backward on one virtual stage.
  struct InFlight {
    tape::Tensor batch, input, output;
  };
  struct Outputs {
    tape::Tensor logprobs, entropy;  ///< fp32 [tokens]
  };
  /// Tokens of a micro-batch on this context rank, a multiple of the tensor ranks.
  std::int64_t tokens(const MicroBatches& batch) const;
  bool first(std::int64_t chunk) const { return stage_->layout().embedding && chunk == 0; }
  bool last(std::int64_t chunk) const;
  /// Hidden states of the virtual stage, out of its ids' embedding or of `piece.input`, which the stage before sent.
  tape::Tensor chunk_forward(std::int64_t chunk, InFlight& piece, const MicroBatches& batch);
  /// `batch`: the ids that the hidden states were made of.
  Outputs token_outputs(tape::Tensor hidden, const tape::Tensor& batch, Entropy entropy);
  tape::Tensor with_predictions(tape::Tensor normed, const tape::Tensor& ids);
  tape::Tensor training_loss(tape::Tensor hidden, const tape::Tensor& batch);
  /// Memory for hidden states, or their gradient, of `all` tokens that another stage sends.
  tape::Tensor received(std::int64_t all, std::uint16_t name);
  /// Log-probs or values of the last stage, kept in `results`.
  void keep_results(tape::Tensor hidden, const tape::Tensor& batch, Output output, std::vector<Outputs>& results);
  void forward_interleaved(std::int64_t micro_batches, Output output, std::vector<Outputs>& results);
  void train_interleaved(std::int64_t micro_batches);
  InterleavedSchedule::Place interleaved() const;
  tape::Tensor train_forward(std::int64_t chunk, InFlight& piece);
  /// The input's gradient.
  tape::Tensor train_backward(std::int64_t chunk, const tape::Tensor& input, const tape::Tensor& output,
                              const tape::Tensor& gradient);
  void forward_step(const tape::megatron::PipelineStep& step);
  void backward_step(const tape::megatron::PipelineStep& step);
  double bubble() const;
  void train_mini_batch(double times);
  void move_weights(bool to_device);
  void repeat(double times) {
    if (context_.repeat != nullptr) *context_.repeat = times;
  }

  std::unique_ptr<const Architecture> model_architecture_;  ///< the role's model with its head
  std::unique_ptr<tape::megatron::Stage> stage_;
  std::unique_ptr<tape::megatron::GradientBuffers> buffers_;
  std::unique_ptr<tape::megatron::Optimizer> states_;
  std::map<std::int64_t, InFlight> in_flight_;  ///< by micro-batch
  // What the schedule and the model hold between micro-batches:
  std::map<std::int64_t, tape::Tensor> held_input_;  ///< of each chunk, with its gradient, until its next one
  tape::Tensor last_output_;     ///< whose backward ran last, with its graph
  tape::Tensor input_gradient_;  ///< sent to the stage before; until the next one
  Bytes largest_gathered_ = 0;                       ///< the model's largest weight, whole
  Bytes largest_local_ = 0;                          ///< ... one rank's part of it
};

/// The loop of a pipeline: the schedule runs micro-batches stage by stage.
class PipelinedLoop : public trainer::Loop {
 public:
  explicit PipelinedLoop(MegatronRole& role) : Loop(role), role_(role) {}
  tape::Tensor forward(Experience& experience, Output output) override {
    return role_.forward(experience, output);
  }
  void train(Experience& experience) override { role_.train(experience); }

 private:
  MegatronRole& role_;
};

}  // namespace headroom::phases
