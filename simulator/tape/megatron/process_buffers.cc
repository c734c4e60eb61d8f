#include "simulator/tape/megatron/process_buffers.h"

namespace headroom::tape::megatron {
namespace {

const std::uint16_t kPlaceholder = operation_name("te::dummy_wgrad"),
                    kGlobal = operation_name("megatron::global_memory_buffer"),
                    kQuantised = operation_name("te::fp8_weight_workspace"),
                    kWorkspace = operation_name("te::cublas_workspace"),
                    kGroupedWorkspace = operation_name("te::grouped_cublas_workspace");

/// TransformerEngine aligns its workspace by one kilobyte more than PyTorch.
constexpr Bytes kAlignment = 1024;

/// Process-wide memory belongs to no module, and not to the operation that happens to come first.
class Unlabelled {
 public:
  Unlabelled(Tape& tape, Component component)
      : tape_(tape), component_(tape, component), module_(tape, 0), operation_(tape.operation()) {
    tape.set_operation(0);
  }
  ~Unlabelled() { tape_.set_operation(operation_); }
  Unlabelled(const Unlabelled&) = delete;
  Unlabelled& operator=(const Unlabelled&) = delete;

 private:
  Tape& tape_;
  ComponentScope component_;
  ModuleScope module_;
  std::uint16_t operation_;
};

}  // namespace

Tensor ProcessBuffers::weight_placeholder(const Shape& shape, DType dtype) {
  Tensor& cached = placeholders_[{shape[0], shape.rank > 1 ? shape[1] : 1, dtype}];
  if (!cached.defined()) {
    const Unlabelled unlabelled(tape_, Component::gradients);
    cached = tape_.empty(shape, dtype, kPlaceholder);
  }
  return tape_.alias(cached, cached.shape(), 0, false);
}

Tensor ProcessBuffers::global_buffer(const Shape& shape, DType dtype) {
  if (!global_.defined() || global_.elements() < shape.elements() || global_.dtype() != dtype) {
    const Unlabelled unlabelled(tape_, Component::communication);
    global_ = tape_.empty({shape.elements()}, dtype, kGlobal);
  }
  return tape_.alias(global_, shape);
}

void ProcessBuffers::quantised_weight(const Tensor& weight, const std::string& role, const std::string& modules) {
  if (tape_.stopped()) return;
  Tensor& kept = quantised_[weight.record()];
  if (kept.defined()) return;
  // Weights of one size come in the order of their modules.
  std::vector<Tensor>& made = in_modules_[{modules, weight.elements()}];
  const std::size_t place = placed_[{role, weight.elements()}]++;
  if (place == made.size()) {
    const Unlabelled unlabelled(tape_, Component::weights);
    const std::int64_t forms = weight.dtype() == DType::fp8 ? 1 : 2;
    made.push_back(tape_.empty({forms, weight.elements()}, DType::fp8, kQuantised));
  }
  kept = made[place];
}

void ProcessBuffers::product_workspace() {
  if (workspace_.defined() || tape_.stopped()) return;
  const Unlabelled unlabelled(tape_, Component::workspaces);
  workspace_ = tape_.empty({tape_.traits().cublas_workspace + kAlignment}, DType::uint8, kWorkspace);
}

void ProcessBuffers::grouped_workspaces() {
  if (grouped_[0].defined() || tape_.stopped()) return;
  const Unlabelled unlabelled(tape_, Component::workspaces);
  for (Tensor& one : grouped_)
    one = tape_.empty({tape_.traits().cublas_workspace + kAlignment}, DType::uint8, kGroupedWorkspace);
}

void ProcessBuffers::clear() {
  placeholders_.clear();
  quantised_.clear();
  in_modules_.clear();
  placed_.clear();
  global_.reset();
}

}  // namespace headroom::tape::megatron
