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
                    kMove = operation_name("megatron::offload_optimizer");

}  // namespace

Optimizer::Optimizer(Tape& tape, GradientBuffers& buffers, const OptimizerOptions& options)
    : tape_(tape), options_(options) {
  std::int64_t all = 0, on_host = 0;
  for (const Buffer& buffer : buffers.buffers()) {
    const std::int64_t end = buffer.elements / buffer.ranks;
    for (const BufferSlot& slot : buffer.slots) {
      const std::int64_t count = std::min(slot.first + slot.count, end) - slot.first;
      if (count <= 0) continue;
      Shard& shard = shards_.emplace_back();
      shard.count = count;
      shard.parameter = slot.parameter;
      shard.gradients = buffer.gradients;
      all += count;
    }
  }
  for (Shard& shard : shards_) {
    // The hybrid optimizer takes parameters in order until its part is reached.
    shard.on_host = static_cast<double>(on_host) < options_.cpu_fraction * static_cast<double>(all);
    if (shard.on_host) on_host += shard.count;
    if (options_.precision_aware && !shard.on_host) continue;
    const ModuleScope module(tape_, shard.parameter->storage->label.module);
    const ComponentScope component(tape_, Component::master_weights);
    const Tensor clone = tape_.empty({shard.count}, shard.parameter.dtype(), kClone);
    shard.master = state(shard, DType::fp32, Component::master_weights);
    if (shard.on_host) shard.staging = state(shard, DType::fp32, Component::gradients);
  }
}

Tensor Optimizer::state(const Shard& shard, DType dtype, Component component) {
  const ComponentScope scope(tape_, component);
  return shard.on_host
             ? tape_.empty_host({shard.count}, dtype, HostKind::pinned)
             : tape_.empty({shard.count}, dtype, component == Component::optimizer ? kState : kMaster);
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

void Optimizer::step() {
  const ComponentScope component(tape_, Component::temporaries);
  create_states();
  std::vector<Tensor> copies;
  for (const Shard& shard : shards_) {
    const bool copies_gradient =
        !options_.precision_aware && shard.gradients.dtype() != DType::fp32 && !shard.on_host;
    if (copies_gradient) copies.push_back(tape_.empty({shard.count}, DType::fp32, kGradient));
    if (!tape_.wants_operations()) continue;
    const Tensor gradient = tape_.alias(shard.gradients, Shape{shard.count});
    if (shard.on_host)
      Work(tape_, OperationKind::device_to_host, kMove).in(gradient).out(shard.staging).run();
    const Tensor& own = shard.on_host ? shard.staging : gradient;
    adamw_work(tape_, kStep, shard.master, copies_gradient ? copies.back() : own, shard.average,
               shard.square_average);
    if (shard.on_host)
      Work(tape_, OperationKind::host_to_device, kMove).in(shard.master).out(shard.parameter).run();
  }
  while (!copies.empty()) copies.pop_back();
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
  for (Shard& shard : shards_)
    if (!shard.on_host) move(shard.master, to_device);
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
