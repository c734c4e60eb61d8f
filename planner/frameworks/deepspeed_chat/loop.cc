#include "planner/frameworks/deepspeed_chat/loop.h"

#include <algorithm>
#include <utility>

#include "models/architecture/family.h"
#include "planner/frameworks/deepspeed_chat/hybrid_generation.h"
#include "simulator/engine/hybrid.h"
#include "simulator/tape/generate/sample.h"
#include "simulator/tape/operations/copy.h"
#include "simulator/tape/operations/pointwise.h"
#include "simulator/tape/operations/reduce.h"
#include "simulator/tape/operations/views.h"
#include "simulator/trainer/token_logprob.h"

namespace headroom::deepspeed_chat {
namespace {

using tape::Tensor;

const std::uint16_t kPrompts = tape::operation_name("prompts"),
                    kMask = tape::operation_name("attention_mask"),
                    kEnds = tape::operation_name("chosen_end_scores"),
                    kLengths = tape::operation_name("valid_answer_lengths"),
                    kNotEqual = tape::operation_name("aten::ne"),
                    kAverage = tape::operation_name("moving_average"),
                    kStack = tape::operation_name("aten::stack");

/// Tokens [start, end) of each row.
Tensor answer(const Tensor& tokens, std::int64_t start) {
  return tape::slice(tokens, 1, start, tokens.size(1) - start);
}

}  // namespace

void ChatLoop::take_batch(Experience& e) {
  // The last step's experience goes when the new ones are there; those of this step wait for its training.
  Variables& v = variables(e);
  std::vector<Tensor>& place = v.trained ? v.previous : v.waiting;
  v.trained = false;
  for (Tensor* tensor :
       {&e.prompts, &e.old_logprobs, &e.ref_logprobs, &e.values, &e.rewards, &e.sequences, &e.mask})
    if (tensor->defined()) place.push_back(std::move(*tensor));
  e.prompts = tape_.empty({e.batch, e.prompt}, DType::int64, kPrompts);
  variables(e).prompt_mask = tape_.empty({e.batch, e.prompt}, DType::int64, kMask);
}

/// By the model itself, or by the hybrid engine: for all ranks that share its layers, of whose rows each keeps its own.
Tensor ChatLoop::sampled(Experience& e, tape::SampleOptions& options) {
  const Engine* engine = context_.generator;
  if (hybrid_workspace(engine == nullptr ? Engine{} : *engine) == 0) return tape::sample(model(), e.prompts, options);
  HybridGeneration generation(store_, *engine);
  options.synchronized = false;
  options.forward = [&](const tape::ModelInput& input) { return generation.forward(input); };
  if (engine->tensor == 1) return tape::sample(model(), e.prompts, options);
  const std::int64_t rows = e.batch * engine->tensor;
  const Tensor prompts = tape_.empty({rows, e.prompt}, DType::int64, kPrompts);
  options.mask = tape_.empty({rows, e.prompt}, DType::int64, kMask);
  Tensor all = tape::sample(model(), prompts, options);
  return tape::slice(all, 0, 0, e.batch);
}

Tensor ChatLoop::generate(Experience& e) {
  const tape::GradMode no_grad(tape_, false);
  const tape::ComponentScope component(tape_, Component::temporaries);
  model().options().training = false;
  tape::SampleOptions options;
  options.new_tokens = e.response;
  options.begin_token = family_facts(role().model->family).begin_token;
  options.greedy = true;
  options.end_token = false;
  options.synchronized = role().sharding.kind == ShardingKind::zero3;
  options.length_processors = false;
  options.mask = variables(e).prompt_mask;
  options.padded = role().padded;
  Tensor generated = sampled(e, options);
  model().options().training = role().trained;
  // Rows whose answer is too short would be dropped; the others are gathered anew.
  Tensor filled = tape_.empty({e.batch, e.response}, DType::boolean, kNotEqual);
  Tensor lengths = tape_.empty({e.batch}, DType::int64, kLengths);
  { const Tensor wide = tape::to(filled, DType::int64); }
  filled.reset();
  for (std::int64_t i = 0; i < e.batch; ++i)
    const Tensor too_short = tape_.empty({}, DType::boolean, kLengths);
  Tensor sequences = tape_.empty(generated.shape(), DType::int64, kLengths);
  variables(e).outputs.push_back(std::move(generated));
  variables(e).outputs.push_back(std::move(lengths));
  return sequences;
}

tape::ModelInput ChatLoop::input_of(const Experience& e) const {
  tape::ModelInput input;
  input.ids = e.sequences;
  input.attention_mask = e.mask;
  input.padded = role().padded;
  return input;
}

void ChatLoop::make_mask(Experience& e) {
  Tensor filled = tape::plain(kNotEqual, DType::boolean, e.sequences);
  e.mask = tape::to(std::move(filled), DType::int64);
}

Tensor ChatLoop::forward(Experience& e, Output output) {
  const tape::GradMode no_grad(tape_, false);
  const tape::ComponentScope component(tape_, Component::temporaries);
  Tensor values = model().forward(input_of(e));
  if (output != Output::rewards) return values;
  for (std::int64_t i = 0; i < e.batch; ++i) {
    // Where does the row's padding begin? nonzero() counts, then writes no place.
    Tensor flags = tape_.empty({e.response}, DType::boolean, kEnds);
    Tensor count = tape_.empty({}, DType::int32, kEnds);
    for (const std::int64_t workspace : {1, 1023})
      const Tensor buffer = tape_.empty({workspace}, DType::uint8, kEnds);
    tape::drop(count, flags);
  }
  return tape_.empty({e.batch}, values.dtype(), kEnds);
}

/// Logits stay, with the cache that generation would go on from.
void ChatLoop::keep_logits(Experience& e) {
  const tape::GradMode no_grad(tape_, false);
  const tape::ComponentScope component(tape_, Component::temporaries);
  Variables& v = variables(e);
  tape::KvCache cache;
  tape::ModelInput input = input_of(e);
  input.cache = &cache;
  v.outputs.push_back(model().forward(input));
  (role().trained ? v.actor_logits : v.ref_logits) = v.outputs.back();
  for (tape::KvCache::LayerCache& layer : cache.layers) {
    v.outputs.push_back(std::move(layer.keys));
    v.outputs.push_back(std::move(layer.values));
  }
}

void ChatLoop::gather_logprobs(Experience& e) {
  const tape::GradMode no_grad(tape_, false);
  const tape::ComponentScope component(tape_, Component::temporaries);
  e.old_logprobs = trainer::token_logprobs(variables(e).actor_logits, e.sequences, role().loss);
  e.ref_logprobs = trainer::token_logprobs(variables(e).ref_logits, e.sequences, role().loss);
}

/// --compute_fp32_loss: both logits in fp32 beside those that the outputs hold.
void ChatLoop::widen_logits(Experience& e) {
  const tape::GradMode no_grad(tape_, false);
  const tape::ComponentScope component(tape_, Component::temporaries);
  Variables& v = variables(e);
  for (Tensor* logits : {&v.actor_logits, &v.ref_logits}) *logits = tape::to(*logits, DType::fp32);
}

void ChatLoop::drop_outputs(Experience& e) {
  tape::drop(variables(e).actor_logits, variables(e).ref_logits);
  for (Tensor& tensor : variables(e).outputs) tensor.reset();
  variables(e).outputs.clear();
  variables(e).previous.clear();
}

/// Where each row's answer ends: the number of its tokens, shifted.
Tensor ChatLoop::answer_ends(const Experience& e) {
  Tensor count = tape_.empty({e.batch}, DType::int64, kLengths);
  count = tape::add_scalar(std::move(count));
  return tape::add_scalar(std::move(count));
}

/// Rewards a token (a KL penalty, the score at the end), then advantages from the last token to the first.
void ChatLoop::make_advantages(Experience& e) {
  const tape::GradMode no_grad(tape_, false);
  const tape::ComponentScope component(tape_, Component::temporaries);
  const std::int64_t start = e.prompt - 1;
  const Tensor values = tape::slice(e.values, 1, 0, e.values.size(1) - 1);
  const auto column = [](const Tensor& tensor, std::int64_t t) { return tape::select(tensor, 1, t); };
  Tensor rewards;
  {
    Tensor gap = tape::sub(e.old_logprobs, e.ref_logprobs);
    rewards = tape::mul_scalar(std::move(gap));
    const Tensor ends = answer_ends(e);
    const Tensor clipped = tape::clamp(e.rewards);
  }
  variables(e).locals.push_back(rewards);
  variables(e).locals.push_back(answer_ends(e));
  std::vector<Tensor> advantages;
  Tensor last;
  const std::int64_t length = rewards.size(1);
  for (std::int64_t t = length; t-- > start;) {
    Tensor delta = column(rewards, t);
    delta = t + 1 < length ? tape::add(std::move(delta), tape::mul_scalar(column(values, t + 1)))
                           : tape::add_scalar(std::move(delta));
    delta = tape::sub(std::move(delta), column(values, t));
    Tensor next = last.defined() ? tape::add(delta, tape::mul_scalar(last)) : tape::add_scalar(delta);
    last = std::move(next);
    advantages.push_back(last);
  }
  e.advantages = tape_.empty({e.batch, length - start}, rewards.dtype(), kStack);
  variables(e).returns = tape::add(e.advantages, answer(values, start));
}

void ChatLoop::update(Tensor loss, Experience& e) {
  store_.backward(loss);
  empty_after_micro_batch();
  if (completes_) store_.step();
  variables(e).losses.push_back(std::move(loss));
}

void ChatLoop::train_actor(Experience& e) {
  make_advantages(e);
  const std::int64_t start = e.prompt - 1;
  Tensor loss;
  {
    const tape::ComponentScope component(tape_, Component::activations);
    variables(e).logits = model().forward(input_of(e));
    Tensor logprobs = trainer::token_logprobs(variables(e).logits, e.sequences, role().loss);
    variables(e).locals.push_back(logprobs);
    const Tensor new_answer = answer(logprobs, start), old_answer = answer(e.old_logprobs, start);
    const Tensor mask = answer(tape::slice(e.mask, 1, 1, e.mask.size(1) - 1), start);
    Tensor log_ratio = tape::mul(tape::sub(new_answer, old_answer), mask);
    Tensor ratio = tape::exp(log_ratio);
    Tensor plain = tape::mul(tape::neg(e.advantages), ratio);
    Tensor clipped = tape::mul(tape::neg(e.advantages), tape::clamp(ratio));
    Tensor larger = tape::maximum(plain, clipped);
    Tensor sum = tape::sum(tape::mul(std::move(larger), mask));
    Tensor count = tape::sum(mask);
    loss = tape::div(std::move(sum), std::move(count));
  }
  update(std::move(loss), e);
}

void ChatLoop::train_critic(Experience& e) {
  const std::int64_t start = e.prompt - 1;
  Tensor loss;
  {
    const tape::ComponentScope component(tape_, Component::activations);
    Tensor all = model().forward(input_of(e));
    variables(e).locals.push_back(all);
    const Tensor values = answer(tape::slice(all, 1, 0, all.size(1) - 1), start);
    const Tensor old = answer(tape::slice(e.values, 1, 0, e.values.size(1) - 1), start);
    const Tensor mask = answer(tape::slice(e.mask, 1, 1, e.mask.size(1) - 1), start);
    Tensor lower = tape::add_scalar(old), upper = tape::add_scalar(old);
    Tensor clipped = tape::clamp(values, lower, upper);
    tape::drop(lower, upper);
    Tensor plain = tape::pow(tape::sub(values, variables(e).returns));
    Tensor bounded = tape::pow(tape::sub(clipped, variables(e).returns));
    Tensor larger = tape::maximum(plain, bounded);
    Tensor sum = tape::mul_scalar(tape::sum(tape::mul(std::move(larger), mask)));
    Tensor count = tape::sum(mask);
    loss = tape::div(std::move(sum), std::move(count));
  }
  update(std::move(loss), e);
}

/// The rows of `e` that are trained on at once: views.
ChatLoop::Experience ChatLoop::rows_of(const Experience& e) const {
  Experience out = e;
  out.batch = context_.micro_batch;
  for (Tensor* tensor : {&out.prompts, &out.sequences, &out.mask, &out.old_logprobs, &out.ref_logprobs, &out.values,
                         &out.rewards})
    *tensor = tape::slice(*tensor, 0, 0, out.batch);
  return out;
}

/// One micro-batch: all that were generated at once, or a part of them.
void ChatLoop::train(Experience& e) {
  const bool language = role().head == HeadKind::language_model;
  const std::int64_t adding = std::min(kShownAccumulation, std::max<std::int64_t>(1, context_.mini_batch / context_.micro_batch));
  std::int64_t& done = variables(e).micro_batches[language ? 0 : 1];
  completes_ = ++done % adding == 0;
  store_.begin_micro_batch(completes_);
  if (context_.micro_batch >= e.batch) return language ? train_actor(e) : train_critic(e);
  Experience part = rows_of(e);
  language ? train_actor(part) : train_critic(part);
  e.advantages = part.advantages;
}

/// ema = lerp(actor, ema), parameter by parameter; stage 3 gathers both for it.
void ChatLoop::average(Experience& /*experience*/) {
  const tape::GradMode no_grad(tape_, false);
  const tape::ComponentScope component(tape_, Component::temporaries);
  const bool spread = role().sharding.kind == ShardingKind::zero3;
  for (const headroom::Tensor& tensor : role().model->tensors) {
    if (tensor.buffer || !tensor.tied_to.empty()) continue;
    const DType dtype = role().precision.weights;
    Tensor actor, own;
    if (spread) actor = tape_.empty({tensor.count()}, dtype, kAverage);
    if (spread) own = tape_.empty({tensor.count()}, dtype, kAverage);
    const Tensor mean = tape_.empty({tensor.count()}, dtype, kAverage);
  }
}

void ChatLoop::end_update(Experience& e) {
  Variables& v = variables(e);
  tape::drop(v.logits, v.returns, e.advantages);
  v.locals.clear();
  v.waiting.clear();
  v.trained = true;
  v.last_losses = std::exchange(v.losses, {});
}

namespace {

using trainer::run_call;

constexpr LoopCall kCalls[] = {
    {.name = "take_batch", .run = run_call<&ChatLoop::take_batch>},
    {.name = "generate", .work = ModelWork::generate, .parts = kWeights, .after = {"take_batch"}},
    {.name = "make_mask", .run = run_call<&ChatLoop::make_mask>, .after = {"generate"}},
    {.name = "keep_logits",
     .run = run_call<&ChatLoop::keep_logits>,
     .work = ModelWork::forward,
     .parts = kWeights,
     .after = {"make_mask"}},
    {.name = "forward", .work = ModelWork::forward, .parts = kWeights, .after = {"make_mask"}},
    {.name = "widen_logits", .run = run_call<&ChatLoop::widen_logits>, .after = {"keep_logits"}},
    {.name = "gather_logprobs", .run = run_call<&ChatLoop::gather_logprobs>, .after = {"keep_logits"}},
    {.name = "drop_outputs", .run = run_call<&ChatLoop::drop_outputs>, .after = {"gather_logprobs"}},
    {.name = "train",
     .work = ModelWork::train,
     .parts = kWeights | kOptimizer | kMasterWeights,
     .after = {"gather_logprobs", "forward"}},
    {.name = "average", .run = run_call<&ChatLoop::average>, .parts = kWeights, .after = {"train"}},
    {.name = "end_update", .run = run_call<&ChatLoop::end_update>, .after = {"train"}},
};

}  // namespace

const LoopKind kChatLoop = {.name = "deepspeed_chat", .make = trainer::make_own<ChatLoop>, .calls = kCalls};

}  // namespace headroom::deepspeed_chat
