#include "planner/frameworks/trl/grpo_loop.h"

#include <algorithm>
#include <utility>

#include "planner/frameworks/trl/loops.h"
#include "simulator/tape/core/autocast.h"
#include "simulator/tape/generate/sample.h"
#include "simulator/tape/modules/layers.h"
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

const std::uint16_t kPrompts = tape::operation_name("prompts"),
                    kMask = tape::operation_name("attention_mask"),
                    kCompletion = tape::operation_name("completion_ids"),
                    kRewards = tape::operation_name("rewards"),
                    kItems = tape::operation_name("num_items_in_batch"),
                    kIndex = tape::operation_name("aten::index");

/// Tensors of a few numbers that come and go, by count of recordings: the search for each completion's end,
/// and the metrics of a rollout, of a loss and of its KL term.
constexpr int kEndSearch = 17, kRolloutMetrics = 132, kLossMetrics = 74, kDivergenceMetrics = 8;

Tensor last_columns(const Tensor& tensor, std::int64_t count) {
  return tape::slice(tensor, 1, tensor.size(1) - count, count);
}

}  // namespace

Tensor GrpoLoop::generate(Experience& e) {
  const tape::GradMode no_grad(tape_, false);
  const tape::ComponentScope component(tape_, Component::temporaries);
  const WithoutCheckpoints plain(model());
  const GatheredWeights gathered(model(), role());
  Tensor ids = tape_.empty({e.batch, e.prompt}, DType::int64, kPrompts);
  tape::SampleOptions options;
  options.new_tokens = e.response;
  // The trainer asks with the tokenizer's token, which a job does not name: none, as it was recorded and as
  // the tokenizers of chat models (Qwen's) have it.
  options.begin_token = false;
  options.length_processors = false;
  options.temperature = role().loss.scales_samples;
  options.mask = tape_.empty({e.batch, e.prompt}, DType::int64, kMask);
  // PEFT generates with the model inside its wrapper, which Accelerate's forward does not reach.
  if (!role().lora && role().precision.autocast)
    options.forward = [this](const tape::ModelInput& input) { return call(input); };
  options.even = model().hooks == nullptr;
  // The caller reads the sequences on the host, up to their end.
  const Tensor sequences = tape::sample(model(), ids, options);
  small_tensors(kEndSearch);
  return {};
}

/// Prompts and completions come back from the host, padded; then all of them in one row each.
void GrpoLoop::pad_completions(Experience& e) {
  const tape::ComponentScope component(tape_, Component::temporaries);
  const auto integers = [&](std::int64_t columns, std::uint16_t name) {
    return tape_.empty({e.batch, columns}, DType::int64, name);
  };
  made_.items = tape_.empty({}, DType::int64, kItems);
  made_.prompts = integers(e.prompt, kPrompts);
  made_.prompt_mask = integers(e.prompt, kMask);
  made_.ids = integers(e.response, kCompletion);
  made_.mask = integers(e.response, kMask);
  e.sequences = tape::cat(made_.prompts, made_.ids, 1);
  e.mask = tape::cat(made_.prompt_mask, made_.mask, 1);
}

/// A column a reward function, filled from the host; then a look for rows without any.
void GrpoLoop::score(Experience& e) {
  const tape::ComponentScope component(tape_, Component::temporaries);
  e.rewards = tape_.empty({e.batch, 1}, DType::fp32, kRewards);
  tape_.empty({e.batch}, DType::fp32, kRewards).reset();
  Tensor absent = tape_.empty({e.batch, 1}, DType::boolean, kRewards);
  const Tensor rows = tape_.empty({e.batch}, DType::boolean, kRewards);
  absent.reset();
  const Tensor any = tape_.empty({}, DType::boolean, kRewards);
}

void GrpoLoop::make_advantages(Experience& e) {
  const tape::ComponentScope component(tape_, Component::temporaries);
  small_tensors(kRolloutMetrics);
  made_.advantages = tape_.empty({e.batch}, DType::fp32, kRewards);
  made_.old_logprobs = std::move(e.old_logprobs);
  made_.ref_logprobs = std::move(e.ref_logprobs);
  tape::drop(e.rewards, e.mask, e.sequences);
}

