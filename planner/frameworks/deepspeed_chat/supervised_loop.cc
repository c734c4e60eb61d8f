#include "planner/frameworks/deepspeed_chat/supervised_loop.h"

#include <algorithm>
#include <utility>

#include "simulator/tape/operations/copy.h"
#include "simulator/tape/operations/losses.h"
#include "simulator/tape/operations/pointwise.h"
#include "simulator/tape/operations/reduce.h"
#include "simulator/tape/operations/views.h"
#include "simulator/trainer/language_loss.h"
#include "simulator/trainer/repeat_scope.h"
#include "simulator/trainer/token_logprob.h"

namespace headroom::deepspeed_chat {
namespace {

using tape::Tensor;

const std::uint16_t kBatch = tape::operation_name("batch");

/// -mean(logsigmoid(chosen - rejected)): the first half of the rows against the second.
Tensor pairwise(const Tensor& scores) {
  const std::int64_t half = scores.size(0) / 2;
  Tensor margin = tape::sub(tape::slice(scores, 0, 0, half), tape::slice(scores, 0, half, scores.size(0) - half));
  return tape::neg(tape::mean(tape::log_sigmoid(std::move(margin))));
}

}  // namespace

tape::ModelInput SupervisedLoop::batch_of(std::int64_t rows, std::int64_t tokens) const {
  tape::ModelInput input;
  input.ids = tape_.empty({rows, tokens}, DType::int64, kBatch);
  input.attention_mask = tape_.empty({rows, tokens}, DType::int64, kBatch);
  input.padded = role().padded;
  return input;
}

/// Two batches: the second's outputs are made while the first's are still held. Causal models return their cache.
void SupervisedLoop::evaluate(Experience& e) {
  const tape::GradMode no_grad(tape_, false);
  const tape::ComponentScope component(tape_, Component::temporaries);
  const bool language = role().head == HeadKind::language_model;
  model().options().training = false;
  Tensor held;
  tape::KvCache held_cache;
  for (int batch = 0; batch < 2; ++batch) {
    tape::ModelInput input = batch_of(context_.forward_batch, e.prompt);
    tape::KvCache cache;
    if (language) input.cache = &cache;
    Tensor outputs = model().forward(input);
    if (language) const Tensor loss = trainer::causal_lm_loss(outputs, input.ids);
    held = std::move(outputs);
    held_cache = std::move(cache);
  }
  held.reset();
  held_cache.clear();
  model().options().training = role().trained;
}

void SupervisedVariables::Output::take(Tensor made, tape::KvCache with) {
  logits = std::move(made);
  cache.clear();
  cache = std::move(with);
}

/// One batch of one model; the second to see it forms the log-probs of both.
void SupervisedLoop::evaluate_pair(Experience& e) {
  const tape::GradMode no_grad(tape_, false);
  const tape::ComponentScope component(tape_, Component::temporaries);
  SupervisedVariables& v = variables(e);
  model().options().training = false;
  tape::ModelInput input = batch_of(context_.forward_batch, e.prompt);
  tape::KvCache cache;
  input.cache = &cache;
  Tensor logits = model().forward(input);
  model().options().training = role().trained;
  (role().trained ? v.evaluated : v.evaluated_reference).take(std::move(logits), std::move(cache));
  if (role().trained) return;
  for (const SupervisedVariables::Output* output : {&v.evaluated, &v.evaluated_reference})
    const Tensor sums = tape::sum(trainer::token_logprobs(output->logits, input.ids, role().loss), 2u, false);
}

void SupervisedLoop::end_evaluation(Experience& e) {
  for (SupervisedVariables::Output* output : {&variables(e).evaluated, &variables(e).evaluated_reference})
    output->take({});
}

void SupervisedLoop::forward_policy(Experience& e) {
  SupervisedVariables& v = variables(e);
  const tape::ComponentScope component(tape_, Component::activations);
  tape::ModelInput input = batch_of(context_.micro_batch, e.prompt);
  v.outputs.take(model().forward(input));
  v.ids = input.ids;
}

void SupervisedLoop::forward_reference(Experience& e) {
  const tape::GradMode no_grad(tape_, false);
  SupervisedVariables& v = variables(e);
  tape::ModelInput input = batch_of(v.ids.size(0), v.ids.size(1));
  tape::KvCache cache;
  input.cache = &cache;
  Tensor logits = model().forward(input);
  v.reference.take(std::move(logits), std::move(cache));
}

Tensor SupervisedLoop::preference_loss(SupervisedVariables& v) {
  Tensor own = tape::sum(trainer::token_logprobs(v.outputs.logits, v.ids, role().loss), 2u, false);
  Tensor reference;
  {
    const tape::GradMode no_grad(tape_, false);
    reference = tape::sum(trainer::token_logprobs(v.reference.logits, v.ids, role().loss), 2u, false);
  }
  return pairwise(tape::mul_scalar(tape::sub(std::move(own), std::move(reference))));
}

Tensor SupervisedLoop::loss(Experience& e) {
  SupervisedVariables& v = variables(e);
  if (context_.algorithm == Algorithm::dpo) return preference_loss(v);
  tape::ModelInput input = batch_of(context_.micro_batch, e.prompt);
  Tensor outputs = model().forward(input);
  Tensor loss;
  if (role().head == HeadKind::language_model) {
    loss = trainer::causal_lm_loss(outputs, input.ids);
    v.outputs.take(tape::detach(outputs));  // the last batch's go as these take their name
    return loss;
  }
  return pairwise(tape::select(outputs, 1, outputs.size(1) - 1));
}

void SupervisedLoop::train(Experience& e) {
  SupervisedVariables& v = variables(e);
  const std::int64_t all = std::max<std::int64_t>(1, context_.mini_batch / context_.micro_batch);
  const std::int64_t shown = trainer::shown_runs(all);
  v.micro_batches = v.micro_batches % shown + 1;
  const bool last = v.micro_batches == shown;
  const trainer::RepeatScope repeated(context_.repeat, v.micro_batches, all);
  store_.begin_micro_batch(last);
  Tensor value;
  {
    const tape::ComponentScope component(tape_, Component::activations);
    value = loss(e);
  }
  store_.backward(value);
  empty_after_micro_batch();
  if (last) store_.step();
  if (v.outputs.logits.defined()) v.outputs.logits = tape::detach(v.outputs.logits);
  v.ids.reset();
}

namespace {

using trainer::run_call;

constexpr LoopCall kCalls[] = {
    {.name = "evaluate",
     .run = run_call<&SupervisedLoop::evaluate>,
     .work = ModelWork::forward,
     .parts = kWeights},
    {.name = "evaluate_pair",
     .run = run_call<&SupervisedLoop::evaluate_pair>,
     .work = ModelWork::forward,
     .parts = kWeights},
    {.name = "end_evaluation", .run = run_call<&SupervisedLoop::end_evaluation>, .after = {"evaluate_pair"}},
    {.name = "forward_policy",
     .run = run_call<&SupervisedLoop::forward_policy>,
     .work = ModelWork::forward,
     .parts = kWeights},
    {.name = "forward_reference",
     .run = run_call<&SupervisedLoop::forward_reference>,
     .work = ModelWork::forward,
     .parts = kWeights,
     .after = {"forward_policy"}},
    {.name = "train", .work = ModelWork::train, .parts = kWeights | kOptimizer | kMasterWeights},
};

}  // namespace

const LoopKind kSupervisedLoop = {
    .name = "deepspeed_chat_supervised", .make = trainer::make_own<SupervisedLoop>, .calls = kCalls};

}  // namespace headroom::deepspeed_chat
