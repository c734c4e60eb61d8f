#include "simulator/phases/trl_grpo_role.h"

#include <algorithm>
#include <utility>

#include "simulator/phases/token_logprob.h"
#include "simulator/tape/core/autocast.h"
#include "simulator/tape/generate/sample.h"
#include "simulator/tape/modules/layers.h"
#include "simulator/tape/operations/copy.h"
#include "simulator/tape/operations/in_place.h"
#include "simulator/tape/operations/losses.h"
#include "simulator/tape/operations/pointwise.h"
#include "simulator/tape/operations/reduce.h"
#include "simulator/tape/operations/views.h"

namespace headroom::phases {
namespace {

using tape::Tensor;

const std::uint16_t kPrompts = tape::operation_name("prompts"),
                    kMask = tape::operation_name("attention_mask"),
                    kCompletion = tape::operation_name("completion_ids"),
                    kRewards = tape::operation_name("rewards"),
                    kTrainingLoss = tape::operation_name("training_loss"),
                    kWarmup = tape::operation_name("caching_allocator_warmup"),
                    kItems = tape::operation_name("num_items_in_batch");

/// PyTorch's allocator: sizes are multiples of a step; small tensors share segments of one size.
constexpr Bytes kAllocatorStep = 512, kSmallSegment = 2 * kMiB;

/// Rows that TRL forms entropies of at once.
constexpr std::int64_t kEntropyRows = 128;

bool has_begin_token(const Architecture& model) {
  return model.family.rfind("qwen", 0) != 0;
}

Tensor last_columns(const Tensor& tensor, std::int64_t count) {
  return tape::slice(tensor, 1, tensor.size(1) - count, count);
}

/// Entropies of all rows, chunk by chunk, out of a copy that lies in order.
Tensor entropies(const Tensor& logits) {
  Tensor flat = tape::reshape(logits, {-1, logits.size(-1)});
  std::vector<Tensor> chunks;
  for (std::int64_t i = 0; i < flat.size(0); i += kEntropyRows) {
    Tensor rows = tape::slice(flat, 0, i, std::min(kEntropyRows, flat.size(0) - i));
    Tensor logs = tape::log_softmax(rows);
    Tensor weighted = tape::mul(tape::exp(logs), logs);
    Tensor sums = tape::sum(std::move(weighted), 2u, false);
    chunks.push_back(tape::neg(std::move(sums)));
  }
  Tensor joined = tape::cat(chunks, 0);
  return tape::view(std::move(joined), {logits.size(0), logits.size(1)});
}

/// Checkpointing off for a scope; the model stays in train mode, with its dropout.
class WithoutCheckpoints {
 public:
  explicit WithoutCheckpoints(tape::Model& model)
      : model_(model), before_(std::exchange(model.options().recompute, {})) {}
  ~WithoutCheckpoints() { model_.options().recompute = before_; }
  WithoutCheckpoints(const WithoutCheckpoints&) = delete;
  WithoutCheckpoints& operator=(const WithoutCheckpoints&) = delete;

 private:
  tape::Model& model_;
  Recompute before_;
};

/// Adapters out of the way for a scope.
class WithoutAdapters {
 public:
  explicit WithoutAdapters(tape::Model& model) : model_(model) {
    for (const tape::NamedLinear& linear : model.linears()) pairs_.push_back(std::move(linear.layer->lora));
  }
  ~WithoutAdapters() {
    std::size_t i = 0;
    for (const tape::NamedLinear& linear : model_.linears()) linear.layer->lora = std::move(pairs_[i++]);
  }
  WithoutAdapters(const WithoutAdapters&) = delete;
  WithoutAdapters& operator=(const WithoutAdapters&) = delete;

