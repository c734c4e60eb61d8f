#include "simulator/tape/megatron/optimizer.h"

#include <algorithm>

#include "simulator/tape/operations/work.h"
#include "simulator/tape/optimizers/adamw_work.h"

namespace headroom::tape::megatron {
namespace {

const std::uint16_t kClone = operation_name("aten::clone"),
                    kMaster = operation_name("megatron::shard_main_param"),
                    kState = operation_name("adam_state"), kStep = operation_name("te::multi_tensor_adam"),
                    kGradient = operation_name("megatron::shard_main_grad"),
                    kScale = operation_name("megatron::multi_tensor_scale"),
                    kRoot = operation_name("aten::_foreach_sqrt"),
                    kMove = operation_name("megatron::offload_optimizer");

/// Of the copy that a master is made of: weights in FP8 come from what they were quantised from, in 16 bits.
DType copied(const Tensor& parameter) {
  return parameter.dtype() == DType::fp8 ? DType::bf16 : parameter.dtype();
}

}  // namespace

Optimizer::Optimizer(Tape& tape, GradientBuffers& buffers, const OptimizerOptions& options)
    : tape_(tape), options_(options) {
  for (const bool expert : {false, true}) {
    const std::size_t begin = shards_.size();
    for (const bool decayed : {true, false})
      for (const Buffer& buffer : buffers.buffers())
        if (buffer.expert == expert) add_shards(buffers, buffer, decayed);
    if (options_.cpu_fraction > 0) build_on_host(buffers, expert, begin);
  }
  build_masters();
}

void Optimizer::add_shards(const GradientBuffers& from, const Buffer& buffer, bool decayed) {
  const auto add = [&](const BufferSlot& slot, std::int64_t count) {
    Shard& shard = shards_.emplace_back();
    shard.count = count;
    shard.parameter = slot.parameter;
    shard.gradients = buffer.gradients;
  };
  if (!from.distributed()) {
    for (auto slot = buffer.slots.rbegin(); slot != buffer.slots.rend(); ++slot)
      if (slot->decayed == decayed) add(*slot, slot->count);
    return;
  }
  for (const Bucket& bucket : buffer.buckets) {
    const std::int64_t part = (bucket.end - bucket.first) / buffer.ranks;
    const std::int64_t begin = bucket.first + part * buffer.rank, end = begin + part;
    for (const BufferSlot& slot : buffer.slots) {
      if (slot.decayed != decayed || slot.first < bucket.first || slot.first >= bucket.end) continue;
      const std::int64_t count = std::min(slot.first + slot.count, end) - std::max(slot.first, begin);
      if (count > 0) add(slot, count);
    }
  }
}

/// The hybrid optimizer takes tensors in order until its part is reached. It is built twice: over the model's
/// parameters first, where it makes fp32 copies of all of them, then over the shards.
void Optimizer::build_on_host(const GradientBuffers& buffers, bool expert, std::size_t first_shard) {
  std::vector<Tensor> parameters;
  for (const bool decayed : {true, false})
    for (const Buffer& buffer : buffers.buffers())
      for (auto slot = buffer.slots.rbegin(); slot != buffer.slots.rend(); ++slot)
        if (buffer.expert == expert && slot->decayed == decayed) parameters.push_back(slot->parameter);
  const ComponentScope component(tape_, Component::master_weights);
  std::int64_t all = 0, taken = 0;
  for (const Tensor& parameter : parameters) all += parameter.elements();
  for (const Tensor& parameter : parameters) {
    const bool on_host = static_cast<double>(taken) < options_.cpu_fraction * static_cast<double>(all);
    if (on_host) taken += parameter.elements();
    const Shape shape{parameter.elements()};
    const Tensor clone = tape_.empty(shape, copied(parameter), kClone);
    leftovers_.push_back(on_host ? tape_.empty_host(shape, DType::fp32, HostKind::pinned)
                                 : tape_.empty(shape, DType::fp32, kMaster));
  }
  all = taken = 0;
  for (std::size_t i = first_shard; i < shards_.size(); ++i) all += shards_[i].count;
  for (std::size_t i = first_shard; i < shards_.size(); ++i) {
    shards_[i].on_host = static_cast<double>(taken) < options_.cpu_fraction * static_cast<double>(all);
    if (shards_[i].on_host) taken += shards_[i].count;
  }
}

/// A precision-aware optimizer keeps what it needs beside the moments; the hybrid one then updates copies on
/// the host from the parameters themselves.
void Optimizer::build_masters() {
  const ComponentScope component(tape_, Component::master_weights);
  for (Shard& shard : shards_) {
    if (options_.precision_aware) continue;
    const ModuleScope module(tape_, shard.parameter->storage->label.module);
    const Tensor clone = tape_.empty({shard.count}, copied(shard.parameter), kClone);
    shard.master = tape_.empty({shard.count}, DType::fp32, kMaster);
  }
  for (Shard& shard : shards_) {
    if (!shard.on_host) continue;
    const DType from = options_.precision_aware ? copied(shard.parameter) : DType::fp32;
    const Tensor clone = tape_.empty({shard.count}, from, kClone);
    shard.host_master = tape_.empty_host({shard.count}, DType::fp32, HostKind::pinned);
  }
}

Tensor Optimizer::state(const Shard& shard, DType dtype, Component component) {
  const ComponentScope scope(tape_, component);
  return shard.on_host ? tape_.empty_host({shard.count}, dtype, HostKind::pageable)
                       : tape_.empty({shard.count}, dtype, kState);
}

void Optimizer::create_states() {
  if (std::exchange(states_, true)) return;
  for (Shard& shard : shards_) {
    const DType moments = shard.on_host ? DType::fp32 : options_.moments;
    shard.average = state(shard, moments, Component::optimizer);
    if (!options_.sgd) shard.square_average = state(shard, moments, Component::optimizer);
    // Two bytes an element, what fp32 has beyond bf16.
    if (options_.precision_aware && !shard.on_host)
      shard.master = state(shard, DType::bf16, Component::master_weights);
  }
}

/// Without fused kernels each gradient is scaled into a new tensor and copied back.
void Optimizer::clip_gradients() {
  if (!options_.clip || options_.multi_tensor || options_.precision_aware) return;
  for (const Shard& shard : shards_) {
    const Tensor scaled = tape_.empty({shard.count}, DType::fp32, kScale);
  }
}

void Optimizer::step() {
  const ComponentScope component(tape_, Component::temporaries);
  if (!options_.precision_aware) {
    const ComponentScope gradients(tape_, Component::gradients);
    for (Shard& shard : shards_)
      if (shard.gradients.dtype() != DType::fp32 && !shard.gradient.defined())
        shard.gradient = tape_.empty({shard.count}, DType::fp32, kGradient);
  }
  clip_gradients();
  for (Shard& shard : shards_) {
    if (!shard.on_host || shard.staging.defined()) continue;
    const ComponentScope gradients(tape_, Component::gradients);
    shard.staging = tape_.empty_host({shard.count}, DType::fp32, HostKind::pinned);
  }
  create_states();
  std::vector<Tensor> roots;
  for (const Shard& shard : shards_) {
    if (options_.foreach_ && !shard.on_host && !options_.sgd)
      roots.push_back(tape_.empty({shard.count}, DType::fp32, kRoot));
    if (!tape_.wants_operations()) continue;
    const Tensor gradient =
        shard.gradient.defined() ? shard.gradient : tape_.alias(shard.gradients, Shape{shard.count});
    if (shard.on_host)
      Work(tape_, OperationKind::device_to_host, kMove).in(gradient).out(shard.staging).run();
    adamw_work(tape_, kStep, shard.on_host ? shard.host_master : shard.master,
               shard.on_host ? shard.staging : gradient, shard.average, shard.square_average);
    if (shard.on_host)
      Work(tape_, OperationKind::host_to_device, kMove)
          .in(shard.host_master)
          .out(shard.master.defined() ? shard.master : shard.parameter)
          .run();
  }
  while (!roots.empty()) roots.pop_back();
}

void Optimizer::zero_gradients() {
  for (Shard& shard : shards_) shard.gradient.reset();
}

void Optimizer::move(Tensor& tensor, bool to_device) {
  if (!tensor.defined() || (tensor->storage->device == Device::gpu) == to_device) return;
  const ComponentScope component(tape_, tensor->storage->label.component);
  const Tensor before = tensor;
  tensor = to_device ? tape_.empty(tensor.shape(), tensor.dtype(), kMove)
                     : tape_.empty_host(tensor.shape(), tensor.dtype(), HostKind::pageable);
  if (!tape_.wants_operations()) return;
  if (to_device)
    Work(tape_, OperationKind::host_to_device, kMove).in(before).out(tensor).run();
  else
    Work(tape_, OperationKind::device_to_host, kMove).in(before).out(tensor).run();
}

void Optimizer::move_masters(bool to_device) {
  for (Shard& shard : shards_) move(shard.master, to_device);
}

void Optimizer::move_moments(bool to_device) {
  for (Shard& shard : shards_) {
    if (shard.on_host) continue;
    move(shard.average, to_device);
    move(shard.square_average, to_device);
  }
}

std::int64_t Optimizer::elements() const {
  std::int64_t sum = 0;
  for (const Shard& shard : shards_) sum += shard.count;
  return sum;
}

}  // namespace headroom::tape::megatron
