#include "simulator/tape/optimizers/adamw.h"

#include <algorithm>

#include "simulator/tape/operations/copy.h"
#include "simulator/tape/operations/pointwise.h"
#include "simulator/tape/operations/reduce.h"
#include "simulator/tape/operations/work.h"
#include "simulator/tape/optimizers/adamw_work.h"

namespace headroom::tape {
namespace {

const std::uint16_t kState = operation_name("adamw_state"), kSqrt = operation_name("aten::_foreach_sqrt"),
                    kDecayed = operation_name("aten::_foreach_add"),
                    kDescent = operation_name("aten::_foreach_add_"),
                    kLoopSqrt = operation_name("aten::sqrt"), kDiv = operation_name("aten::div"),
                    kNorm = operation_name("aten::_foreach_norm"), kStack = operation_name("aten::stack"),
                    kFusedStep = operation_name("aten::_fused_adamw_"),
                    kForeachStep = operation_name("aten::_foreach_adamw_"),
                    kLoopStep = operation_name("aten::adamw"),
                    kLinalg = operation_name("aten::linalg_vector_norm"), kPow = operation_name("aten::pow"),
                    kAllReduce = operation_name("all_reduce"),
                    kReciprocal = operation_name("aten::reciprocal"), kClamp = operation_name("aten::clamp");

/// Elements one block of a multi-tensor kernel handles.
constexpr std::int64_t kChunk = 65536;

std::uint16_t step_name(OptimizerImplementation implementation) {
  switch (implementation) {
    case OptimizerImplementation::foreach_:
      return kForeachStep;
    case OptimizerImplementation::loop:
      return kLoopStep;
    default:
      return kFusedStep;
  }
}

// bitsandbytes: smaller parameters keep fp32 states; elements that share a maximum; numbers of a code book.
constexpr std::int64_t kLeast8bit = 4096, kBlock8bit = 256, kCode8bit = 256;

}  // namespace

AdamW::AdamW(Tape& tape, std::vector<Tensor> parameters, const Form& form)
    : tape_(tape),
      parameters_(std::move(parameters)),
      kind_(form.kind),
      implementation_(form.implementation),
      moments_(form.moments),
      master_bytes_(form.master_bytes),
      states_(parameters_.size()) {}

void AdamW::create_states() {
  make_states(false);
}

void AdamW::make_states(bool only_with_gradients) {
  if (kind_ == OptimizerKind::sgd) return;
  const ComponentScope component(tape_, Component::optimizer);
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const Tensor& p = parameters_[i];
    State& state = states_[i];
    if (state.average.defined() || (only_with_gradients && p->grad == nullptr)) continue;
    const ModuleScope module(tape_, p->storage->label.module);
    if (implementation_ == OptimizerImplementation::eight_bit) {
      make_8bit_state(p, state);
      continue;
    }
    // foreach and loop keep the step counter on the host.
    if (implementation_ == OptimizerImplementation::fused) state.step = beside(p, Shape{}, DType::fp32);
    state.average = beside(p, like(p.shape()), moments_.value_or(p.dtype()));
    state.square_average = beside(p, like(p.shape()), moments_.value_or(p.dtype()));
    if (master_bytes_ > 0) state.master = beside(p, Shape{p.elements() * master_bytes_}, DType::uint8);
  }
}

void AdamW::make_8bit_state(const Tensor& p, State& state) {
  if (p.elements() < kLeast8bit) {
    state.average = beside(p, like(p.shape()), DType::fp32);
    state.square_average = beside(p, like(p.shape()), DType::fp32);
    return;
  }
  if (!code_.defined()) {
    code_ = beside(p, Shape{kCode8bit}, DType::fp32);
    unsigned_code_ = beside(p, Shape{kCode8bit}, DType::fp32);
  }
  const Shape maxima{ceil_div(p.elements(), kBlock8bit)};
  state.average = beside(p, like(p.shape()), DType::uint8);
  state.square_average = beside(p, like(p.shape()), DType::uint8);
  state.average_maxima = beside(p, maxima, DType::fp32);
  state.square_average_maxima = beside(p, maxima, DType::fp32);
}

Tensor AdamW::beside(const Tensor& parameter, const Shape& shape, DType dtype) {
  if (parameter->storage->device == Device::gpu) return tape_.empty(shape, dtype, kState);
  return tape_.empty_host(
      shape, dtype,
      parameter->storage->device == Device::pinned_host ? HostKind::pinned : HostKind::pageable);
}