 private:
  tape::Model& model_;
  std::vector<std::unique_ptr<tape::LoraPair>> pairs_;
};

}  // namespace

Status TrlGrpoRole::build() {
  // from_pretrained(device_map="auto") loads onto the device: buffers first, then room for all weights is
  // taken at once and given back to the cache, into which the weights come.
  tape_.set_stopped(true);
  const Status built = RoleProgram::build();
  tape_.set_stopped(false);
  HEADROOM_TRY(built);
  const auto load = [&](const Tensor& tensor) {
    if (tensor.defined() && tensor->storage->block == kNoBlock)
      tape_.regrow_storage(tensor, tensor->storage->bytes);
  };
  Bytes buffers = 0, weights = 0;
  for (const Tensor* buffer : model_->buffers()) {
    load(*buffer);
    buffers += ceil_div(buffer->bytes(), kAllocatorStep) * kAllocatorStep;
  }
  const auto is_adapter = [](const tape::ParameterSlot& slot) {
    return slot.name.find(".lora_") != std::string::npos;
  };
  for (const tape::ParameterSlot& slot : model_->parameters())
    if (!is_adapter(slot)) weights += slot.tensor->bytes();
  // What the cache already holds unused is left out.
  const Bytes unused = buffers > 0 ? kSmallSegment - buffers : 0;
  tape_.empty({std::max<Bytes>(0, weights - unused)}, DType::uint8, kWarmup).reset();
  for (const tape::ParameterSlot& slot : model_->parameters())
    if (!is_adapter(slot)) load(*slot.tensor);
  for (const tape::ParameterSlot& slot : model_->parameters()) load(*slot.tensor);
  return {};
}

std::optional<Status> TrlGrpoRole::act(const Action& action, Experience& e) {
  switch (action.verb) {
    case Verb::take_prompts:
      if (!training_loss_.defined()) training_loss_ = tape_.empty({}, DType::fp32, kTrainingLoss);
      return Status{};
    case Verb::generate:
      generate_completions(e);
      return Status{};
    case Verb::experience:
      make_experience(e);
      return Status{};
    case Verb::forward:
      if (action.role != role().name && role().lora) {
        const WithoutAdapters plain(*model_);
        e.ref_logprobs = all_logprobs(e);
      } else {
        (action.role == role().name && role().trained ? e.old_logprobs : e.ref_logprobs) = all_logprobs(e);
      }
      return Status{};
    case Verb::loss:
      form_loss(e);
      return Status{};
    case Verb::backward:
      tape::backward(context_.engine, loss_);
      loss_.reset();
      return Status{};
    case Verb::optimizer_step:
      update();
      return Status{};
    case Verb::end_step:
      tape::drop(e.prompts, e.prompt_mask, e.sequences, e.mask, e.advantages, e.old_logprobs, e.ref_logprobs,
                 e.rewards);
      micro_batch_ = 0;
      return Status{};
    default:
      return std::nullopt;
  }
}

/// Accelerate's forward: the model under autocast, its logits in fp32.
Tensor TrlGrpoRole::call(const tape::ModelInput& input) {
  Tensor logits;
  {
    const tape::Autocast autocast(tape_, role().precision.autocast, role().precision.compute);
    logits = model_->forward(input);
  }
  if (!role().precision.autocast) return logits;
  const tape::ComponentScope component(tape_, Component::logits);
  return tape::to(std::move(logits), DType::fp32);
}

void TrlGrpoRole::generate_completions(Experience& e) {
  const tape::GradMode no_grad(tape_, false);
  const tape::ComponentScope component(tape_, Component::temporaries);
  const WithoutCheckpoints plain(*model_);
  Tensor ids = tape_.empty({e.batch, e.prompt}, DType::int64, kPrompts);
  tape::SampleOptions options;
  options.new_tokens = e.response;
  options.begin_token = has_begin_token(*role().model);
  options.length_processors = false;
  options.temperature = role().loss.temperature_copy;
  options.mask = tape_.empty({e.batch, e.prompt}, DType::int64, kMask);
  // PEFT generates with the model inside its wrapper, which Accelerate's forward does not reach.
  if (!role().lora) options.forward = [this](const tape::ModelInput& input) { return call(input); };
  // The caller reads the sequences on the host.
  tape::sample(*model_, ids, options).reset();
}

/// Prompts and completions come back from the host, padded; then all of them in one row each.
void TrlGrpoRole::make_experience(Experience& e) {
  const tape::ComponentScope component(tape_, Component::temporaries);
  const auto integers = [&](std::int64_t columns, std::uint16_t name) {
    return tape_.empty({e.batch, columns}, DType::int64, name);
  };
  e.prompts = integers(e.prompt, kPrompts);
  e.prompt_mask = integers(e.prompt, kMask);
  e.outputs.clear();
  e.outputs.push_back(integers(e.response, kCompletion));
  e.outputs.push_back(integers(e.response, kMask));
  e.sequences = integers(e.prompt + e.response, kCompletion);
  e.mask = integers(e.prompt + e.response, kMask);
  e.rewards = tape_.empty({e.batch}, DType::fp32, kRewards);
  e.advantages = tape_.empty({e.batch}, DType::fp32, kRewards);
  e.outputs.push_back(tape_.empty({}, DType::int64, kItems));
}

Tensor TrlGrpoRole::logprobs(const Experience& e, std::int64_t first, std::int64_t count, bool entropy) {
  Tensor ids = tape::slice(e.sequences, 0, first, count);
  Tensor mask = tape::slice(e.mask, 0, first, count);
  tape::ModelInput input;
  input.ids = ids;
  input.attention_mask = mask;
  input.last_logits = e.response + 1;
  Tensor logits = call(input);
  input = {};
  const tape::ComponentScope component(tape_, Component::logits);
  {
    const Tensor base = logits;
    logits = last_columns(tape::slice(std::move(logits), 1, 0, e.response), e.response);
    logits = tape::div_in_place(std::move(logits), base);
  }
  Tensor out = selective_log_softmax(logits, last_columns(ids, e.response));
  if (entropy) {
    const tape::GradMode no_grad(tape_, false);
    const Tensor unused = entropies(logits);
  }
  return out;
}

Tensor TrlGrpoRole::all_logprobs(const Experience& e) {
  const tape::GradMode no_grad(tape_, false);
  const tape::ComponentScope component(tape_, Component::temporaries);
  const WithoutCheckpoints plain(*model_);
  std::vector<Tensor> parts;
  for (std::int64_t i = 0; i < e.batch; i += context_.micro_batch)
    parts.push_back(logprobs(e, i, std::min(context_.micro_batch, e.batch - i), false));
  return tape::cat(parts, 0);
}

void TrlGrpoRole::form_loss(const Experience& e) {
  const tape::ComponentScope component(tape_, Component::activations);
  const std::int64_t rows = context_.micro_batch, first = micro_batch_ * rows % e.batch;
  ++micro_batch_;
  const auto part = [&](const Tensor& tensor) { return tape::slice(tensor, 0, first, rows); };
  Tensor ids = tape_.empty({rows, e.prompt + e.response}, DType::int64, kCompletion);
  Tensor joined_mask = tape_.empty({rows, e.prompt + e.response}, DType::int64, kMask);
  Tensor logps = logprobs(e, first, rows, true);
  Tensor divergence;
  if (e.ref_logprobs.defined()) {
    const Tensor reference = part(e.ref_logprobs);
    Tensor gap = tape::sub(reference, logps);
    Tensor weighted = tape::exp(gap);
    Tensor again = tape::sub(reference, logps);
    divergence = tape::add_scalar(tape::sub(std::move(weighted), std::move(again)));
  }
  Tensor advantages = tape::unsqueeze(part(e.advantages), 1);
  Tensor old = e.old_logprobs.defined() ? part(e.old_logprobs) : tape::detach(logps);
  Tensor ratio = tape::exp(tape::sub(logps, old));
  Tensor clipped = tape::clamp(ratio);
  Tensor plain = tape::mul(ratio, advantages);
  Tensor bounded = tape::mul(clipped, advantages);
  Tensor per_token = tape::neg(tape::minimum(plain, bounded));
  if (divergence.defined()) per_token = tape::add(per_token, tape::mul_scalar(divergence));
  Tensor mask = part(e.outputs[1]);
  Tensor total = tape::sum(tape::mul(per_token, mask));
  loss_ = tape::div_scalar(tape::div_scalar(std::move(total)));
}

void TrlGrpoRole::update() {
  const tape::GradMode no_grad(tape_, false);
  if (role().optimizer.clip) clip_gradients();
  optimizer_->step();
  optimizer_->zero_grad();
}

}  // namespace headroom::phases