/// In another order, by an index from the host; then they take the place of the last generation's.
void GrpoLoop::shuffle(Experience& e) {
  const tape::ComponentScope component(tape_, Component::temporaries);
  Completions shuffled;
  shuffled.items = made_.items;
  const std::vector<Tensor*> from = made_.tensors(), into = shuffled.tensors();
  for (std::size_t i = 0; i < from.size(); ++i) {
    if (!from[i]->defined()) continue;
    const Tensor order = tape_.empty({e.batch}, DType::int64, kIndex);
    *into[i] = tape_.empty(tape::like(from[i]->shape()), from[i]->dtype(), kIndex);
  }
  made_ = {};
  buffered_ = std::move(shuffled);
  micro_batch_ = 0;
}

/// `outputs`: the caller's variable of the model's outputs, which keeps the last call's logits until this
/// one's stand.
Tensor GrpoLoop::logprobs(const Tensor& ids, const Tensor& mask, std::int64_t response, bool entropy,
                          Tensor& outputs) {
  tape::ModelInput input;
  input.ids = ids;
  input.attention_mask = mask;
  input.last_logits = response + 1;
  Tensor logits = call(input);
  outputs = logits;
  input = {};
  const tape::ComponentScope component(tape_, Component::logits);
  {
    const Tensor base = logits;
    logits = last_columns(tape::slice(std::move(logits), 1, 0, response), response);
    logits = role().loss.temperature_copy ? tape::div_scalar(std::move(logits))
                                          : tape::div_in_place(std::move(logits), base);
    if (role().loss.temperature_copy) outputs = logits;
  }
  Tensor out = trainer::selective_log_softmax(logits, last_columns(ids, response));
  if (entropy) {
    const tape::GradMode mode(tape_, role().loss.train_entropy == Entropy::backward);
    entropies_ = entropies(logits);
  }
  return out;
}

Tensor GrpoLoop::all_logprobs(const Experience& e) {
  const tape::GradMode no_grad(tape_, false);
  const tape::ComponentScope component(tape_, Component::temporaries);
  const WithoutCheckpoints plain(model());
  std::vector<Tensor> parts;
  Tensor outputs;
  for (std::int64_t i = 0; i < e.batch; i += context_.forward_batch) {
    const std::int64_t count = std::min(context_.forward_batch, e.batch - i);
    const Tensor ids = tape::slice(e.sequences, 0, i, count), mask = tape::slice(e.mask, 0, i, count);
    parts.push_back(logprobs(ids, mask, e.response, false, outputs));
    empty_after_micro_batch();
  }
  return tape::cat(parts, 0);
}

/// Adapters off where it is the reference's pass.
Tensor GrpoLoop::forward(Experience& e, Output) {
  if (acting().name == role().name || !role().lora) return all_logprobs(e);
  const WithoutAdapters plain(model());
  return all_logprobs(e);
}

/// The micro-batch's rows, prompts and completions joined again.
void GrpoLoop::join_micro_batch(Experience& e) {
  const tape::ComponentScope component(tape_, Component::activations);
  const std::int64_t rows = context_.micro_batch, first = micro_batch_ * rows % e.batch;
  const auto part = [&](const Tensor& tensor) { return tape::slice(tensor, 0, first, rows); };
  ids_ = tape::cat(part(buffered_.prompts), part(buffered_.ids), 1);
  mask_ = tape::cat(part(buffered_.prompt_mask), part(buffered_.mask), 1);
}

/// One part only: it is joined nevertheless.
void GrpoLoop::forward_logprobs(Experience& e) {
  const tape::ComponentScope component(tape_, Component::activations);
  const bool entropy = role().loss.train_entropy != Entropy::none;
  Tensor outputs;
  const Tensor alone = logprobs(ids_, mask_, e.response, entropy, outputs);
  logprobs_ = tape::cat(std::span(&alone, 1), 0);
  if (!entropy) return;
  const tape::GradMode mode(tape_, role().loss.train_entropy == Entropy::backward);
  const Tensor parts = std::move(entropies_);
  entropies_ = tape::cat(std::span(&parts, 1), 0);
}

