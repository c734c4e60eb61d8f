#pragma once

#include <cstdint>

#include "simulator/trainer/loop.h"

namespace headroom::colossalchat {

/// A model's logits as its Transformers gives them back: in fp32 where the role's loss says so.
tape::Tensor returned_logits(const Role& role, tape::Tensor logits);

/// The variables of a trainer's loop over batches. Python's names stay bound until the next batch's take them, so a
/// batch's logits [B,T,V] are there while the next ones are made.
struct SupervisedVariables {
  tape::Tensor ids;                               ///< [B,T] of the running batch
  tape::Tensor policy, reference;                 ///< logits
  tape::Tensor output;                            ///< what ORPO's were widened from
  tape::Tensor policy_kl, reference_kl;           ///< KTO's, of prompts with other answers
  tape::Tensor scores, reference_scores;          ///< [B] sums of log-probs
  tape::Tensor own_loss;                          ///< the model's own, of labels that it was given
  std::int64_t micro_batches = 0;                 ///< of the running optimizer step that were begun

  bool pairs() const { return !policy_kl.defined(); }
};

/// ColossalChat's trainers of given sequences since 0.3.7: SFT, DPO and SimPO, ORPO, KTO. Policy first, reference
/// after it; the logits of both and the policy's table of
/// log-probs live through the backward. A model that is not trained returns its keys and values too, which go with the
/// call. Chosen and rejected rows are one batch, whose halves' log-probs are formed one after the other.
///
///   SFT                train
///   DPO                forward_policy (actor), forward_reference (ref; SimPO: left out), train
///   ORPO               forward_labelled (actor), train
///   KTO                forward_kl (actor), forward_policy, forward_kl (ref), forward_reference, train
///
/// Source: applications/ColossalChat/coati/trainer/{sft,dpo,orpo,kto}.py of 0.5.1.
class SupervisedLoop : public trainer::Loop {
 public:
  using Loop::Loop;
  using Experience = trainer::Experience;

  void train(Experience& experience) override;
  void forward_kl(Experience& experience);
  void forward_policy(Experience& experience);
  void forward_labelled(Experience& experience);
  void forward_reference(Experience& experience);

 protected:
  using Tensor = tape::Tensor;
  /// The model's own loss of labels: it widens the logits to fp32 and shifts the labels.
  virtual Tensor own_loss(const Tensor& logits, const Tensor& ids) const;

 private:
  SupervisedVariables& variables(Experience& e) const { return e.own<SupervisedVariables>(role().loop); }
  void begin(Experience& experience);
  Tensor batch(const Experience& experience) const;
  Tensor logits(const Tensor& ids);
  Tensor scores(const Tensor& logits, const Tensor& ids, bool pairs) const;
  Tensor loss(Experience& experience);
};

/// With Transformers up to 4.44, whose models shift the logits that they give back, in their own type.
class ShiftedSupervisedLoop final : public SupervisedLoop {
 public:
  using SupervisedLoop::SupervisedLoop;

 private:
  Tensor own_loss(const Tensor& logits, const Tensor& ids) const override;
};

extern const LoopKind kSupervisedLoop, kShiftedSupervisedLoop;

}  // namespace headroom::colossalchat
