#pragma once

#include <memory>
#include <vector>

#include "simulator/phases/role_program.h"
#include "simulator/tape/sharding/runtime.h"

namespace headroom::phases {

/// A role under FSDP: its parameters are sharded over ranks, its optimizer works on the shards. With packed
/// jobs its micro-batches are rows of tokens without padding, as verl's trainers run them: log-probs,
/// entropies and losses over [tokens, vocabulary].
///
/// Equal pieces of work repeat in memory, so of many micro-batches the first, one in between and the last are
/// run (the first finds no gradients, the last one reduces deferred ones), of many optimizer steps two, of
/// many forwards two; `RoleContext::repeat` says how many each stands for. Listed ones are all run.
class PackedProgram : public RoleProgram {
 public:
  explicit PackedProgram(const RoleContext& context) : RoleProgram(context) {}

  Status build() override;
  void build_optimizer() override;
  void create_states() override;
  tape::Tensor forward(const Experience& experience, Output output) override;
  void train(const Experience& experience) override;
  void move(unsigned parts, bool to_device, bool first_step) override;
  void export_weights() override;
  void sync_weights(const WeightSync& sync) override;
  void save() override;

 protected:
  void optimizer_step() override;

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
  std::vector<std::vector<Piece>> train_pieces(std::int64_t batch) const;  ///< by optimizer step
  tape::ModelInput packed_input(const MicroBatches& batch);
  Outputs run(const MicroBatches& batch, Entropy entropy);
  Outputs fused(const tape::ModelInput& input, const tape::Tensor& labels);
  tape::Tensor packed_loss(const MicroBatches& batch);
  tape::Tensor value_loss(const MicroBatches& batch);
  void run_micro_batch(const MicroBatches& batch, bool last);
  void repeat(double times);
  /// Largest tensor, and the bytes of the root unit and a layer, in the stored dtype.
  struct Extent {
    Bytes largest = 0, root = 0, layer = 0;
  };
  Extent extent() const;
  Bytes whole_bytes() const;

  std::unique_ptr<tape::ShardingRuntime> runtime_;
  std::vector<tape::Tensor> parameters_;   ///< what the optimizer works on
  std::vector<tape::Tensor> host_states_;  ///< of an optimizer that lives on the host
  std::vector<tape::Tensor> exported_;     ///< sharded copies between export and sync
  tape::Tensor kept_logits_;
};

}  // namespace headroom::phases