void GrpoLoop::form_loss(Experience& e) {
  const tape::ComponentScope component(tape_, Component::activations);
  const std::int64_t rows = context_.micro_batch, first = micro_batch_ * rows % e.batch;
  ++micro_batch_;
  const auto part = [&](const Tensor& tensor) { return tape::slice(tensor, 0, first, rows); };
  const Tensor logps = std::move(logprobs_);
  Tensor divergence;
  if (buffered_.ref_logprobs.defined()) {
    const Tensor reference = part(buffered_.ref_logprobs);
    Tensor gap = tape::sub(reference, logps);
    Tensor weighted = tape::exp(gap);
    Tensor again = tape::sub(reference, logps);
    divergence = tape::add_scalar(tape::sub(std::move(weighted), std::move(again)));
  }
  Tensor advantages = tape::unsqueeze(part(buffered_.advantages), 1);
  Tensor old = buffered_.old_logprobs.defined() ? part(buffered_.old_logprobs) : tape::detach(logps);
  Tensor ratio = tape::exp(tape::sub(logps, old));
  Tensor clipped = tape::clamp(ratio);
  Tensor plain = tape::mul(ratio, advantages);
  Tensor bounded = tape::mul(clipped, advantages);
  Tensor per_token = tape::neg(tape::minimum(plain, bounded));
  if (role().loss.train_entropy == Entropy::backward)
    per_token = tape::sub(per_token, tape::mul_scalar(entropies_));
  if (divergence.defined()) per_token = tape::add(per_token, tape::mul_scalar(divergence));
  Tensor mask = part(buffered_.mask);
  Tensor total = tape::sum(tape::mul(per_token, mask));
  Tensor tokens = tape_.empty({}, DType::fp32, kItems);
  loss_ = tape::div(std::move(total), std::move(tokens));
  small_tensors(kLossMetrics + (divergence.defined() ? kDivergenceMetrics : 0));
  tape::drop(entropies_, mask_, ids_);
}

namespace {

using trainer::run_call;

constexpr unsigned kUpdated = kWeights | kOptimizer | kMasterWeights;

constexpr LoopCall kCalls[] = {
    {.name = "add_up_loss", .run = run_call<&TrainerLoop::add_up_loss>},
    {.name = "generate", .work = ModelWork::generate, .parts = kWeights},
    {.name = "pad_completions", .run = run_call<&GrpoLoop::pad_completions>, .after = {"generate"}},
    {.name = "forward", .work = ModelWork::forward, .parts = kWeights, .after = {"pad_completions"}},
    {.name = "score", .run = run_call<&GrpoLoop::score>, .after = {"pad_completions"}},
    {.name = "make_advantages", .run = run_call<&GrpoLoop::make_advantages>, .after = {"score"}},
    {.name = "shuffle", .run = run_call<&GrpoLoop::shuffle>, .after = {"make_advantages"}},
    {.name = "join_micro_batch", .run = run_call<&GrpoLoop::join_micro_batch>, .after = {"shuffle"}},
    {.name = "forward_logprobs",
     .run = run_call<&GrpoLoop::forward_logprobs>,
     .work = ModelWork::train,
     .parts = kWeights,
     .after = {"join_micro_batch"}},
    {.name = "form_loss", .run = run_call<&GrpoLoop::form_loss>, .after = {"forward_logprobs"}},
    {.name = "backward", .run = run_call<&TrainerLoop::backward>, .parts = kWeights, .after = {"form_loss"}},
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

const LoopKind kGrpoLoop = {
    .name = "trl_grpo", .make = trainer::make_own<GrpoLoop>, .calls = kCalls, .takes_sequences = true};

}  // namespace headroom::trl
