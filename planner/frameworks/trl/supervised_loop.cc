#include "planner/frameworks/trl/supervised_loop.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "planner/frameworks/trl/loops.h"
#include "simulator/tape/core/autocast.h"
#include "simulator/tape/core/checkpoint.h"
#include "simulator/tape/operations/copy.h"
#include "simulator/tape/operations/linear.h"
#include "simulator/tape/operations/losses.h"
#include "simulator/tape/operations/pointwise.h"
#include "simulator/tape/operations/reduce.h"
#include "simulator/tape/operations/token_losses.h"
#include "simulator/tape/operations/views.h"
#include "simulator/trainer/token_logprob.h"

namespace headroom::trl {
namespace {

using tape::Tensor;

const std::uint16_t kIds = tape::operation_name("input_ids"), kMask = tape::operation_name("attention_mask"),
                    kLabels = tape::operation_name("labels"),
                    kItems = tape::operation_name("num_items_in_batch"),
                    kIndex = tape::operation_name("aten::index"),
                    kArgmax = tape::operation_name("aten::argmax"),
                    kPooled = tape::operation_name("aten::index_pooled");

/// Tensors of a few numbers that metrics make, of a language model's loss and of a pair's.
constexpr int kTokenMetrics = 20, kPairMetrics = 40;

/// All but the last position's.
Tensor predicting(const Tensor& logits) {
  return tape::slice(logits, 1, 0, logits.size(1) - 1);
}

/// Everything that autograd saves goes to the host within a scope, where the role asks for it.
class Offloading {
 public:
  Offloading(tape::Tape& tape, const Role& role) {
    if (role.activation_offload) saved_.emplace(tape, true);
  }

