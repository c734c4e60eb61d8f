#include "planner/frameworks/colossalchat/supervised_loop.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include "simulator/tape/operations/copy.h"
#include "simulator/tape/operations/losses.h"
#include "simulator/tape/operations/pointwise.h"
#include "simulator/tape/operations/reduce.h"
#include "simulator/tape/operations/views.h"
#include "simulator/trainer/language_loss.h"
#include "simulator/trainer/repeat_scope.h"
#include "simulator/trainer/token_logprob.h"

namespace headroom::colossalchat {
namespace {

using tape::Tensor;

const std::uint16_t kBatch = tape::operation_name("batch");

}  // namespace

Tensor returned_logits(const Role& role, Tensor logits) {
  if (!role.loss.logits_fp32) return logits;
  const tape::ComponentScope component(logits.tape(), Component::logits);
  return tape::to(std::move(logits), DType::fp32);
}

namespace {

std::int64_t micro_batches(const trainer::RoleContext& context) {
  return std::max<std::int64_t>(1, context.mini_batch / context.micro_batch);
}

}  // namespace

/// The first call on a batch counts it and takes it.
void SupervisedLoop::begin(Experience& e) {
  SupervisedVariables& v = variables(e);
  if (v.ids.defined()) return;
  const std::int64_t shown = trainer::shown_runs(micro_batches(context_));
  v.micro_batches = v.micro_batches % shown + 1;
  v.ids = batch(e);
}

Tensor SupervisedLoop::batch(const Experience& e) const {
  return tape_.empty({context_.micro_batch, e.prompt + e.response}, DType::int64, kBatch);
}

Tensor SupervisedLoop::logits(const Tensor& ids) {
  tape::ModelInput input;
  input.ids = ids;
  input.attention_mask = tape_.empty(ids.shape(), DType::int64, kBatch);
  input.padded = role().padded;
  tape::KvCache cache;
  if (!role().trained) input.cache = &cache;
  Tensor out = returned_logits(role(), model().forward(input));
  cache.clear();
  return out;
}

/// Sums of the rows' log-probs: of pairs chosen ones first, then rejected ones.
Tensor SupervisedLoop::scores(const Tensor& logits, const Tensor& ids, bool pairs) const {
  const std::int64_t rows = ids.size(0), parts = pairs ? 2 : 1;
  std::vector<Tensor> sums;
  for (std::int64_t part = 0; part < parts; ++part) {
    const std::int64_t first = part * rows / parts, count = rows / parts;
    Tensor logprobs = trainer::token_logprobs(tape::slice(logits, 0, first, count), tape::slice(ids, 0, first, count),
                                              role().loss);
    sums.push_back(tape::sum(tape::to(std::move(logprobs), DType::fp32), 2u, false));
  }
  return parts == 1 ? sums.front() : tape::cat(sums, 0);
}

void SupervisedLoop::forward_kl(Experience& e) {
  begin(e);
  SupervisedVariables& v = variables(e);
  const trainer::RepeatScope repeated(context_.repeat, v.micro_batches, micro_batches(context_));
  const tape::GradMode no_grad(tape_, false);
  Tensor& kept = role().trained ? v.policy_kl : v.reference_kl;
  kept = logits(batch(e));
}

void SupervisedLoop::forward_policy(Experience& e) {
  begin(e);
  SupervisedVariables& v = variables(e);
  const trainer::RepeatScope repeated(context_.repeat, v.micro_batches, micro_batches(context_));
  const tape::ComponentScope component(tape_, Component::activations);
  v.policy = logits(v.ids);
  v.scores = scores(v.policy, v.ids, v.pairs());
  if (v.pairs()) return;
  const tape::GradMode no_grad(tape_, false);
  const Tensor passed = scores(v.policy_kl, v.ids, false);
}

/// The model is given labels, of the chosen rows alone, and forms its own loss of all of them.
void SupervisedLoop::forward_labelled(Experience& e) {
  begin(e);
  SupervisedVariables& v = variables(e);
  const trainer::RepeatScope repeated(context_.repeat, v.micro_batches, micro_batches(context_));
  const tape::ComponentScope component(tape_, Component::activations);
  Tensor made = logits(v.ids);
  context_.engine.detect_anomaly();  // as the trainer does, for good
  v.own_loss = own_loss(made, v.ids);
  v.policy = tape::to(made, DType::fp32);
  v.output = tape::detach(made);
  v.scores = scores(v.policy, v.ids, true);
}

void SupervisedLoop::forward_reference(Experience& e) {
  SupervisedVariables& v = variables(e);
  const trainer::RepeatScope repeated(context_.repeat, v.micro_batches, micro_batches(context_));
  const tape::GradMode no_grad(tape_, false);
  const tape::ComponentScope component(tape_, Component::temporaries);
  v.reference = logits(v.ids);
  v.reference_scores = scores(v.reference, v.ids, v.pairs());
  if (!v.pairs()) const Tensor passed = scores(v.reference_kl, v.ids, false);
}

Tensor SupervisedLoop::own_loss(const Tensor& logits, const Tensor& ids) const {
  return trainer::causal_lm_loss(logits, ids);
}

Tensor ShiftedSupervisedLoop::own_loss(const Tensor& logits, const Tensor& ids) const {
  return trainer::shifted_lm_loss(logits, ids);
}

Tensor SupervisedLoop::loss(Experience& e) {
  SupervisedVariables& v = variables(e);
  if (context_.algorithm == Algorithm::sft) {
    Tensor made = logits(v.ids);
    Tensor loss = own_loss(made, v.ids);
    v.policy = tape::detach(made);
    return loss;
  }
  Tensor margin = std::move(v.scores);
  if (v.reference_scores.defined()) margin = tape::sub(std::move(margin), std::exchange(v.reference_scores, {}));
  if (v.pairs()) {
    const std::int64_t half = margin.size(0) / 2;
    margin = tape::sub(tape::slice(margin, 0, 0, half), tape::slice(margin, 0, half, half));
  }
  Tensor loss = tape::neg(tape::mean(tape::log_sigmoid(tape::mul_scalar(std::move(margin)))));
  if (v.own_loss.defined()) loss = tape::sub(std::exchange(v.own_loss, {}), tape::mul_scalar(std::move(loss)));
  return loss;
}

void SupervisedLoop::train(Experience& e) {
  begin(e);
  SupervisedVariables& v = variables(e);
  const std::int64_t all = micro_batches(context_);
  const trainer::RepeatScope repeated(context_.repeat, v.micro_batches, all);
  const bool last = v.micro_batches == trainer::shown_runs(all);
  store_.begin_micro_batch(last);
  Tensor value;
  {
    const tape::ComponentScope component(tape_, Component::activations);
    value = loss(e);
  }
  // The batch's own names for the logits; what they were made by goes with the backward.
  for (Tensor* kept : {&v.policy, &v.policy_kl})
    if (kept->defined()) *kept = tape::detach(*kept);
  store_.backward(value);
  empty_after_micro_batch();
  if (last) store_.step();
  v.ids.reset();
}

namespace {

using trainer::run_call;

constexpr LoopCall kCalls[] = {
    {.name = "forward_kl", .run = run_call<&SupervisedLoop::forward_kl>, .work = ModelWork::forward, .parts = kWeights},
    {.name = "forward_policy",
     .run = run_call<&SupervisedLoop::forward_policy>,
     .work = ModelWork::train,
     .parts = kWeights},
    {.name = "forward_labelled",
     .run = run_call<&SupervisedLoop::forward_labelled>,
     .work = ModelWork::train,
     .parts = kWeights},
    {.name = "forward_reference",
     .run = run_call<&SupervisedLoop::forward_reference>,
     .work = ModelWork::forward,
     .parts = kWeights,
     .after = {"forward_policy"}},
    {.name = "train", .work = ModelWork::train, .parts = kWeights | kOptimizer | kMasterWeights},
};

}  // namespace

const LoopKind kShiftedSupervisedLoop = {.name = "colossalchat_supervised_shifted",
                                         .make = trainer::make_own<ShiftedSupervisedLoop>,
                                         .calls = kCalls};

const LoopKind kSupervisedLoop = {
    .name = "colossalchat_supervised", .make = trainer::make_own<SupervisedLoop>, .calls = kCalls};

}  // namespace headroom::colossalchat
