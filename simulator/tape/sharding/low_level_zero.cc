#include "simulator/tape/sharding/low_level_zero.h"

#include <utility>

#include "simulator/tape/operations/copy.h"
#include "simulator/tape/operations/pointwise.h"
#include "simulator/tape/operations/reduce.h"
#include "simulator/tape/operations/work.h"
#include "simulator/tape/optimizers/adamw_work.h"
#include "simulator/tape/sharding/list_collective.h"
#include "simulator/tape/sharding/zero.h"

namespace headroom::tape {
namespace {

const std::uint16_t kPad = operation_name("aten::constant_pad_nd"), kClone = operation_name("aten::clone"),
                    kMaster = operation_name("low_level_zero::master_part"),
                    kJoin = operation_name("low_level_zero::flatten"),
                    kReceived = operation_name("low_level_zero::reduce_scatter"),
                    kWide = operation_name("low_level_zero::fp32_gradient"),
                    kState = operation_name("adamw_state"), kStep = operation_name("fused_adam::multi_tensor"),
                    kHostStep = operation_name("cpu_adam::step"),
                    kGather = operation_name("low_level_zero::all_gather"),
                    kNarrow = operation_name("low_level_zero::part_to_gather");

}  // namespace

LowLevelZero::LowLevelZero(Model& model, Engine& engine, const LowLevelZeroOptions& options)
    : tape_(model.tape()), engine_(engine), options_(options) {
  for (const ParameterSlot& slot : model.parameters()) {
    const Tensor& weight = *slot.tensor;
    if (!weight->requires_grad) continue;
    const ModuleScope module(tape_, weight->storage->label.module);
    Parameter& p = parameters_.emplace_back();
    p.slot = weight;
    p.elements = ceil_div(weight.elements(), options.ranks) * options.ranks;
    Tensor padded;
    if (p.elements != weight.elements()) {
      const ComponentScope component(tape_, Component::weights);
      padded = tape_.empty({p.elements}, options.dtype, kPad);
      // Since 0.4 the weight becomes a view of its padded copy.
      if (!options.clones_parts) tape_.set_data(weight, tape_.alias(padded, weight.shape()));
    }
    const ComponentScope component(tape_, Component::master_weights);
    Tensor copy;
    if (!options.clones_parts) copy = tape_.empty({part(p)}, options.dtype, kClone);
    p.master = tape_.empty({part(p)}, DType::fp32, kMaster);
    if (options.offload) p.master = tape_.empty_host({part(p)}, DType::fp32, HostKind::pageable);
  }
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    tape_.leaf_hooks(parameters_[i].slot).accumulated.push_back([this, i](const Tensor&) { gradient_ready(i); });
}

// --- Backward

void LowLevelZero::backward(const Tensor& loss) {
  {
    const ComponentScope component(tape_, Component::temporaries);
    const Tensor scaled = options_.loss_scaling ? mul_scalar(loss) : loss;
    tape::backward(engine_, scaled);
  }
  reduce();
  if (options_.ranks > 1) tape_.memory().synchronize();
}

void LowLevelZero::gradient_ready(std::size_t parameter) {
  const std::uint16_t operation = tape_.operation();
  tape_.set_operation(0);
  const Parameter& p = parameters_[parameter];
  if (in_bucket_ + p.slot.elements() > options_.bucket) reduce();
  in_bucket_ += p.elements;
  waiting_.push_back(parameter);
  tape_.set_operation(operation);
}

/// Clones of every rank's part of every gradient, joined rank by rank, and then once more.
Tensor LowLevelZero::joined_by_parts() {
  for (const std::size_t i : waiting_) {
    Parameter& p = parameters_[i];
    Tensor whole = tape_.empty({p.slot.elements()}, options_.dtype, kClone);
    if (p.elements != p.slot.elements()) whole = tape_.empty({p.elements}, options_.dtype, kPad);
    for (std::int64_t rank = 0; rank < options_.ranks; ++rank)
      parts_.push_back(tape_.empty({part(p)}, options_.dtype, kClone));
    tape_.set_grad(p.slot, {});
  }
  std::vector<Tensor> by_rank;
  for (std::int64_t rank = 0; rank < options_.ranks; ++rank)
    by_rank.push_back(tape_.empty({in_bucket_ / options_.ranks}, options_.dtype, kJoin));
  // One tensor alone is not copied to be joined.
  if (by_rank.size() == 1) return std::move(by_rank.front());
  return tape_.empty({in_bucket_}, options_.dtype, kJoin);
}

Tensor LowLevelZero::joined() {
  for (const std::size_t i : waiting_) {
    Parameter& p = parameters_[i];
    Tensor whole = p.slot.grad();
    if (p.elements != p.slot.elements()) whole = tape_.empty({p.elements}, options_.dtype, kPad);
    parts_.push_back(std::move(whole));
    tape_.set_grad(p.slot, {});
  }
  if (parts_.size() == 1 && options_.ranks == 1) return parts_.front();
  return tape_.empty({in_bucket_}, options_.dtype, kJoin);
}

void LowLevelZero::reduce() {
  if (waiting_.empty()) return;
  const ComponentScope component(tape_, Component::communication);
  Tensor flat = options_.clones_parts ? joined_by_parts() : joined();
  mul_in_place(flat);
  // The reduction runs on a stream of its own, which is told of the tensor.
  tape_.memory().record_stream(flat->storage->block, options_.reduce_stream);
  const StreamScope stream(tape_, options_.reduce_stream);
  Tensor reduced = flat;
  if (options_.stage >= 2) {
    const ComponentScope gradients(tape_, Component::gradients);
    reduced = tape_.empty({in_bucket_ / options_.ranks}, options_.dtype, kReceived);
  }
  if (options_.stage >= 2 && options_.clones_parts) join_list(tape_, in_bucket_, options_.dtype, options_.reduce_stream);
  if (tape_.wants_operations() && options_.ranks > 1)
    Work(tape_, options_.stage >= 2 ? OperationKind::reduce_scatter : OperationKind::all_reduce, kReceived)
        .in(flat)
        .out(reduced)
        .sizes({options_.ranks})
        .run();
  take(reduced);
  parts_.clear();
  waiting_.clear();
  in_bucket_ = 0;
}

/// What was reduced is kept where it lies, or added to what an earlier micro-batch left.
void LowLevelZero::take(const Tensor& reduced) {
  const GradMode no_grad(tape_, false);
  std::int64_t at = 0;
  for (const std::size_t i : waiting_) {
    Parameter& p = parameters_[i];
    const Tensor mine = tape_.alias(reduced, Shape{part(p)}, at);
    at += part(p);
    if (!p.gradient.defined())
      p.gradient = mine;
    else if (options_.clones_parts)
      later_.push_back(mine);
    else
      add_in_place(p.gradient, mine);
  }
}

// --- Step

void LowLevelZero::check_overflow() {
  const ComponentScope component(tape_, Component::temporaries);
  for (const Parameter& p : parameters_) {
    if (!p.gradient.defined()) continue;
    const Tensor wide = to(p.gradient, DType::fp32);
    const Tensor sum = tape::sum(wide);
  }
}

void LowLevelZero::widen_gradients() {
  const ComponentScope component(tape_, Component::gradients);
  for (Parameter& p : parameters_) {
    if (!p.gradient.defined()) continue;
    p.wide = tape_.empty({part(p)}, DType::fp32, kWide);
    if (!options_.offload) continue;
    const Tensor on_device = std::move(p.wide);
    p.wide = tape_.empty_host({part(p)}, DType::fp32, HostKind::pageable);
    if (tape_.wants_operations()) Work(tape_, OperationKind::device_to_host, kWide).in(on_device).out(p.wide).run();
  }
  for (const Parameter& p : parameters_)
    if (p.gradient.defined()) zero_norm(p.gradient);
}

void LowLevelZero::make_states(Parameter& p) {
  if (p.average.defined()) return;
  const ComponentScope component(tape_, Component::optimizer);
  for (Tensor* moment : {&p.average, &p.square_average})
    *moment = options_.offload ? tape_.empty_host({part(p)}, DType::fp32, HostKind::pageable)
                               : tape_.empty({part(p)}, DType::fp32, kState);
}

void LowLevelZero::create_states() {
  for (Parameter& p : parameters_) make_states(p);
}

void LowLevelZero::step(bool overflow) {
  const GradMode no_grad(tape_, false);
  if (options_.loss_scaling) check_overflow();
  if (!overflow) {
    widen_gradients();
    // The parts that were reduced go here, or with zero_grad after the step.
    if (options_.clones_parts) {
      for (Parameter& p : parameters_) p.gradient.reset();
      later_.clear();
    }
    for (Parameter& p : parameters_) {
      if (!p.wide.defined()) continue;
      make_states(p);
      if (tape_.wants_operations())
        adamw_work(tape_, options_.offload ? kHostStep : kStep, p.master, p.wide, p.average, p.square_average);
    }
    for (Parameter& p : parameters_) p.wide.reset();
    gather_weights();
  }
  for (Parameter& p : parameters_) p.gradient.reset();
  later_.clear();
}

/// Into the weights themselves, or by way of a tensor of every rank's parts.
void LowLevelZero::gather_weights() {
  const ComponentScope component(tape_, Component::communication);
  std::vector<Tensor> narrowed;
  std::int64_t elements = 0;
  for (Parameter& p : parameters_) {
    if (options_.clones_parts) {
      gather_one(p);
      continue;
    }
    Tensor on_device;
    if (options_.offload) on_device = tape_.empty({part(p)}, DType::fp32, kNarrow);
    Tensor mine = tape_.empty({part(p)}, options_.dtype, kNarrow);
    on_device.reset();
    if (part(p) > options_.bucket) continue;  // gathered in place
    if (elements + part(p) > options_.bucket) gather_bucket(narrowed, std::exchange(elements, 0));
    elements += part(p);
    narrowed.push_back(std::move(mine));
  }
  gather_bucket(narrowed, elements);
}

/// Releases up to 0.3: parameter by parameter, into a tensor a rank, joined in one, copied to the weight.
void LowLevelZero::gather_one(Parameter& p) {
  std::vector<Tensor> parts;
  for (std::int64_t rank = 0; rank < options_.ranks; ++rank)
    parts.push_back(tape_.empty({part(p)}, options_.dtype, kGather));
  Tensor on_device;
  if (options_.offload) on_device = tape_.empty({part(p)}, DType::fp32, kNarrow);
  Tensor mine = tape_.empty({part(p)}, options_.dtype, kNarrow);
  on_device.reset();
  join_list(tape_, p.elements, options_.dtype, options_.reduce_stream);
  mine.reset();
  Tensor joined = parts.front();
  if (options_.ranks > 1) joined = tape_.empty({p.elements}, options_.dtype, kJoin);
  if (!tape_.wants_operations()) return;
  if (options_.ranks > 1) Work(tape_, OperationKind::all_gather, kGather).out(joined).sizes({options_.ranks}).run();
  copy_in_place(p.slot, tape_.alias(joined, p.slot.shape()));
}

void LowLevelZero::gather_bucket(std::vector<Tensor>& narrowed, std::int64_t elements) {
  if (narrowed.empty()) return;
  Tensor flat = narrowed.front();
  if (narrowed.size() > 1) flat = tape_.empty({elements}, options_.dtype, kJoin);
  const Tensor all = tape_.empty({elements * options_.ranks}, options_.dtype, kGather);
  if (tape_.wants_operations() && options_.ranks > 1)
    Work(tape_, OperationKind::all_gather, kGather).in(flat).out(all).sizes({options_.ranks}).run();
  // Each weight's parts are joined once more, to be copied to it.
  for (const Tensor& part : narrowed)
    if (options_.ranks > 1) const Tensor whole = tape_.empty({part.elements() * options_.ranks}, options_.dtype, kJoin);
  narrowed.clear();
}

}  // namespace headroom::tape