 private:
  std::optional<tape::SaveOnCpu> saved_;
};

/// The most probable tokens, and whether they are right.
void count_right(const Tensor& logits) {
  const tape::GradMode no_grad(logits.tape(), false);
  const Tensor predictions =
      tape::reduce(kArgmax, DType::int64, 16, logits, 1u << (logits.shape().rank - 1), false);
  const Tensor right = tape::plain(kArgmax, DType::boolean, predictions);
}

/// Of one chunk's rows: the loss, and the entropy, whose graph is made too.
Tensor chunk_loss(const Tensor& rows, const Tensor& head, const Tensor& labels) {
  Tensor logits;
  {
    const Tensor wide = tape::to(rows, DType::fp32), weight = tape::to(head, DType::fp32);
    logits = tape::linear_by_product(wide, weight, {});
  }
  Tensor table = tape::log_softmax(logits);
  Tensor loss = tape::sum(tape::nll_loss(table, labels));
  count_right(logits);
  Tensor weighted = tape::mul(tape::exp(table), table);
  const Tensor valid = tape::plain(kIndex, DType::boolean, labels);
  Tensor entropy = tape::sum(tape::mul(tape::neg(tape::sum(std::move(weighted), 2u, false)), valid));
  return loss;
}

}  // namespace

void SupervisedLoop::begin_evaluation(Experience& e) {
  variables(e).evaluates = true;
  model().options().training = false;
}

void SupervisedLoop::end_evaluation(Experience& e) {
  variables(e) = {};
  model().options().training = true;
  loss_.reset();
}

void SupervisedLoop::take_micro_batch(Experience& e) {
  const tape::ComponentScope component(tape_, Component::activations);
  Variables& v = variables(e);
  const std::int64_t rows = v.evaluates ? context_.forward_batch : context_.micro_batch,
                     tokens = e.prompt + e.response;
  const auto integers = [&](std::uint16_t name) { return tape_.empty({rows, tokens}, DType::int64, name); };
  v.ids = integers(kIds);
  if (role().attention_mask) v.mask = integers(kMask);
  v.labels = integers(kLabels);
  tape_.empty({}, DType::int64, kItems).reset();
}

tape::ModelInput SupervisedLoop::input_of(const Variables& v) const {
  tape::ModelInput input;
  input.ids = v.ids;
  input.attention_mask = v.mask;
  return input;
}

/// The loss that Transformers' models form themselves, from logits in fp32, and the trainer's metrics.
Tensor SupervisedLoop::model_loss(Variables& v) {
  Tensor logits, loss;
  {
    const tape::Autocast autocast(tape_, role().precision.autocast, role().precision.compute);
    logits = model().forward(input_of(v));
    const tape::ComponentScope component(tape_, Component::logits);
    Tensor wide = tape::to(logits, DType::fp32);
    Tensor rows = tape::view(std::move(wide), {-1, logits.size(-1)});
    Tensor shifted = tape_.empty({v.labels.elements()}, DType::int64, kLabels);
    Tensor table = tape::log_softmax(std::move(rows));
    loss = tape::div_scalar(tape::sum(tape::nll_loss(std::move(table), shifted)));
  }
  logits = widened(std::move(logits));
  const tape::GradMode no_grad(tape_, false);
  const tape::ComponentScope component(tape_, Component::logits);
  {
    const Tensor each = entropies(predicting(logits));
    count_right(predicting(logits));
  }
  return loss;
}

/// Hidden states in place of logits: rows are put in order, then so many at a time meet the head.
Tensor SupervisedLoop::chunked_loss(Variables& v) {
  const tape::Autocast autocast(tape_, role().precision.autocast, role().precision.compute);
  const std::int64_t chunk = role().loss.chunk;
  return model().forward(input_of(v), [&](Tensor hidden) {
    const tape::ComponentScope component(tape_, Component::logits);
    // The caller's variable of the hidden states lives as long as the loss is formed.
    Tensor rows = tape::reshape(predicting(hidden), {-1, hidden.size(-1)});
    const std::int64_t count = rows.size(0);
    Tensor labels = tape_.empty({count}, DType::int64, kLabels);
    {
      // The order: a flag, a number and an index for each row.
      const Tensor valid = tape_.empty({count}, DType::boolean, kIndex);
      const Tensor flags = tape_.empty({count}, DType::int8, kIndex);
      const Tensor order = tape_.empty({count}, DType::int64, kIndex);
      rows = tape::clone(rows);
      labels = tape_.empty({count}, DType::int64, kLabels);
    }
    Tensor total = tape_.empty({}, DType::fp32, kItems);
    for (std::int64_t i = 0; i < count; i += chunk) {
      const std::int64_t n = std::min(chunk, count - i);
      Tensor part = tape::checkpoint(
          tape_,
          [](const Tensor& input, std::span<const Tensor> kept) {
            return chunk_loss(input, kept[0], kept[1]);
          },
          tape::slice(rows, 0, i, n), {model().head_table(), tape::slice(labels, 0, i, n)}, 2);
      total = tape::add(total, std::move(part));
    }
    small_tensors(kTokenMetrics);
    return tape::div_scalar(std::move(total));
  });
}

/// Liger's: no logits but those of a part.
Tensor SupervisedLoop::liger_loss(Variables& v) {
  const tape::Autocast autocast(tape_, role().precision.autocast, role().precision.compute);
  return model().forward(input_of(v), [&](Tensor hidden) {
    const std::int64_t width = hidden.size(-1);
    Tensor rows = tape::reshape(std::move(hidden), {-1, width});
    const Tensor labels = tape_.empty({rows.size(0)}, DType::int64, kLabels);
    const Tensor& head = model().head_table();
    const std::int64_t part = tape::liger_rows(rows.size(0), head.size(0), width);
    return tape::liger_linear_loss(std::move(rows), head, labels, part);
  });
}

/// Dynamic fine-tuning: token log-probs, weighted by themselves.
Tensor SupervisedLoop::dynamic_loss(Variables& v) {
  Tensor logits = call(input_of(v));
  const tape::ComponentScope component(tape_, Component::logits);
  Tensor labels = tape::slice(v.labels, 1, 1, v.labels.size(1) - 1);
  Tensor logprobs = trainer::selective_log_softmax(predicting(logits), labels);
  Tensor weights;
  {
    const tape::GradMode no_grad(tape_, false);
    weights = tape::exp(logprobs);
  }
  Tensor loss = tape::div_scalar(tape::sum(tape::neg(tape::mul(std::move(weights), logprobs))));
  const tape::GradMode no_grad(tape_, false);
  const Tensor each = entropies(predicting(logits));
  count_right(predicting(logits));
  return loss;
}

void SupervisedLoop::supervised_loss(Experience& e) {
  const tape::ComponentScope component(tape_, Component::activations);
  Variables& v = variables(e);
  const tape::GradMode mode(tape_, !v.evaluates);
  const Offloading offloading(tape_, role());
  switch (role().loss.token_logprob) {
    case TokenLogprob::fused_linear:
      loss_ = role().loss.chunk > 0 ? chunked_loss(v) : liger_loss(v);
      break;
    case TokenLogprob::selective_log_softmax:
      loss_ = dynamic_loss(v);
      break;
    default:
      loss_ = model_loss(v);
  }
  small_tensors(kTokenMetrics);
}

/// The score of each row's last token; rows of chosen answers against those of rejected ones.
void SupervisedLoop::reward_loss(Experience& e) {
  const tape::ComponentScope component(tape_, Component::activations);
  Variables& v = variables(e);
  const tape::GradMode mode(tape_, !v.evaluates);
  const Offloading offloading(tape_, role());
  Tensor scores;
  {
    const tape::Autocast autocast(tape_, role().precision.autocast, role().precision.compute);
    Tensor all = model().forward(input_of(v));
    const Tensor last = tape_.empty({all.size(0)}, DType::int64, kPooled);
    scores = tape::select(all, 1, all.size(1) - 1);
  }
  scores = widened(std::move(scores));
  const std::int64_t pairs = scores.size(0) / 2;
  Tensor margin = tape::sub(tape::slice(scores, 0, 0, pairs), tape::slice(scores, 0, pairs, pairs));
  loss_ = tape::neg(tape::mean(tape::log_sigmoid(std::move(margin))));
  small_tensors(kPairMetrics);
}

namespace {

Tensor labels_of(const Tensor& ids) {
  return tape::slice(ids, 1, 1, ids.size(1) - 1);
}

}  // namespace

void SupervisedLoop::policy_logprobs(Experience& e) {
  const tape::ComponentScope component(tape_, Component::activations);
  Variables& v = variables(e);
  const tape::GradMode mode(tape_, !v.evaluates);
  const Offloading offloading(tape_, role());
  v.logits = call(input_of(v));
  v.logprobs = trainer::selective_log_softmax(predicting(v.logits), labels_of(v.ids));
  v.sums = tape::sum(v.logprobs, 2u, false);
}

void SupervisedLoop::reference_logprobs(Experience& e) {
  const tape::GradMode no_grad(tape_, false);
  const tape::ComponentScope component(tape_, Component::activations);
  Variables& v = variables(e);
  const WithoutCheckpoints plain(model());
  const WithoutAdapters own(model());
  v.ref_logits = call(input_of(v));
  v.ref_sums =
      tape::sum(trainer::selective_log_softmax(predicting(v.ref_logits), labels_of(v.ids)), 2u, false);
}

/// What was precomputed comes with the micro-batch.
void SupervisedLoop::preference_loss(Experience& e) {
  const tape::ComponentScope component(tape_, Component::activations);
  Variables& v = variables(e);
  const tape::GradMode mode(tape_, !v.evaluates);
  const std::int64_t pairs = v.ids.size(0) / 2;
  if (!v.ref_sums.defined()) v.ref_sums = tape_.empty({v.ids.size(0)}, DType::fp32, kItems);
  Tensor ratios = tape::sub(v.sums, v.ref_sums);
  Tensor margin = tape::sub(tape::slice(ratios, 0, 0, pairs), tape::slice(ratios, 0, pairs, pairs));
  loss_ = tape::mean(tape::neg(tape::log_sigmoid(tape::mul_scalar(std::move(margin)))));
  {
    const tape::GradMode no_grad(tape_, false);
    const tape::ComponentScope logits(tape_, Component::logits);
    const Tensor rows = predicting(v.logits);
    const Tensor each = entropies(rows);
    small_tensors(kTokenMetrics);
    // Means of the completions' logits: their rows are picked out, chosen ones first.
    for (std::int64_t half = 0; half < 2; ++half) {
      const Tensor index = tape_.empty({2, pairs * e.response}, DType::int64, kIndex);
      const Tensor picked =
          tape_.empty({pairs * std::max<std::int64_t>(e.response, 1), rows.size(-1)}, rows.dtype(), kIndex);
      const Tensor means = tape::mean(picked, 1, false);
    }
    count_right(tape::slice(rows, 0, 0, pairs));
  }
  small_tensors(kPairMetrics);
  tape::drop(v.logits, v.ref_logits, v.logprobs, v.sums, v.ref_sums);
}

Tensor SupervisedLoop::forward(Experience& e, Output) {
  const tape::GradMode no_grad(tape_, false);
  const tape::ComponentScope component(tape_, Component::temporaries);
  const WithoutCheckpoints plain(model());
  const WithoutAdapters own(model());
  Variables inputs;
  const std::int64_t rows = context_.forward_batch, tokens = e.prompt + e.response;
  inputs.ids = tape_.empty({rows, tokens}, DType::int64, kIds);
  if (role().attention_mask) inputs.mask = tape_.empty({rows, tokens}, DType::int64, kMask);
  // Nothing is prepared yet: without an engine around it the model runs in its weights' dtype.
  const ShardingKind kind = role().sharding.kind;
  const bool bare = kind == ShardingKind::none || kind == ShardingKind::data_parallel;
  const Tensor logits = bare ? model().forward(input_of(inputs)) : call(input_of(inputs));
  return tape::sum(trainer::selective_log_softmax(predicting(logits), labels_of(inputs.ids)), 2u, false);
}

namespace {

using trainer::run_call;

constexpr unsigned kUpdated = kWeights | kOptimizer | kMasterWeights;

constexpr LoopCall kCalls[] = {
    {.name = "add_up_loss", .run = run_call<&TrainerLoop::add_up_loss>},
    {.name = "forward", .work = ModelWork::forward, .parts = kWeights},
    {.name = "begin_evaluation", .run = run_call<&SupervisedLoop::begin_evaluation>},
    {.name = "end_evaluation", .run = run_call<&SupervisedLoop::end_evaluation>},
    {.name = "take_micro_batch", .run = run_call<&SupervisedLoop::take_micro_batch>},
    {.name = "supervised_loss",
     .run = run_call<&SupervisedLoop::supervised_loss>,
     .work = ModelWork::train,
     .parts = kWeights,
     .after = {"take_micro_batch"}},
    {.name = "reward_loss",
     .run = run_call<&SupervisedLoop::reward_loss>,
     .work = ModelWork::train,
     .parts = kWeights,
     .after = {"take_micro_batch"}},
    {.name = "policy_logprobs",
     .run = run_call<&SupervisedLoop::policy_logprobs>,
     .work = ModelWork::train,
     .parts = kWeights,
     .after = {"take_micro_batch"}},
    {.name = "reference_logprobs",
     .run = run_call<&SupervisedLoop::reference_logprobs>,
     .work = ModelWork::forward,
     .parts = kWeights,
     .after = {"policy_logprobs"}},
    {.name = "preference_loss",
     .run = run_call<&SupervisedLoop::preference_loss>,
     .after = {"policy_logprobs"}},
    {.name = "backward",
     .run = run_call<&TrainerLoop::backward>,
     .parts = kWeights,
     .after = {"take_micro_batch"}},
    {.name = "begin_equals", .run = run_call<&TrainerLoop::begin_equals>},
    {.name = "end_equals", .run = run_call<&TrainerLoop::end_equals>},
    {.name = "detach_loss", .run = run_call<&TrainerLoop::detach_loss>, .after = {"backward"}},
    {.name = "clip", .run = run_call<&TrainerLoop::clip>, .after = {"backward", "build_optimizer"}},
    {.name = "step",
     .run = run_call<&TrainerLoop::step>,
     .parts = kUpdated,
     .after = {"backward", "build_optimizer"}},
};

}  // namespace

const LoopKind kSupervisedLoop = {.name = "trl_supervised",
                                  .make = trainer::make_own<SupervisedLoop>,
                                  .calls = kCalls,
                                  .takes_sequences = true};

}  // namespace headroom::trl
