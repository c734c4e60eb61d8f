#pragma once

#include "simulator/tape/modules/model.h"
#include "simulator/trainer/loop.h"

namespace headroom::deepspeed_chat {

/// What the first two steps' scripts hold between their calls.
struct SupervisedVariables {
  /// A model's output, until that of the next batch stands: logits, and the cache that no one asked it to leave out.
  struct Output {
    tape::Tensor logits;
    tape::KvCache cache;
    void take(tape::Tensor made, tape::KvCache with = {});
  };
  Output outputs;                                          ///< SFT's, DPO's policy's
  Output reference;                                        ///< DPO's reference's
  Output evaluated, evaluated_reference;                   ///< of an evaluation of DPO
  tape::Tensor ids;                                        ///< of DPO's batch
  std::int64_t micro_batches = 0;    ///< of the running optimizer step that were begun
};

/// DeepSpeed-Chat's first two steps: batches padded to full length; evaluation with a cache; a micro-batch's outputs
/// live until the next one's stand. SFT by Transformers' own loss, reward models by pairs of answers in one batch,
/// DPO against a reference whose logits and cache stand beside the policy's logits, through the backward and until the
/// next batch's are made.
///
///   evaluate (any role), train (one micro-batch; the last of `mini_batch` steps)
///   DPO: forward_policy (actor), forward_reference (ref), train (actor); of an evaluation evaluate_pair (actor, ref),
///   batch by batch, and end_evaluation
class SupervisedLoop : public trainer::Loop {
 public:
  using Loop::Loop;
  using Experience = trainer::Experience;

  void train(Experience& experience) override;
  void evaluate(Experience& experience);
  void evaluate_pair(Experience& experience);
  void end_evaluation(Experience& experience);
  void forward_policy(Experience& experience);
  void forward_reference(Experience& experience);

 private:
  using Tensor = tape::Tensor;
  SupervisedVariables& variables(Experience& e) const { return e.own<SupervisedVariables>(role().loop); }
  tape::ModelInput batch_of(std::int64_t rows, std::int64_t tokens) const;
  Tensor loss(Experience& experience);
  Tensor preference_loss(SupervisedVariables& variables);
};

extern const LoopKind kSupervisedLoop;

}  // namespace headroom::deepspeed_chat
