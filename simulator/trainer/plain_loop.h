#pragma once

#include "simulator/trainer/loop.h"

namespace headroom::trainer {

/// The loop that one writes by hand in plain PyTorch: rectangles of tokens on the device, cut by row into
/// micro-batches; losses by the job's algorithm.
///
/// Of more than kMostRuns micro-batches in a pass (a batch of thousands of sequences, one at a time) those after which
/// memory only repeats are left out, and their seconds count with others'; what each leaves of itself is made.
class PlainLoop : public Loop {
 public:
  using Loop::Loop;
  static constexpr std::int64_t kMostRuns = 64;

  tape::Tensor forward(Experience& experience, Output output) override;
  void train(Experience& experience) override;

 private:
  /// Of the sequences' tokens, with gradients: log-probs in fp32, entropies if the loss has them.
  struct TokenOutputs {
    tape::Tensor logprobs, entropies;
  };
  tape::ModelInput input_of(const Experience& experience, const tape::Tensor& ids) const;
  TokenOutputs train_outputs(const Experience& experience, const tape::Tensor& ids);
  /// The part of the batch that one optimizer step sees, in micro-batches.
  void train_mini_batch(const Experience& experience, std::int64_t first, std::int64_t count, bool all);
  /// The loss of sequences [first, first + count).
  tape::Tensor loss(const Experience& experience, std::int64_t first, std::int64_t count);
  tape::Tensor supervised_loss(const Experience& experience, const tape::Tensor& ids);
  tape::Tensor preference_loss(const Experience& experience, const tape::Tensor& ids, std::int64_t first);
  tape::Tensor reward_loss(const tape::Tensor& ids);
  tape::Tensor policy_loss(const Experience& experience, const tape::Tensor& ids, std::int64_t first);
  tape::Tensor value_loss(const Experience& experience, const tape::Tensor& ids, std::int64_t first);
};

}  // namespace headroom::trainer