void AdamW::step() {
  const GradMode no_grad(tape_, false);
  const ComponentScope component(tape_, Component::temporaries);
  if (kind_ == OptimizerKind::sgd) return descend();
  make_states(true);
  std::vector<Tensor> roots;
  Tensor quotient;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const Tensor& p = parameters_[i];
    if (p->grad == nullptr) continue;
    // On the host the update runs in place but for one parameter's temporaries, which are not counted.
    const bool on_device = p->storage->device == Device::gpu;
    const State& state = states_[i];
    const ModuleScope module(tape_, p->storage->label.module);
    if (on_device && implementation_ == OptimizerImplementation::foreach_) {
      roots.push_back(elementwise(kSqrt, p.dtype(), {&state.square_average}));
    } else if (on_device && implementation_ == OptimizerImplementation::loop) {
      Tensor root = elementwise(kLoopSqrt, p.dtype(), {&state.square_average});
      quotient = plain(kDiv, p.dtype(), std::move(root));
    }
    adamw_work(tape_, step_name(implementation_), p, p.grad(), state.average, state.square_average);
  }
  while (!roots.empty()) roots.pop_back();
}

void AdamW::descend() {
  std::vector<Tensor> decayed;
  for (const Tensor& p : parameters_)
    if (p->grad != nullptr && p->storage->device == Device::gpu) {
      const Tensor gradient = p.grad();
      decayed.push_back(elementwise(kDecayed, gradient.dtype(), {&gradient, &p}));
    }
  std::size_t next = 0;
  for (const Tensor& p : parameters_) {
    if (p->grad == nullptr || !tape_.wants_operations()) continue;
    const Tensor& gradient = p->storage->device == Device::gpu ? decayed[next++] : p.grad();
    Work(tape_, OperationKind::elementwise, kDescent).in(p).in(gradient).out(p).run();
  }
  while (!decayed.empty()) decayed.pop_back();
}

void AdamW::zero_grad() {
  for (const Tensor& p : parameters_) tape_.set_grad(p, {});
}

namespace {

void sum_over_ranks(Tape& tape, const Tensor& in, const Tensor& out, std::int64_t ranks) {
  if (ranks > 1 && tape.wants_operations())
    Work(tape, OperationKind::all_reduce, kAllReduce).in(in).out(out).sizes({ranks}).run();
}

/// The norm of all norms, of shards over all their ranks. DTensors of several ranks: their squares are summed
/// first.
Tensor joint_norm(Tape& tape, const Tensor& norms, const GradientShards& shards) {
  if (!shards.dtensor || shards.ranks == 1) {
    Tensor total = reduce(kLinalg, norms.dtype(), 4, norms, 1u, false);
    sum_over_ranks(tape, total, total, shards.ranks);
    return total;
  }
  Tensor squares = plain(kPow, norms.dtype(), norms);
  Tensor summed = tape.empty(norms.shape(), norms.dtype(), kAllReduce);
  sum_over_ranks(tape, squares, summed, shards.ranks);
  Tensor roots = plain(kPow, norms.dtype(), summed);
  drop(squares, summed);
  return reduce(kLinalg, roots.dtype(), 4, std::move(roots), 1u, false);
}

}  // namespace

void clip_grad_norm(Tape& tape, std::span<const Tensor> parameters, const GradientShards& shards) {
  const GradMode no_grad(tape, false);
  const ComponentScope component(tape, Component::temporaries);
  std::int64_t count = 0, chunks = 0;
  DType dtype = DType::fp32;
  for (const Tensor& p : parameters) {
    if (p->grad == nullptr) continue;
    ++count;
    chunks = std::max(chunks, ceil_div(p.elements(), kChunk));
    dtype = p.grad().dtype();
  }
  if (count == 0) return;
  Tensor partial = tape.empty({count * chunks}, DType::fp32, kNorm);
  std::vector<Tensor> norms;
  for (const Tensor& p : parameters) {
    if (p->grad == nullptr) continue;
    norms.push_back(tape.empty({}, dtype, kNorm));
    if (tape.wants_operations())
      Work(tape, OperationKind::reduce, kNorm).in(p.grad()).out(norms.back()).run();
  }
  partial.reset();
  Tensor stacked = tape.empty({count}, dtype, kStack);
  Tensor total = joint_norm(tape, stacked, shards);
  stacked.reset();
  while (!norms.empty()) norms.pop_back();
  Tensor shifted = add_scalar(total);
  Tensor inverse = plain(kReciprocal, dtype, shifted);
  Tensor factor = mul_scalar(inverse);
  drop(inverse, shifted);
  Tensor clamped = plain(kClamp, dtype, factor);
  factor.reset();
  for (const Tensor& p : parameters)
    if (p->grad != nullptr) mul_in_place(p.grad());
  drop(clamped, total);
}

void clip_grad_norm_on_host(Tape& tape, std::span<const Tensor> parameters) {
  if (!tape.wants_operations()) return;
  const GradMode no_grad(tape, false);
  for (const Tensor& p : parameters)
    if (p->grad != nullptr) Work(tape, OperationKind::reduce, kNorm).in(p.grad()).run();
  for (const Tensor& p : parameters)
    if (p->grad != nullptr) mul_in_place(p.grad());
}

}  // namespace headroom::tape
