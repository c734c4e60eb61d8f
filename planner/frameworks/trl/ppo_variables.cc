#include "planner/frameworks/trl/ppo_variables.h"

#include <utility>

#include "simulator/tape/operations/copy.h"
#include "simulator/tape/operations/in_place.h"
#include "simulator/tape/operations/losses.h"
#include "simulator/tape/operations/pointwise.h"
#include "simulator/tape/operations/reduce.h"
#include "simulator/tape/operations/views.h"
#include "simulator/trainer/token_logprob.h"

namespace headroom::trl {
namespace {

using tape::Tensor;

const std::uint16_t kCompare = tape::operation_name("aten::compare"),
                    kIndex = tape::operation_name("aten::index"), kAny = tape::operation_name("aten::any"),
                    kArange = tape::operation_name("aten::arange"), kAdd = tape::operation_name("aten::add");

Tensor flags(const Tensor& like) {
  return tape::plain(kCompare, DType::boolean, like);
}

Tensor joined(const std::vector<Tensor>& parts) {
  return tape::cat(parts, 0);
}

/// sum(values * mask) / sum(mask).
Tensor masked_mean(const Tensor& values, const Tensor& mask) {
  Tensor total = tape::sum(tape::mul(values, mask));
  Tensor count = tape::reduce(kAdd, DType::int64, 8, mask, (1u << mask.rank()) - 1u, false);
  return tape::div(std::move(total), std::move(count));
}

/// (values - mean) / deviation, both over the mask.
Tensor whitened(const Tensor& values, const Tensor& mask) {
  Tensor mean = masked_mean(values, mask);
  Tensor variance;
  {
    const Tensor own_mean = masked_mean(values, mask);
    const Tensor centred = tape::sub(values, own_mean);
    variance = masked_mean(tape::pow(centred), mask);
    Tensor count = tape::reduce(kAdd, DType::int64, 8, mask, (1u << mask.rank()) - 1u, false);
    Tensor bessel = tape::div(count, tape::add_scalar(count));
    variance = tape::mul(std::move(variance), std::move(bessel));
  }
  Tensor shifted = tape::sub(values, std::move(mean));
  return tape::mul(std::move(shifted), tape::rsqrt(tape::add_scalar(std::move(variance))));
}

/// rewards[:, t] + gamma * values[:, t + 1] - values[:, t], added up from the end: a tensor [N] a token
/// stays.
std::vector<Tensor> advantages_by_token(const Tensor& rewards, const Tensor& values) {
  std::vector<Tensor> out;
  Tensor last;
  for (std::int64_t t = rewards.size(1) - 1; t >= 0; --t) {
    Tensor delta = tape::select(rewards, 1, t);
    if (last.defined())
      delta = tape::add(std::move(delta), tape::mul_scalar(tape::select(values, 1, t + 1)));
    else
      delta = tape::add_scalar(std::move(delta));
    delta = tape::sub(std::move(delta), tape::select(values, 1, t));
    last = last.defined() ? tape::add(std::move(delta), tape::mul_scalar(std::move(last)))
                          : tape::add_scalar(std::move(delta));
    out.push_back(last);
  }
  return out;
}

Tensor stacked(const std::vector<Tensor>& columns) {
  std::vector<Tensor> wide;
  for (const Tensor& column : columns) wide.push_back(tape::unsqueeze(column, 1));
  return tape::cat(wide, 1);
}

}  // namespace

void PpoVariables::Outputs::clear() {
  tape::drop(logits, ids, positions, mask);
  hidden.clear();
  cache.clear();
}

void rollout_logprobs(PpoVariables& loop) {
  Tensor scores = tape::slice(loop.scores, 0, loop.chunk, loop.query.size(0));
  loop.logprob = trainer::selective_log_softmax(scores, loop.response);
}

void make_ppo_experience(PpoVariables& loop, tape::Tape& tape) {
  loop.kept.clear();
  loop.all_responses = joined(loop.responses);
  loop.kept.push_back(joined(loop.responses));  // the postprocessed ones
  loop.all_logprobs = joined(loop.logprobs);
  loop.all_ref_logprobs = joined(loop.ref_logprobs);
  Tensor lengths = joined(loop.length_parts), rewards = joined(loop.reward_parts);
  loop.all_values = joined(loop.value_parts);
  for (std::vector<Tensor>* parts : {&loop.responses, &loop.logprobs, &loop.ref_logprobs, &loop.length_parts,
                                     &loop.value_parts, &loop.reward_parts})
    parts->clear();
  tape::drop(loop.logprob, loop.ref_logprob, loop.full_value, loop.value, loop.reward);
  tape.memory().empty_cache();

  const std::int64_t batch = loop.all_responses.size(0), response = loop.all_responses.size(1);
  Tensor ended = tape::reduce(kAny, DType::boolean, 1, flags(loop.all_responses), 2u, false);
  Tensor positions = tape.empty({batch, response}, DType::int64, kArange);
  loop.padding = flags(positions);
  loop.all_logprobs = tape::masked_fill(std::move(loop.all_logprobs), loop.padding);
  loop.all_ref_logprobs = tape::masked_fill(std::move(loop.all_ref_logprobs), loop.padding);
  Tensor lengths_after = tape::add_scalar(lengths);
  loop.padding_after = flags(positions);
  loop.all_values = tape::masked_fill(std::move(loop.all_values), loop.padding_after);
  Tensor log_ratio = tape::sub(loop.all_ref_logprobs, loop.all_logprobs);
  Tensor divergence = tape::neg(log_ratio);
  Tensor penalty = tape::mul_scalar(divergence);
  Tensor shaped = tape::clone(penalty);
  Tensor first = tape.empty({batch}, DType::int64, kArange),
         last = tape.empty({batch}, DType::int64, kArange);

  std::vector<Tensor> by_token = advantages_by_token(shaped, loop.all_values);
  Tensor advantages = stacked(by_token);
  loop.returns = tape::add(advantages, loop.all_values);
  {
    const Tensor counted = flags(loop.padding);
    advantages = whitened(advantages, counted);
  }
  loop.advantages = tape::masked_fill(std::move(advantages), loop.padding);
  loop.carried = std::move(by_token);
  loop.carried.push_back(std::move(log_ratio));
  for (Tensor* tensor : {&ended, &positions, &lengths, &lengths_after, &rewards, &divergence, &penalty,
                         &shaped, &first, &last})
    loop.kept.push_back(std::move(*tensor));
  tape.memory().empty_cache();
}

void make_ppo_loss(PpoVariables& loop, std::int64_t prompt) {
  const std::int64_t response = loop.micro_responses.size(1);
  const auto of_micro_batch = [&](const Tensor& like) {
    return loop.micro_responses.tape().empty(loop.micro_responses.shape(), like.dtype(), kIndex);
  };
  std::vector<Tensor> variables;
  {
    const tape::ComponentScope component(loop.micro_responses.tape(), Component::logits);
    Tensor part = tape::slice(loop.policy.logits, 1, prompt - 1, response);
    loop.logits = tape::div_in_place(std::move(part), loop.policy.logits);
  }
  Tensor logprobs = trainer::selective_log_softmax(loop.logits, loop.micro_responses);
  logprobs = tape::masked_fill(std::move(logprobs), of_micro_batch(loop.padding));
  Tensor values = tape::slice(loop.new_values, 1, prompt - 1, response);
  values = tape::masked_fill(std::move(values), of_micro_batch(loop.padding));
  Tensor clipped_values =
      tape::clamp(values, tape::add_scalar(loop.micro_values), tape::add_scalar(loop.micro_values));
  Tensor square = tape::pow(tape::sub(values, loop.micro_returns));
  Tensor clipped_square = tape::pow(tape::sub(clipped_values, loop.micro_returns));
  Tensor larger = tape::maximum(square, clipped_square);
  Tensor value_loss = tape::mul_scalar(masked_mean(larger, flags(of_micro_batch(loop.padding))));
  Tensor value_clipped;
  {
    const tape::GradMode no_grad(larger.tape(), false);
    value_clipped = masked_mean(tape::to(flags(square), DType::fp32), flags(of_micro_batch(loop.padding)));
  }
  loop.difference = tape::sub(logprobs, loop.micro_logprobs);
  loop.ratio = tape::exp(loop.difference);
  loop.policy_losses = tape::mul(tape::neg(loop.micro_advantages), loop.ratio);
  loop.clipped_losses = tape::mul(tape::neg(loop.micro_advantages), tape::clamp(loop.ratio));
  Tensor worse = tape::maximum(loop.policy_losses, loop.clipped_losses);
  Tensor policy_loss = masked_mean(worse, flags(of_micro_batch(loop.padding)));
  loop.loss = tape::add(policy_loss, tape::mul_scalar(value_loss));
  for (Tensor* tensor : {&logprobs, &values, &clipped_values, &square, &clipped_square, &larger, &value_loss,
                         &value_clipped, &worse, &policy_loss})
    variables.push_back(std::move(*tensor));
  loop.variables = std::move(variables);
}

void make_ppo_statistics(PpoVariables& loop, tape::Tape& tape) {
  const tape::GradMode no_grad(tape, false);
  const tape::ComponentScope component(tape, Component::logits);
  {
    const Tensor clipped = flags(loop.policy_losses);
    loop.variables.push_back(masked_mean(tape::to(clipped, DType::fp32), flags(clipped)));
  }
  loop.distribution = tape::softmax(loop.logits, loop.logits.dtype());
  Tensor normaliser = tape::logsumexp(loop.logits);
  Tensor expected = tape::sum(tape::mul(loop.distribution, loop.logits), 4u, false);
  loop.entropy = tape::sub(std::move(normaliser), std::move(expected));
  loop.variables.push_back(tape::mul_scalar(tape::mean(tape::pow(loop.difference))));
  tape::mean(loop.entropy).reset();
  tape::mean(loop.ratio).reset();
}

}  // namespace headroom::trl
