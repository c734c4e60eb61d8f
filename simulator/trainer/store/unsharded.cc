#include "simulator/trainer/store/unsharded.h"

#include <algorithm>

#include "simulator/tape/operations/copy.h"
#include "simulator/tape/operations/pointwise.h"
#include "simulator/trainer/store/residence.h"

namespace headroom::trainer {
namespace {

using tape::Tensor;

const std::uint16_t kClone = tape::operation_name("aten::clone"),
                    kScaler = tape::operation_name("GradScaler"),
                    kWarmup = tape::operation_name("caching_allocator_warmup");

void load(tape::Tape& tape, const Tensor& tensor) {
  if (tensor.defined() && tensor->storage->block == kNoBlock)
    tape.regrow_storage(tensor, tensor->storage->bytes);
}

bool is_adapter(const tape::ParameterSlot& slot) {
  return slot.name.find(".lora_") != std::string::npos;
}

/// from_pretrained(device_map=...): buffers first, then room for all weights is taken at once and given back
/// to the cache, into which the weights come. Of that room, what the cache holds already is left out.
void load_into_cache(tape::Tape& tape, tape::Model& model, Bytes unused) {
  for (const Tensor* buffer : model.buffers()) load(tape, *buffer);
  Bytes weights = 0;
  for (const tape::ParameterSlot& slot : model.parameters())
    if (!is_adapter(slot)) weights += slot.tensor->bytes();
  tape.empty({std::max<Bytes>(0, weights - unused) / 2 * 2}, DType::uint8, kWarmup).reset();
  for (const tape::ParameterSlot& slot : model.parameters())
    if (!is_adapter(slot)) load(tape, *slot.tensor);
  for (const tape::ParameterSlot& slot : model.parameters()) load(tape, *slot.tensor);
}

}  // namespace

// --- Building

Status UnshardedStore::build() {
  const bool loaded = role().loaded_into_cache || role().built_on_host;
  // The loader tries the device with a number.
  if (role().loaded_into_cache) tape_.empty({1}, DType::int64, kWarmup).reset();
  tape_.set_stopped(loaded);
  const Status built = build_model();
  tape_.set_stopped(false);
  HEADROOM_TRY(built);
  if (role().loaded_into_cache)
    load_into_cache(tape_, *model_, context_.unused ? context_.unused() : 0);
  else if (loaded)
    model_->in_module_order([this](const Tensor& tensor) { load(tape_, tensor); });
  return {};
}

std::vector<Tensor> UnshardedStore::trainable() {
  std::vector<Tensor> out;
  for (const tape::ParameterSlot& slot : model_->parameters())
    if ((*slot.tensor)->requires_grad) out.push_back(*slot.tensor);
  return out;
}

void UnshardedStore::build_masters(std::vector<Tensor>& optimized) {
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

void UnshardedStore::build_optimizer() {
  std::vector<Tensor> optimized = trainable();
  if (role().precision.master) build_masters(optimized);
  const Optimizer& o = role().optimizer;
  optimizer_ = std::make_unique<tape::AdamW>(
      tape_, std::move(optimized),
      tape::AdamW::Form{.kind = o.kind, .implementation = o.implementation, .moments = o.states, .master_bytes = o.master_bytes});
}

void UnshardedStore::create_states() {
  optimizer_->create_states();
}

// --- Updates

void UnshardedStore::backward(const Tensor& loss) {
  if (!role().precision.gradient_scaler) return tape::backward(context_.engine, loss);
  const Tensor whole = scaled(loss);
  tape::backward(context_.engine, whole);
}

/// torch.amp.GradScaler: its two numbers come to exist with the first loss.
Tensor UnshardedStore::scaled(const Tensor& loss) {
  const tape::ComponentScope component(tape_, Component::temporaries);
  if (!scale_.defined()) {
    scale_ = tape_.empty({}, DType::fp32, kScaler);
    growth_ = tape_.empty({}, DType::int32, kScaler);
  }
  return tape::mul(loss, scale_);
}

/// unscale_ in place: the reciprocal through fp64, a flag for what overflowed, and the device's copies of
/// both.
void UnshardedStore::unscale_gradients() {
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

void UnshardedStore::gradients_to_masters() {
  const std::vector<Tensor> parameters = trainable();
  for (std::size_t i = 0; i < masters_.size(); ++i) {
    const tape::ComponentScope component(tape_, Component::gradients);
    const tape::ModuleScope module(tape_, parameters[i]->storage->label.module);
    tape_.set_grad(masters_[i], tape::to(parameters[i].grad(), masters_[i].dtype()));
    tape_.set_grad(parameters[i], {});
  }
}

void UnshardedStore::clip_gradients() {
  tape::clip_grad_norm(tape_, optimizer_->parameters());
}

void UnshardedStore::clip() {
  const tape::GradMode no_grad(tape_, false);
  if (role().optimizer.clip) clip_gradients();
}

void UnshardedStore::update() {
  const tape::GradMode no_grad(tape_, false);
  // Fused kernels are told of an overflow by a tensor of their own.
  Tensor told;
  if (overflowed_.defined() && role().optimizer.implementation == OptimizerImplementation::fused)
    told = tape_.empty({}, DType::fp32, kScaler);
  optimizer_->step();
}

void UnshardedStore::step() {
  const tape::GradMode no_grad(tape_, false);
  if (!masters_.empty()) gradients_to_masters();
  if (role().precision.gradient_scaler) unscale_gradients();
  clip();
  update();
  overflowed_.reset();
  optimizer_->zero_grad();
  if (masters_.empty()) return;
  const std::vector<Tensor> parameters = trainable();
  for (std::size_t i = 0; i < parameters.size(); ++i) tape::copy_in_place(parameters[i], masters_[i]);
}

// --- Residency

void UnshardedStore::move_weights(bool device) {
  model_->in_module_order([&](const Tensor& tensor) {
    device ? move_to_device(tape_, tensor) : move_to_host(tape_, tensor, HostKind::pageable);
  });
}

void UnshardedStore::move(unsigned parts, bool device) {
  const HostKind kind = role().offload_optimizer_pinned ? HostKind::pinned : HostKind::pageable;
  const auto one = [&](const Tensor& tensor) {
    device ? move_to_device(tape_, tensor) : move_to_host(tape_, tensor, kind);
  };
  if ((parts & kOptimizer) != 0 && optimizer_)
    for (tape::AdamW::State& state : optimizer_->states()) {
      one(state.average);
      one(state.square_average);
      one(state.average_maxima);
      one(state.square_average_maxima);
      one(state.master);
    }
  if ((parts & kWeights) != 0) move_weights(device);
  if ((parts & kMasterWeights) != 0)
    for (const Tensor& master : masters_) one(master);
}

void UnshardedStore::release(unsigned parts) {
  if ((parts & kGradients) != 0 && optimizer_) optimizer_->zero_grad();
}

/// torch.save copies one tensor after the other to the host.
void UnshardedStore::save(unsigned /*parts*/, bool /*gathered*/) {
  const tape::ComponentScope component(tape_, Component::staging);
  for (const Tensor& part : trainable())
    const Tensor written = tape_.empty_host(part.shape(), part.dtype(), HostKind::pageable);
}

}  // namespace headroom::trainer
