#include "simulator/tape/megatron/gradient_buffers.h"

#include <numeric>

#include "simulator/tape/operations/work.h"

namespace headroom::tape::megatron {
namespace {

const std::uint16_t kParameters = operation_name("megatron::param_buffer"),
                    kGradients = operation_name("megatron::grad_buffer"),
                    kOffload = operation_name("megatron::offload"), kLoad = operation_name("megatron::load");

constexpr std::int64_t kParameterStart = 64, kBucketEnd = 128;

}  // namespace

GradientBuffers::GradientBuffers(Stage& stage, const Options& options) : tape_(stage.context().tape) {
  add_buffer(stage, false, options);
  add_buffer(stage, true, options);
}

void GradientBuffers::add_buffer(Stage& stage, bool expert, const Options& options) {
  Buffer buffer;
  buffer.expert = expert;
  buffer.ranks = expert ? options.expert_ranks : options.dense_ranks;
  const std::vector<Stage::Parameter>& parameters = stage.parameters();
  for (auto p = parameters.rbegin(); p != parameters.rend(); ++p) {
    if (p->weight.expert != expert || !p->tensor->requires_grad) continue;
    buffer.elements = round_up(buffer.elements, kParameterStart);
    buffer.slots.push_back({p->tensor, buffer.elements, p->tensor.elements()});
    buffer.elements += p->tensor.elements();
  }
  if (buffer.slots.empty()) return;
  buffer.elements = round_up(buffer.elements, std::lcm(buffer.ranks, kBucketEnd));
  const ModuleScope module(tape_, 0);
  if (options.contiguous_parameters) {
    const ComponentScope component(tape_, Component::weights);
    buffer.parameters = tape_.empty({buffer.elements}, stage.context().options.dtype, kParameters);
  }
  {
    const ComponentScope component(tape_, Component::gradients);
    buffer.gradients = tape_.empty({buffer.elements}, options.gradients, kGradients);
  }
  for (const BufferSlot& slot : buffer.slots) {
    if (options.contiguous_parameters)
      tape_.set_data(slot.parameter, tape_.alias(buffer.parameters, slot.parameter.shape(), slot.first));
    tape_.leaf_hooks(slot.parameter).accumulated.push_back([this](const Tensor& leaf) {
      tape_.set_grad(leaf, {});
    });
  }
  buffers_.push_back(std::move(buffer));
}

void GradientBuffers::offload_parameters() {
  const ComponentScope component(tape_, Component::weights);
  const bool first = host_.empty();
  for (Buffer& b : buffers_) {
    if (!b.parameters.defined() || b.parameters->storage->block == kNoBlock) continue;
    if (first) host_.push_back(tape_.empty_host({b.elements}, b.parameters.dtype(), HostKind::pinned));
    if (tape_.wants_operations()) Work(tape_, OperationKind::device_to_host, kOffload).in(b.parameters).run();
    tape_.shrink_storage(b.parameters);
  }
}

void GradientBuffers::load_parameters() {
  for (Buffer& b : buffers_) {
    if (!b.parameters.defined() || b.parameters->storage->block != kNoBlock) continue;
    tape_.regrow_storage(b.parameters, b.parameters.bytes());
    if (tape_.wants_operations()) Work(tape_, OperationKind::host_to_device, kLoad).out(b.parameters).run();
  }
}

void GradientBuffers::release_gradients() {
  for (Buffer& b : buffers_)
    if (b.gradients->storage->block != kNoBlock) tape_.shrink_storage(b.gradients);
}

void GradientBuffers::load_gradients() {
  for (Buffer& b : buffers_)
    if (b.gradients->storage->block == kNoBlock) tape_.regrow_storage(b.gradients, b.gradients.bytes());
}

}  // namespace headroom::tape::megatron
