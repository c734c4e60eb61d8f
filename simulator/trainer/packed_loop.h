#pragma once

#include <vector>

#include "simulator/trainer/loop.h"

namespace headroom::trainer {

/// The loop over batches that lie on the host, brought to the device micro-batch by micro-batch as rows of
/// tokens without padding: log-probs, entropies and losses over [tokens, vocabulary].
///
/// Equal pieces of work repeat in memory, so of many micro-batches the first, one in between and the last are
/// run (the first finds no gradients, the last one reduces deferred ones), of many optimizer steps two, of
/// many forwards two; `RoleContext::repeat` says how many each stands for. Listed ones are all run.
class PackedLoop : public Loop {
 public:
  explicit PackedLoop(Store& store);

  tape::Tensor forward(Experience& experience, Output output) override;
  void train(Experience& experience) override;
  void score_micro_batch() override;

 private:
  /// Log-probs and entropies of one forward, with what its caller still holds.
  struct Outputs {
    tape::Tensor logprobs, entropy;  ///< fp32 [tokens]
    tape::Tensor logits;             ///< as the model made them, while the caller holds them
  };
  /// A micro-batch that is run, and for how many equal ones it stands.
  struct Piece {
    MicroBatches batch;
    double times = 1;
  };
  const ListedBatches* listed(Pass pass) const;
  std::vector<Piece> forward_pieces() const;
  struct MiniBatch {
    std::vector<Piece> pieces;
    double times = 1;  ///< equal ones that it stands for
  };
  std::vector<MiniBatch> train_pieces(std::int64_t batch) const;
  tape::ModelInput packed_input(const MicroBatches& batch);
  Outputs run(const MicroBatches& batch, Entropy entropy);
  tape::Tensor token_logprobs(tape::Tensor logits, const tape::Tensor& labels, bool in_place);
  Outputs fused(const tape::ModelInput& input, const tape::Tensor& labels);
  tape::Tensor packed_loss(const MicroBatches& batch);
  tape::Tensor value_loss(const MicroBatches& batch);
  void run_micro_batch(const MicroBatches& batch, bool last);
  void repeat(double times, double filled = 1);

  tape::Tensor kept_logits_, kept_entropy_;  ///< until `LossSpec::logits_end`
  tape::Tensor scores_;  ///< of the latest micro-batch that another role's loop had scored
  std::vector<Outputs> kept_outputs_;  ///< of the running mini-batch's micro-batches, where the loop keeps them
  tape::Tensor mask_;  ///< of packed sequences under scaled_dot_product_attention
  tape::Tensor last_loss_;  ///< the loop's variable, with its graph, until the next micro-batch's loss stands
};

}  // namespace headroom::trainer
