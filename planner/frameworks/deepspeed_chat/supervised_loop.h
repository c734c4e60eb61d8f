#pragma once

#include "simulator/trainer/loop.h"

namespace headroom::deepspeed_chat {

/// Of the micro-batches of an optimizer step so many are run: the first, one in between that stands for the others,
/// and the last.
inline constexpr std::int64_t kShownMicroBatches = 3;

/// What the first two steps' scripts hold between their calls.
struct SupervisedVariables {
  tape::Tensor outputs;              ///< logits, until those of the next batch stand
  tape::Tensor policy, reference;    ///< logits of a DPO batch
  tape::Tensor ids;                  ///< of that batch
  std::int64_t micro_batches = 0;    ///< of the running optimizer step that were begun
};

/// DeepSpeed-Chat's first two steps: batches padded to full length; evaluation with a cache; a micro-batch's outputs
/// live until the next one's stand. SFT by Transformers' own loss, reward models by pairs of answers in one batch,
/// DPO against a reference whose logits stand beside the policy's.
///
///   evaluate (any role), train (one micro-batch; the last of `mini_batch` steps)
///   DPO: forward_policy (actor), forward_reference (ref), train (actor)
class SupervisedLoop : public trainer::Loop {
 public:
  using Loop::Loop;
  using Experience = trainer::Experience;

  void train(Experience& experience) override;
  void evaluate(Experience& experience);
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
