#include "simulator/phases/role_program.h"

#include <fmt/format.h>

#include <algorithm>

#include "models/architecture/family.h"
#include "simulator/job/names.h"
#include "simulator/phases/deepspeed_chat_role.h"
#include "simulator/phases/megatron_role.h"
#include "simulator/phases/packed_program.h"
#include "simulator/phases/sharded_role.h"
#include "simulator/phases/token_logprob.h"
#include "simulator/phases/trl_grpo_role.h"
#include "simulator/phases/trl_ppo_role.h"
#include "simulator/tape/core/autocast.h"
#include "simulator/tape/core/checkpoint.h"
#include "simulator/tape/generate/sample.h"
#include "simulator/tape/modules/lora.h"
#include "simulator/tape/operations/copy.h"
#include "simulator/tape/operations/losses.h"
#include "simulator/tape/operations/pointwise.h"
#include "simulator/tape/operations/reduce.h"
#include "simulator/tape/operations/token_losses.h"
#include "simulator/tape/operations/views.h"

namespace headroom::phases {
namespace {

using tape::Tensor;

const std::uint16_t kClone = tape::operation_name("aten::clone"),
                    kScaler = tape::operation_name("GradScaler"),
                    kSync = tape::operation_name("weight_sync::bucket");

Tensor rows(const Tensor& tensor, std::int64_t first, std::int64_t count) {
  return tape::slice(tensor, 0, first, count);
}

void to_host(tape::Tape& tape, const Tensor& tensor) {
  if (!tensor.defined() || tensor->storage->device != tape::Device::gpu) return;
  const tape::ComponentScope component(tape, tensor->storage->label.component);
  tape.set_data(tensor, tape::to_host(tensor, HostKind::pageable));
}

void to_device(tape::Tape& tape, const Tensor& tensor) {
  if (!tensor.defined() || tensor->storage->device == tape::Device::gpu) return;
  const tape::ComponentScope component(tape, tensor->storage->label.component);
  tape.set_data(tensor, tape::to_device(tensor));
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

RoleProgram::RoleProgram(const RoleContext& context) : context_(context), tape_(context.tape) {}

Status RoleProgram::build() {
  const Role& r = role();
  tape::ModelOptions options;
  options.dtype = r.precision.weights;
  options.trainable = r.trained && !r.lora;
  options.training = r.trained;
  options.dropout = r.dropout;
  options.attention = r.attention;
  options.recompute = r.recompute;
  options.head = r.head;
  HEADROOM_ASSIGN(model_, tape::make_model(tape_, *r.model, r.name, options));
  model_->engine = &context_.engine;
  if (r.lora) tape::add_lora(*model_, *r.lora);
  // gradient_checkpointing_enable() sees to it, with adapters or without.
  model_->embeddings_require_grad = r.trained && r.recompute.kind != RecomputeKind::none;
  return {};
}

std::vector<Tensor> RoleProgram::trainable() {
  std::vector<Tensor> out;
  for (const tape::ParameterSlot& slot : model_->parameters())
    if ((*slot.tensor)->requires_grad) out.push_back(*slot.tensor);
  return out;
}

void RoleProgram::build_optimizer() {
  std::vector<Tensor> optimized = trainable();
  if (role().precision.master) {
    const tape::ComponentScope component(tape_, Component::master_weights);
    const tape::GradMode no_grad(tape_, false);
    for (const Tensor& parameter : optimized) {
      const tape::ModuleScope module(tape_, parameter->storage->label.module);
      Tensor wide = tape::to(parameter, *role().precision.master);
      Tensor master = tape_.empty(tape::like(wide.shape()), wide.dtype(), kClone);
      master->requires_grad = true;
      masters_.push_back(std::move(master));
    }
    optimized = masters_;
  }
  optimizer_ = std::make_unique<tape::AdamW>(tape_, std::move(optimized), role().optimizer.implementation);
}

void RoleProgram::create_states() {
  optimizer_->create_states();
}

Tensor RoleProgram::generate(const Experience& experience) {
  const tape::GradMode no_grad(tape_, false);
  const tape::ComponentScope component(tape_, Component::temporaries);
  const tape::Autocast autocast(tape_, role().precision.autocast, role().precision.compute);
  model_->options().training = false;
  tape::SampleOptions options;
  options.new_tokens = experience.response;
  options.begin_token = family_facts(role().model->family).begin_token;
  options.weights_on_host = role().sharding.cpu_offload;
  Tensor out = tape::sample(*model_, experience.prompts, options);
  model_->options().training = role().trained;
  return out;
}

Tensor RoleProgram::forward(const Experience& experience, Output output) {
  const tape::GradMode no_grad(tape_, false);
  const tape::ComponentScope component(tape_, Component::temporaries);
  const tape::Autocast autocast(tape_, role().precision.autocast, role().precision.compute);
  std::vector<Tensor> outs;
  for (std::int64_t i = 0; i < experience.batch; i += context_.forward_batch) {
    Tensor ids = rows(experience.sequences, i, std::min(context_.forward_batch, experience.batch - i));
    tape::ModelInput input;
    input.ids = ids;
    if (role().attention_mask) input.attention_mask = rows(experience.mask, 0, ids.size(0));
    if (output == Output::logprobs && role().loss.token_logprob == TokenLogprob::fused_linear) {
      outs.push_back(fused_outputs(*model_, input, role().loss).logprobs);
      continue;
    }
    Tensor result = model_->forward(input);
    if (output == Output::logprobs)
      outs.push_back(token_logprobs(std::move(result), ids, role().loss));
    else if (output == Output::rewards)
      outs.push_back(tape::select(std::move(result), 1, result.size(1) - 1));
    else
      outs.push_back(std::move(result));
  }
  Tensor joined = tape::cat(outs, 0);
  while (!outs.empty()) outs.pop_back();
  if (output != Output::logprobs) joined = tape::to(std::move(joined), DType::fp32);
  return joined;
}

RoleProgram::TokenOutputs RoleProgram::train_outputs(const Experience& experience, const Tensor& ids,
                                                     std::int64_t count) {
  Tensor logits;
  TokenOutputs out;
  {
    const tape::Autocast autocast(tape_, role().precision.autocast, role().precision.compute);
    tape::ModelInput input;
    input.ids = ids;
    if (role().attention_mask) input.attention_mask = rows(experience.mask, 0, count);
    if (role().loss.token_logprob == TokenLogprob::fused_linear) {
      auto [logprobs, entropies] = fused_outputs(*model_, input, role().loss);
      out.logprobs = std::move(logprobs);
      if (role().loss.train_entropy != Entropy::none) out.entropies = std::move(entropies);
      return out;
    }
    logits = model_->forward(input);
  }
  out.logprobs = tape::to(token_logprobs(logits, ids, role().loss), DType::fp32);
  if (role().loss.train_entropy != Entropy::none) out.entropies = token_entropies(logits, role().loss);
  logits.reset();
  return out;
}

Tensor RoleProgram::policy_loss(const Experience& experience, const Tensor& ids, std::int64_t first,
                                std::int64_t count) {
  auto [logprobs, entropies] = train_outputs(experience, ids, count);
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

Tensor RoleProgram::value_loss(const Experience& experience, const Tensor& ids, std::int64_t first,
                               std::int64_t count) {
  Tensor values;
  {
    const tape::Autocast autocast(tape_, role().precision.autocast, role().precision.compute);
    tape::ModelInput input;
    input.ids = ids;
    values = model_->forward(input);
  }
  Tensor wide = tape::to(values, DType::fp32);
  Tensor targets = tape::add_scalar(rows(experience.values, first, count));
  Tensor loss = tape::mse_loss(std::move(wide), std::move(targets));
  values.reset();
  return loss;
}

/// -log-probs of the given tokens, averaged.
Tensor RoleProgram::supervised_loss(const Experience& experience, const Tensor& ids, std::int64_t count) {
  Tensor logprobs = train_outputs(experience, ids, count).logprobs;
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
Tensor RoleProgram::preference_loss(const Experience& experience, const Tensor& ids, std::int64_t first,
                                    std::int64_t count) {
  Tensor own = tape::sum(train_outputs(experience, ids, count).logprobs, 2u, false);
  Tensor reference = tape::to(rows(experience.ref_logprobs, first, count), DType::fp32);
  reference = tape::sum(std::move(reference), 2u, false);
  Tensor rewards = tape::mul_scalar(tape::sub(own, std::move(reference)));
  Tensor loss = pairwise_loss(rewards, count);
  tape::drop(own, rewards);
  return loss;
}

/// Bradley-Terry over the last token's values.
Tensor RoleProgram::reward_loss(const Tensor& ids, std::int64_t count) {
  Tensor values;
  {
    const tape::Autocast autocast(tape_, role().precision.autocast, role().precision.compute);
    tape::ModelInput input;
    input.ids = ids;
    values = model_->forward(input);
  }
  Tensor last = tape::to(tape::select(values, 1, values.size(1) - 1), DType::fp32);
  Tensor loss = pairwise_loss(last, count);
  tape::drop(values, last);
  return loss;
}

Tensor RoleProgram::loss(const Experience& experience, std::int64_t first, std::int64_t count) {
  Tensor ids = rows(experience.sequences, first, count);
  if (context_.algorithm == Algorithm::sft) return supervised_loss(experience, ids, count);
  if (context_.algorithm == Algorithm::dpo) return preference_loss(experience, ids, first, count);
  if (context_.algorithm == Algorithm::reward_model) return reward_loss(ids, count);
  return role().head == HeadKind::language_model ? policy_loss(experience, ids, first, count)
                                                 : value_loss(experience, ids, first, count);
}

void RoleProgram::train_mini_batch(const Experience& experience, std::int64_t first, std::int64_t count) {
  const std::int64_t micro = std::min(context_.micro_batch, count);
  const std::int64_t parts = ceil_div(count, micro);
  for (std::int64_t i = 0; i < parts; ++i) {
    const std::int64_t at = first + i * micro, n = std::min(micro, first + count - at);
    before_micro_batch(i, parts);
    Tensor part;
    {
      std::optional<tape::SaveOnCpu> offload;
      if (role().activation_offload) offload.emplace(tape_);
      const tape::ComponentScope component(tape_, Component::activations);
      part = tape::div_scalar(loss(experience, at, n));
    }
    if (role().precision.gradient_scaler) {
      const Tensor whole = scaled(part);
      tape::backward(context_.engine, whole);
    } else {
      tape::backward(context_.engine, part);
    }
    part.reset();
    after_backward(i, parts);
  }
}

/// torch.amp.GradScaler: its two numbers come to exist with the first loss.
Tensor RoleProgram::scaled(const Tensor& loss) {
  const tape::ComponentScope component(tape_, Component::temporaries);
  if (!scale_.defined()) {
    scale_ = tape_.empty({}, DType::fp32, kScaler);
    growth_ = tape_.empty({}, DType::int32, kScaler);
  }
  return tape::mul(loss, scale_);
}

/// unscale_ in place: the reciprocal through fp64, a flag for what overflowed, and the device's copies of
/// both.
void RoleProgram::unscale_gradients() {
  const tape::ComponentScope component(tape_, Component::temporaries);
  Tensor wide = tape_.empty({}, DType::fp64, kScaler);
  Tensor reciprocal = tape_.empty({}, DType::fp64, kScaler);
  wide.reset();
  Tensor inverse = tape_.empty({}, DType::fp32, kScaler);
  reciprocal.reset();
  Tensor flag = tape_.empty({}, DType::fp32, kScaler);
  overflowed_ = tape_.empty({}, DType::fp32, kScaler);  // this device's copy, kept until the scale is updated
  tape_.empty({}, DType::fp32, kScaler).reset();
  tape::drop(inverse, flag);
}

void RoleProgram::before_micro_batch(std::int64_t, std::int64_t) {}
void RoleProgram::after_backward(std::int64_t, std::int64_t) {}
void RoleProgram::clip_gradients() {
  tape::clip_grad_norm(tape_, optimizer_->parameters());
}

void RoleProgram::train(const Experience& experience) {
  for (std::int64_t epoch = 0; epoch < context_.epochs; ++epoch)
    for (std::int64_t first = 0; first < experience.batch; first += context_.mini_batch) {
      train_mini_batch(experience, first, std::min(context_.mini_batch, experience.batch - first));
      optimizer_step();
    }
}

void RoleProgram::optimizer_step() {
  const tape::GradMode no_grad(tape_, false);
  if (!masters_.empty()) {
    const std::vector<Tensor> parameters = trainable();
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const tape::ComponentScope component(tape_, Component::gradients);
      const tape::ModuleScope module(tape_, parameters[i]->storage->label.module);
      tape_.set_grad(masters_[i], tape::to(parameters[i].grad(), masters_[i].dtype()));
      tape_.set_grad(parameters[i], {});
    }
  }
  if (role().precision.gradient_scaler) unscale_gradients();
  if (role().optimizer.clip) clip_gradients();
  {
    // Fused kernels are told of an overflow by a tensor of their own.
    Tensor told;
    if (overflowed_.defined() && role().optimizer.implementation == OptimizerImplementation::fused)
      told = tape_.empty({}, DType::fp32, kScaler);
    optimizer_->step();
  }
  overflowed_.reset();
  optimizer_->zero_grad();
  if (!masters_.empty()) {
    const std::vector<Tensor> parameters = trainable();
    for (std::size_t i = 0; i < parameters.size(); ++i) tape::copy_in_place(parameters[i], masters_[i]);
  }
}

void RoleProgram::move(unsigned parts, bool device, bool) {
  const auto one = [&](const Tensor& tensor) { device ? to_device(tape_, tensor) : to_host(tape_, tensor); };
  if ((parts & kOptimizer) != 0 && optimizer_)
    for (tape::AdamW::State& state : optimizer_->states()) {
      one(state.average);
      one(state.square_average);
      one(state.average_maxima);
      one(state.square_average_maxima);
    }
  if ((parts & kWeights) != 0) model_->in_module_order(one);
  if ((parts & kMasterWeights) != 0)
    for (const Tensor& master : masters_) one(master);
}

void RoleProgram::sync_weights(const WeightSync& sync) {
  const tape::ComponentScope component(tape_, Component::staging);
  const Tensor sent = tape_.empty({sync.bucket}, DType::uint8, kSync);
}

Result<std::unique_ptr<RoleProgram>> make_role_program(const RoleContext& context) {
  // A batch on the host comes packed, micro-batch by micro-batch; one on the device is cut where it lies.
  const ShardingKind kind = context.role.sharding.kind;
  const bool sharded = kind == ShardingKind::fsdp1 || kind == ShardingKind::fsdp2;
  if (!context.padded && (sharded || kind == ShardingKind::none))
    return std::unique_ptr<RoleProgram>(std::make_unique<PackedProgram>(context));
  if (sharded) return std::unique_ptr<RoleProgram>(std::make_unique<ShardedRole>(context));
  if (context.role.trainer == TrainerCode::trl_grpo)
    return std::unique_ptr<RoleProgram>(std::make_unique<TrlGrpoRole>(context));
  if (context.role.trainer == TrainerCode::trl_ppo)
    return std::unique_ptr<RoleProgram>(std::make_unique<TrlPpoRole>(context));
  if (context.role.trainer == TrainerCode::deepspeed_chat)
    return std::unique_ptr<RoleProgram>(std::make_unique<DeepSpeedChatRole>(context));
  if (kind == ShardingKind::none) return std::make_unique<RoleProgram>(context);
  if (kind == ShardingKind::megatron) return std::make_unique<MegatronRole>(context);
  return fail(fmt::format("no program yet for role {}: sharding {}", context.role.name,
                          enum_name(context.role.sharding.kind)));
}

}  // namespace headroom::phases
