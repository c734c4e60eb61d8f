#include "simulator/trainer/plain_loop.h"

#include <algorithm>

#include "simulator/tape/core/autocast.h"
#include "simulator/tape/core/checkpoint.h"
#include "simulator/tape/operations/copy.h"
#include "simulator/tape/operations/losses.h"
#include "simulator/tape/operations/pointwise.h"
#include "simulator/tape/operations/reduce.h"
#include "simulator/tape/operations/token_losses.h"
#include "simulator/tape/operations/views.h"
#include "simulator/trainer/repeat_scope.h"
#include "simulator/trainer/token_logprob.h"

namespace headroom::trainer {
namespace {

using tape::Tensor;

const std::uint16_t kKept = tape::operation_name("kept");

Tensor rows(const Tensor& tensor, std::int64_t first, std::int64_t count) {
  return tape::slice(tensor, 0, first, count);
}

/// Log-probs and entropies [B,T-1] of tokens ids [B,T] out of one operation on hidden states and the head.
tape::FusedOutput fused_outputs(tape::Model& model, const tape::ModelInput& input, const LossSpec& loss) {
  const std::int64_t sequences = input.ids.size(0), predicted = input.ids.size(1) - 1;
  tape::FusedOutput out;
  const Tensor labels = tape::reshape(tape::slice(input.ids, 1, 1, predicted), {-1});
  out.logprobs = model.forward(input, [&](Tensor hidden) {
    Tensor rows = tape::slice(std::move(hidden), 1, 0, predicted);
    rows = tape::reshape(std::move(rows), {-1, rows.size(-1)});
    tape::FusedOutput both =
        tape::fused_linear_logprobs(std::move(rows), model.head_table(), labels, loss.chunk);
    out.entropy = tape::view(std::move(both.entropy), {sequences, predicted});
    return tape::view(std::move(both.logprobs), {sequences, predicted});
  });
  return out;
}

}  // namespace

tape::ModelInput PlainLoop::input_of(const Experience& experience, const Tensor& ids) const {
  tape::ModelInput input;
  input.ids = ids;
  if (role().attention_mask) input.attention_mask = rows(experience.mask, 0, ids.size(0));
  return input;
}

Tensor PlainLoop::forward(Experience& experience, Output output) {
  const tape::GradMode no_grad(tape_, false);
  const tape::ComponentScope component(tape_, Component::temporaries);
  const tape::Autocast autocast(tape_, role().precision.autocast, role().precision.compute);
  std::vector<Tensor> outs;
  const std::int64_t all = ceil_div(experience.batch, context_.forward_batch);
  for (std::int64_t i = 0, run = 0; i < experience.batch; i += context_.forward_batch, ++run) {
    const bool between = all > kMostRuns && run > 1 && run + 1 < all;
    if (between) {
      outs.push_back(tape_.empty(outs[1].shape(), outs[1].dtype(), kKept));
      continue;
    }
    const TimesScope times(context_.repeat, all > kMostRuns && run == 1 ? static_cast<double>(all - 2) : 1);
    Tensor ids = rows(experience.sequences, i, std::min(context_.forward_batch, experience.batch - i));
    const tape::ModelInput input = input_of(experience, ids);
    if (output == Output::logprobs && role().loss.token_logprob == TokenLogprob::fused_linear) {
      outs.push_back(fused_outputs(model(), input, role().loss).logprobs);
      empty_after_micro_batch();
      continue;
    }
    Tensor result = model().forward(input);
    if (output == Output::logprobs)
      outs.push_back(token_logprobs(std::move(result), ids, role().loss));
    else if (output == Output::rewards)
      outs.push_back(tape::select(std::move(result), 1, result.size(1) - 1));
    else
      outs.push_back(std::move(result));
    empty_after_micro_batch();
  }
  Tensor joined = tape::cat(outs, 0);
  while (!outs.empty()) outs.pop_back();
  if (output != Output::logprobs) joined = tape::to(std::move(joined), DType::fp32);
  return joined;
}

PlainLoop::TokenOutputs PlainLoop::train_outputs(const Experience& experience, const Tensor& ids) {
  Tensor logits;
  TokenOutputs out;
  {
    const tape::Autocast autocast(tape_, role().precision.autocast, role().precision.compute);
    const tape::ModelInput input = input_of(experience, ids);
    if (role().loss.token_logprob == TokenLogprob::fused_linear) {
      auto [logprobs, entropies] = fused_outputs(model(), input, role().loss);
      out.logprobs = std::move(logprobs);
      if (role().loss.train_entropy != Entropy::none) out.entropies = std::move(entropies);
      return out;
    }
    logits = model().forward(input);
  }
  out.logprobs = tape::to(token_logprobs(logits, ids, role().loss), DType::fp32);
  if (role().loss.train_entropy != Entropy::none) out.entropies = token_entropies(logits, role().loss);
  logits.reset();
  return out;
}

Tensor PlainLoop::policy_loss(const Experience& experience, const Tensor& ids, std::int64_t first) {
  const std::int64_t count = ids.size(0);
  auto [logprobs, entropies] = train_outputs(experience, ids);
  Tensor difference;
  {
    Tensor old = tape::to(rows(experience.old_logprobs, first, count), DType::fp32);
    difference = tape::sub(logprobs, std::move(old));
  }
  Tensor ratio = tape::exp(std::move(difference));
  Tensor advantages = rows(experience.advantages, first, count);
  Tensor plain;
  {
    Tensor negative = tape::neg(advantages);
    plain = tape::mul(std::move(negative), ratio);
  }
  Tensor clipped;
  {
    Tensor negative = tape::neg(advantages);
    Tensor bounded = tape::clamp(ratio);
    clipped = tape::mul(std::move(negative), std::move(bounded));
  }
  Tensor larger = tape::maximum(std::move(plain), std::move(clipped));
  Tensor policy = tape::mean(std::move(larger));
  Tensor penalty;
  {
    Tensor reference = tape::to(rows(experience.ref_logprobs, first, count), DType::fp32);
    Tensor gap = tape::sub(logprobs, std::move(reference));
    penalty = tape::mean(std::move(gap));
  }
  penalty = tape::mul_scalar(std::move(penalty));
  Tensor total = tape::add(std::move(policy), std::move(penalty));
  if (entropies.defined()) {
    Tensor bonus = tape::mul_scalar(tape::mean(entropies));
    total = tape::sub(total, std::move(bonus));
  }
  tape::drop(logprobs, entropies, ratio, advantages);
  return total;
}

Tensor PlainLoop::value_loss(const Experience& experience, const Tensor& ids, std::int64_t first) {
  Tensor values;
  {
    const tape::Autocast autocast(tape_, role().precision.autocast, role().precision.compute);
    tape::ModelInput input;
    input.ids = ids;
    values = model().forward(input);
  }
  Tensor wide = tape::to(values, DType::fp32);
  Tensor targets = tape::add_scalar(rows(experience.values, first, ids.size(0)));
  Tensor loss = tape::mse_loss(std::move(wide), std::move(targets));
  values.reset();
  return loss;
}

/// -log-probs of the given tokens, averaged.
Tensor PlainLoop::supervised_loss(const Experience& experience, const Tensor& ids) {
  Tensor logprobs = train_outputs(experience, ids).logprobs;
  return tape::mean(tape::neg(logprobs));
}

namespace {

/// -mean(logsigmoid(chosen - rejected)): the first half of the rows against the second.
Tensor pairwise_loss(const Tensor& scores, std::int64_t count) {
  Tensor margin;
  {
    Tensor chosen = rows(scores, 0, count / 2), rejected = rows(scores, count / 2, count - count / 2);
    margin = tape::sub(std::move(chosen), std::move(rejected));
  }
  return tape::neg(tape::mean(tape::log_sigmoid(std::move(margin))));
}

}  // namespace

/// DPO: sequence log-probs over the reference's, times beta.
Tensor PlainLoop::preference_loss(const Experience& experience, const Tensor& ids, std::int64_t first) {
  const std::int64_t count = ids.size(0);
  Tensor own = tape::sum(train_outputs(experience, ids).logprobs, 2u, false);
  Tensor reference = tape::to(rows(experience.ref_logprobs, first, count), DType::fp32);
  reference = tape::sum(std::move(reference), 2u, false);
  Tensor rewards = tape::mul_scalar(tape::sub(own, std::move(reference)));
  Tensor loss = pairwise_loss(rewards, count);
  tape::drop(own, rewards);
  return loss;
}

/// Bradley-Terry over the last token's values.
Tensor PlainLoop::reward_loss(const Tensor& ids) {
  Tensor values;
  {
    const tape::Autocast autocast(tape_, role().precision.autocast, role().precision.compute);
    tape::ModelInput input;
    input.ids = ids;
    values = model().forward(input);
  }
  Tensor last = tape::to(tape::select(values, 1, values.size(1) - 1), DType::fp32);
  Tensor loss = pairwise_loss(last, ids.size(0));
  tape::drop(values, last);
  return loss;
}

Tensor PlainLoop::loss(const Experience& experience, std::int64_t first, std::int64_t count) {
  Tensor ids = rows(experience.sequences, first, count);
  if (context_.algorithm == Algorithm::sft) return supervised_loss(experience, ids);
  if (context_.algorithm == Algorithm::dpo) return preference_loss(experience, ids, first);
  if (context_.algorithm == Algorithm::reward_model) return reward_loss(ids);
  return role().head == HeadKind::language_model ? policy_loss(experience, ids, first)
                                                 : value_loss(experience, ids, first);
}

void PlainLoop::train_mini_batch(const Experience& experience, std::int64_t first, std::int64_t count, bool all) {
  const std::int64_t micro = std::min(context_.micro_batch, count);
  const std::int64_t parts = ceil_div(count, micro);
  const Runs runs(parts, all);
  for (std::int64_t run = 0; run < runs.shown(); ++run) {
    const auto [i, times] = runs.at(run);
    const TimesScope repeated(context_.repeat, times);
    const std::int64_t at = first + i * micro, n = std::min(micro, first + count - at);
    store_.begin_micro_batch(i + 1 == parts);
    Tensor part;
    {
      std::optional<tape::SaveOnCpu> offload;
      if (role().activation_offload) offload.emplace(tape_);
      const tape::ComponentScope component(tape_, Component::activations);
      part = tape::div_scalar(loss(experience, at, n));
    }
    store_.backward(part);
    part.reset();
    empty_after_micro_batch();
  }
}

void PlainLoop::train(Experience& experience) {
  const std::int64_t an_epoch = ceil_div(experience.batch, context_.mini_batch);
  const std::int64_t micro = std::max<std::int64_t>(1, std::min(context_.micro_batch, context_.mini_batch));
  const bool all = context_.epochs * ceil_div(experience.batch, micro) <= kMostRuns;
  const Runs runs(context_.epochs * an_epoch, all);
  for (std::int64_t run = 0; run < runs.shown(); ++run) {
    const auto [step, times] = runs.at(run);
    const TimesScope repeated(context_.repeat, times);
    const std::int64_t first = step % an_epoch * context_.mini_batch;
    train_mini_batch(experience, first, std::min(context_.mini_batch, experience.batch - first), all);
    store_.step();
  }
}

}  // namespace headroom::trainer
