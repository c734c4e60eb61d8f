#include "planner/frameworks/colossalchat/loop.h"

#include <algorithm>
#include <utility>

#include "models/architecture/family.h"
#include "simulator/tape/generate/sample.h"
#include "simulator/tape/operations/copy.h"
#include "simulator/tape/operations/pointwise.h"
#include "simulator/tape/operations/reduce.h"
#include "simulator/tape/operations/views.h"
#include "simulator/trainer/language_loss.h"
#include "simulator/trainer/repeat_scope.h"
#include "simulator/trainer/token_logprob.h"

namespace headroom::colossalchat {
namespace {

using tape::Tensor;

const std::uint16_t kPrompts = tape::operation_name("prompts"), kMask = tape::operation_name("attention_mask"),
                    kActions = tape::operation_name("action_mask"), kTexts = tape::operation_name("texts"),
                    kExperience = tape::operation_name("experience");

Tensor last_columns(const Tensor& tensor, std::int64_t count) {
  return tape::slice(tensor, 1, tensor.size(1) - count, count);
}

/// (tensor * mask).sum(1) / (mask.sum(1) + tiny)
Tensor masked_mean(Tensor tensor, const Tensor& mask) {
  Tensor sum = tape::sum(tape::mul(std::move(tensor), mask), 2u, false);
  Tensor count = tape::add_scalar(tape::sum(mask, 2u, false));
  return tape::div(std::move(sum), std::move(count));
}

}  // namespace

Variables& ChatLoop::variables(Experience& e) const {
  return e.own<Variables>(role().loop);
}

std::int64_t ChatLoop::all_collects(const Experience& e) const {
  return std::max<std::int64_t>(1, e.batch / collected());
}

std::int64_t ChatLoop::all_updates(const Experience& e) const {
  return context_.epochs * std::max<std::int64_t>(1, e.batch / context_.micro_batch);
}

/// Gradients add up over `mini_batch` sequences; of the updates that are run the last completes them.
bool ChatLoop::completes(Experience& e) const {
  return context_.mini_batch <= context_.micro_batch ||
         variables(e).updates == trainer::shown_runs(all_updates(e));
}

// --- Experience

void ChatLoop::take_prompts(Experience& e) {
  Variables& v = variables(e);
  if (v.updates > 0) v.collects = v.updates = 0;
  ++v.collects;
  e.prompts = tape_.empty({collected(), e.prompt}, DType::int64, kPrompts);
  v.prompt_mask = tape_.empty({collected(), e.prompt}, DType::int64, kMask);
}

Tensor ChatLoop::generate(Experience& e) {
  const trainer::RepeatScope repeated(context_.repeat, variables(e).collects, all_collects(e));
  const tape::GradMode no_grad(tape_, false);
  const tape::ComponentScope component(tape_, Component::temporaries);
  model().options().training = false;
  tape::SampleOptions options;
  options.new_tokens = e.response;
  options.begin_token = false;
  options.length_processors = false;
  options.whole_logits = true;
  options.top_k = true;
  options.keeps_last_output = true;
  options.even = role().sharding.kind == ShardingKind::gemini;  // gathered for each token anew
  options.mask = variables(e).prompt_mask;
  options.padded = role().padded;
  Tensor sequences = tape::sample(model(), e.prompts, options);
  model().options().training = role().trained;
  e.mask = tape::to(tape::plain(kMask, DType::boolean, sequences), DType::int64);
  variables(e).batch.push_back(tape_.empty({collected(), e.response}, DType::boolean, kActions));
  return sequences;
}

tape::ModelInput ChatLoop::input_of(const Experience& e) const {
  tape::ModelInput input;
  input.ids = e.sequences;
  input.attention_mask = e.mask;
  input.padded = role().padded;
  return input;
}

/// Keys and values exist until the body has returned.
Tensor ChatLoop::forward(Experience& e, Output) {
  const trainer::RepeatScope repeated(context_.repeat, variables(e).collects, all_collects(e));
  const tape::GradMode no_grad(tape_, false);
  const tape::ComponentScope component(tape_, Component::temporaries);
  model().options().training = false;
  tape::KvCache cache;
  tape::ModelInput input = input_of(e);
  input.cache = &cache;
  Tensor values = model().forward(input);
  cache.clear();
  model().options().training = role().trained;
  empty_after_micro_batch();
  return values;
}

/// Rewards less a KL term, advantages; all of it goes to the host.
void ChatLoop::make_experience(Experience& e) {
  const tape::GradMode no_grad(tape_, false);
  const tape::ComponentScope component(tape_, Component::temporaries);
  Variables& v = variables(e);
  if (e.old_logprobs.defined() && e.ref_logprobs.defined()) {
    const Tensor log_ratio = tape::sub(e.ref_logprobs, e.old_logprobs);
    const Tensor divergence = tape::sub(tape::add_scalar(tape::exp(log_ratio)), log_ratio);
    const Tensor reward = tape_.empty({collected()}, DType::fp32, kExperience);
    const Tensor advantages = tape_.empty({collected(), e.response}, DType::fp32, kExperience);
  }
  tape::drop(v.actor_logits, v.ref_logits);
  for (std::vector<Tensor>* list : {&v.actor_parts, &v.ref_parts, &v.outputs, &v.batch}) {
    for (Tensor& tensor : *list) tensor.reset();
    list->clear();
  }
  tape::drop(e.prompts, v.prompt_mask, e.sequences, e.mask, e.old_logprobs, e.ref_logprobs, e.values, e.rewards);
}

// --- Updates

void ChatLoop::take_batch(Experience& e) {
  ++variables(e).updates;
  const std::int64_t batch = context_.micro_batch;
  const DType type = role().precision.weights;
  e.sequences = tape_.empty({batch, e.prompt + e.response}, DType::int64, kExperience);
  e.old_logprobs = tape_.empty({batch, e.response}, type, kExperience);
  e.values = tape_.empty({batch, e.response}, type, kExperience);
  e.rewards = tape_.empty({batch}, type, kExperience);
  e.advantages = tape_.empty({batch, e.response}, type, kExperience);
  e.mask = tape_.empty({batch, e.prompt + e.response}, DType::int64, kExperience);
  variables(e).batch.push_back(tape_.empty({batch, e.response}, DType::boolean, kActions));
}

void ChatLoop::end_batch(Experience& e) {
  Variables& v = variables(e);
  for (Tensor& tensor : v.kept) tensor.reset();
  v.kept.clear();
  v.batch.clear();
  tape::drop(e.sequences, e.old_logprobs, e.values, e.rewards, e.advantages, e.mask);
}

Tensor ChatLoop::policy_loss(Experience& e, const Tensor& logits) {
  const Tensor logprobs = last_columns(trainer::token_logprobs(logits, e.sequences, role().loss), e.response);
  const Tensor& mask = variables(e).batch.front();
  Tensor ratio = tape::exp(tape::sub(logprobs, e.old_logprobs));
  Tensor plain = tape::mul(ratio, e.advantages);
  Tensor clipped = tape::mul(tape::clamp(ratio), e.advantages);
  ratio.reset();
  Tensor loss = tape::neg(tape::minimum(std::move(plain), std::move(clipped)));
  return tape::mean(masked_mean(std::move(loss), mask));
}

Tensor ChatLoop::text_loss(Experience& e, bool wide) {
  const LossSpec& spec = role().loss;
  tape::ModelInput input;
  input.ids = tape_.empty({spec.text_sequences, spec.text_tokens}, DType::int64, kTexts);
  input.attention_mask = tape_.empty({spec.text_sequences, spec.text_tokens}, DType::int64, kTexts);
  input.padded = role().padded;
  Tensor logits = model().forward(input);
  variables(e).kept.push_back(input.ids);
  variables(e).kept.push_back(input.attention_mask);
  variables(e).kept.push_back(logits);
  return wide ? trainer::causal_lm_loss(std::move(logits), input.ids)
              : trainer::shifted_lm_loss(std::move(logits), input.ids);
}

void ChatLoop::train(Experience& e) {
  const trainer::RepeatScope repeated(context_.repeat, variables(e).updates, all_updates(e));
  role().head == HeadKind::language_model ? train_actor(e) : train_critic(e);
  finish(e, completes(e));
}

void ChatLoop::train_critic(Experience& e) {
  store_.begin_micro_batch(completes(e));
  Tensor loss;
  {
    const tape::ComponentScope component(tape_, Component::activations);
    const Tensor values = last_columns(model().forward(input_of(e)), e.response);
    Tensor clipped = tape::add(tape::clamp(tape::sub(values, e.values)), e.values);
    Tensor bounded = tape::pow(tape::sub(std::move(clipped), e.advantages));
    Tensor plain = tape::pow(tape::sub(values, e.advantages));
    loss = tape::mul_scalar(tape::mean(tape::maximum(std::move(bounded), std::move(plain))));
  }
  store_.backward(loss);
  empty_after_micro_batch();
}

// --- Coati

void CoatiLoop::score(Experience& e) {
  const trainer::RepeatScope repeated(context_.repeat, variables(e).collects, all_collects(e));
  const tape::GradMode no_grad(tape_, false);
  const tape::ComponentScope component(tape_, Component::temporaries);
  Variables& v = variables(e);
  model().options().training = false;
  tape::KvCache cache;
  tape::ModelInput input = input_of(e);
  input.cache = &cache;
  Tensor logits = model().forward(input);
  model().options().training = role().trained;
  Tensor logprobs = trainer::token_logprobs(logits, e.sequences, role().loss);
  (role().trained ? e.old_logprobs : e.ref_logprobs) = last_columns(logprobs, e.response);
  v.outputs.push_back(std::move(logits));
  for (tape::KvCache::LayerCache& layer : cache.layers) {
    v.outputs.push_back(std::move(layer.keys));
    v.outputs.push_back(std::move(layer.values));
  }
  logprobs.reset();
  empty_after_micro_batch();
}

/// One backward of both losses. The output's logits and its cache, which is what the layers saved, live until the
/// critic has stepped.
void CoatiLoop::train_actor(Experience& e) {
  Variables& v = variables(e);
  store_.begin_micro_batch(true);
  Tensor loss;
  {
    const tape::ComponentScope component(tape_, Component::activations);
    tape::KvCache cache;
    tape::ModelInput input = input_of(e);
    if (role().recompute.kind == RecomputeKind::none) input.cache = &cache;
    Tensor logits = model().forward(input);
    for (const tape::KvCache::LayerCache& layer : cache.layers) {
      v.kept.push_back(tape::detach(layer.keys));
      v.kept.push_back(tape::detach(layer.values));
    }
    v.kept.push_back(tape::detach(logits));
    loss = policy_loss(e, logits);
    if (role().loss.text_sequences > 0)
      loss = tape::add(tape::mul_scalar(text_loss(e, false)), tape::mul_scalar(std::move(loss)));
  }
  store_.backward(loss);
  empty_after_micro_batch();
}

void CoatiLoop::finish(const Experience&, bool) {
  store_.step();
}

// --- ColossalChat

/// The logits of some sequences at a time.
void BoostedLoop::score(Experience& e) {
  const trainer::RepeatScope repeated(context_.repeat, variables(e).collects, all_collects(e));
  const tape::GradMode no_grad(tape_, false);
  const tape::ComponentScope component(tape_, Component::temporaries);
  Variables& v = variables(e);
  std::vector<Tensor>& parts = role().trained ? v.actor_parts : v.ref_parts;
  model().options().training = false;
  const std::int64_t at_once = role().loss.score_sequences > 0 ? role().loss.score_sequences : collected();
  for (std::int64_t first = 0; first < collected(); first += at_once) {
    const std::int64_t count = std::min(at_once, collected() - first);
    tape::ModelInput input = input_of(e);
    input.ids = tape::slice(e.sequences, 0, first, count);
    input.attention_mask = tape::slice(e.mask, 0, first, count);
    parts.push_back(returned_logits(role(), model().forward(input)));
    empty_after_micro_batch();
  }
  model().options().training = role().trained;
}

/// Both models' logits are joined, then log-probs are taken of each.
void BoostedLoop::gather(Experience& e) {
  const trainer::RepeatScope repeated(context_.repeat, variables(e).collects, all_collects(e));
  const tape::GradMode no_grad(tape_, false);
  const tape::ComponentScope component(tape_, Component::logits);
  Variables& v = variables(e);
  const auto join = [](std::vector<Tensor>& parts, Tensor& whole) {
    if (parts.empty()) return;
    whole = parts.size() == 1 ? parts.front() : tape::cat(parts, 0);
    for (Tensor& part : parts) part.reset();
    parts.clear();
  };
  join(v.actor_parts, v.actor_logits);
  join(v.ref_parts, v.ref_logits);
  e.old_logprobs = last_columns(trainer::token_logprobs(v.actor_logits, e.sequences, role().loss), e.response);
  if (v.ref_logits.defined())
    e.ref_logprobs = last_columns(trainer::token_logprobs(v.ref_logits, e.sequences, role().loss), e.response);
}

void BoostedLoop::train_actor(Experience& e) {
  store_.begin_micro_batch(completes(e));
  Tensor loss;
  {
    const tape::ComponentScope component(tape_, Component::activations);
    Tensor logits = returned_logits(role(), model().forward(input_of(e)));
    variables(e).kept.push_back(tape::detach(logits));
    loss = tape::mul_scalar(policy_loss(e, logits));
  }
  store_.backward(loss);
  empty_after_micro_batch();
  if (role().loss.text_sequences == 0) return;
  Tensor text;
  {
    const tape::ComponentScope component(tape_, Component::activations);
    text = tape::mul_scalar(text_loss(e, true));
  }
  store_.backward(text);
  empty_after_micro_batch();
}

void BoostedLoop::update(Experience& e) {
  if (completes(e)) store_.step();
}

namespace {

using trainer::run_call;
constexpr unsigned kTrained = kWeights | kOptimizer | kMasterWeights;

constexpr LoopCall kCoatiCalls[] = {
    {.name = "take_prompts", .run = run_call<&ChatLoop::take_prompts>},
    {.name = "generate", .work = ModelWork::generate, .parts = kWeights, .after = {"take_prompts"}},
    {.name = "score",
     .run = run_call<&ChatLoop::score>,
     .work = ModelWork::forward,
     .parts = kWeights,
     .after = {"generate"}},
    {.name = "forward", .work = ModelWork::forward, .parts = kWeights, .after = {"generate"}},
    {.name = "make_experience", .run = run_call<&ChatLoop::make_experience>, .after = {"score"}},
    {.name = "take_batch", .run = run_call<&ChatLoop::take_batch>, .after = {"make_experience"}},
    {.name = "train", .work = ModelWork::train, .parts = kTrained, .after = {"take_batch"}},
    {.name = "end_batch", .run = run_call<&ChatLoop::end_batch>, .after = {"train"}},
};

constexpr LoopCall kBoostedCalls[] = {
    {.name = "take_prompts", .run = run_call<&ChatLoop::take_prompts>},
    {.name = "generate", .work = ModelWork::generate, .parts = kWeights, .after = {"take_prompts"}},
    {.name = "score",
     .run = run_call<&ChatLoop::score>,
     .work = ModelWork::forward,
     .parts = kWeights,
     .after = {"generate"}},
    {.name = "gather", .run = run_call<&BoostedLoop::gather>, .after = {"score"}},
    {.name = "forward", .work = ModelWork::forward, .parts = kWeights, .after = {"generate"}},
    {.name = "make_experience", .run = run_call<&ChatLoop::make_experience>, .after = {"gather"}},
    {.name = "take_batch", .run = run_call<&ChatLoop::take_batch>, .after = {"make_experience"}},
    {.name = "train", .work = ModelWork::train, .parts = kTrained, .after = {"take_batch"}},
    {.name = "update", .run = run_call<&BoostedLoop::update>, .parts = kTrained, .after = {"train"}},
    {.name = "end_batch", .run = run_call<&ChatLoop::end_batch>, .after = {"train"}},
};

}  // namespace

const LoopKind kCoatiLoop = {.name = "coati", .make = trainer::make_own<CoatiLoop>, .calls = kCoatiCalls};
const LoopKind kBoostedLoop = {
    .name = "colossalchat", .make = trainer::make_own<BoostedLoop>, .calls = kBoostedCalls};

}  // namespace headroom::colossalchat
