#include "simulator/tape/sharding/zero_unsharded.h"

#include <algorithm>
#include <utility>

#include "simulator/tape/operations/copy.h"
#include "simulator/tape/operations/pointwise.h"
#include "simulator/tape/operations/reduce.h"
#include "simulator/tape/operations/work.h"
#include "simulator/tape/optimizers/adamw_work.h"

namespace headroom::tape {
namespace {

const std::uint16_t kFlat = operation_name("deepspeed::flat_parameters"),
                    kClone = operation_name("aten::clone"),
                    kMaster = operation_name("deepspeed::fp32_parameters"),
                    kWide = operation_name("deepspeed::fp32_gradients"),
                    kJoin = operation_name("deepspeed::flatten_gradients"),
                    kState = operation_name("adamw_state"), kStep = operation_name("aten::_fused_adamw_"),
                    kFlag = operation_name("fused_adam::overflow_buffer"),
                    kNorm = operation_name("aten::linalg_vector_norm"), kSum = operation_name("aten::sum"),
                    kWiden = operation_name("aten::to"),
                    kClip = operation_name("deepspeed::clip_by_global_norm");

/// Elements that one all-reduce of gradients collects before it starts.
constexpr std::int64_t kReduceElements = 500'000'000;

}  // namespace

ZeroUnsharded::ZeroUnsharded(Model& model, Engine& engine, const ZeroOptions& options)
    : model_(model), tape_(model.tape()), engine_(engine), options_(options) {
  const ComponentScope component(tape_, Component::temporaries);
  if (options.trained) overflow_buffer_ = tape_.empty({1}, DType::int32, kFlag);
  zero_to_device(model);
  if (options.communicator_made) options.communicator_made();
  if (!options.trained) return;
  for (std::vector<ZeroParameter>& parameters : zero_groups(model, options.adapters_apart)) {
    Group& group = groups_.emplace_back();
    group.parameters = std::move(parameters);
    for (const ZeroParameter& p : group.parameters) group.elements += p.elements;
    group.partition = group.elements;
  }
  whole_states() ? build_whole() : build_spread();
}

void ZeroUnsharded::build_whole() {
  for (Group& group : groups_) {
    {
      const ComponentScope component(tape_, Component::weights);
      std::vector<Tensor> clones;
      for (const ZeroParameter& p : group.parameters)
        clones.push_back(tape_.empty({p.elements}, options_.dtype, kClone));
      group.flat = tape_.empty({group.elements}, options_.dtype, kFlat);
      for (Tensor& copy : clones) copy.reset();
      for (const ZeroParameter& p : group.parameters)
        tape_.set_data(*p.slot, tape_.alias(group.flat, p.slot->shape(), p.start));
    }
    const ComponentScope component(tape_, Component::master_weights);
    const Tensor copy = tape_.empty({group.elements}, options_.dtype, kClone);
    group.master = tape_.empty({group.elements}, DType::fp32, kMaster);
  }
  // A first step with zero gradients makes the states.
  for (Group& group : groups_) {
    const ComponentScope component(tape_, Component::gradients);
    group.gradient = tape_.empty({group.elements}, DType::fp32, kWide);
  }
  for (Group& group : groups_) make_states(group);
  for (Group& group : groups_) group.gradient.reset();
}

void ZeroUnsharded::build_spread() {
  for (Group& group : groups_) {
    group.elements = ceil_div(group.elements, 2 * options_.ranks) * 2 * options_.ranks;
    group.partition = group.elements / options_.ranks;
    {
      const ComponentScope component(tape_, Component::weights);
      group.flat = tape_.empty({group.elements}, options_.dtype, kFlat);
      for (const ZeroParameter& p : group.parameters)
        tape_.set_data(*p.slot, tape_.alias(group.flat, p.slot->shape(), p.start));
    }
    {
      const ComponentScope component(tape_, Component::master_weights);
      const Tensor copy = tape_.empty({group.partition}, options_.dtype, kClone);
      group.master = tape_.empty({group.partition}, DType::fp32, kMaster);
    }
    const ComponentScope component(tape_, Component::gradients);
    group.gradient = tape_.empty({group.elements}, DType::fp32, kWide);
  }
}

void ZeroUnsharded::make_states(Group& group) {
  if (group.average.defined()) return;
  const ComponentScope component(tape_, Component::optimizer);
  group.average = tape_.empty({group.partition}, DType::fp32, kState);
  group.square_average = tape_.empty({group.partition}, DType::fp32, kState);
}

void ZeroUnsharded::create_states() {
  for (Group& group : groups_) make_states(group);
}

void ZeroUnsharded::move_states(bool) {}  // DeepSpeed has no such thing without sharded states

// --- Backward

std::vector<Tensor> ZeroUnsharded::gradients_in_order() const {
  std::vector<Tensor> out;
  for (const ParameterSlot& slot : model_.parameters())
    if ((*slot.tensor)->grad != nullptr) out.push_back(slot.tensor->grad());
  return out;
}

void ZeroUnsharded::backward(const Tensor& loss, bool last) {
  const ComponentScope component(tape_, Component::temporaries);
  if (!whole_states()) {
    // Nothing to scale: autograd starts from the loss itself.
    logged_loss_ = zero_logged_loss(loss);
    for (const ParameterSlot& slot : model_.parameters()) tape_.set_grad(*slot.tensor, {});
    tape::backward(engine_, loss);
    accumulate_wide();
    if (last) reduce_wide();
    return;
  }
  Tensor start = options_.loss_scaling ? zero_scaled_loss(to(loss, DType::fp32), logged_loss_) : loss;
  if (!options_.loss_scaling) logged_loss_ = zero_logged_loss(loss);
  tape::backward(engine_, start);
  start.reset();
  if (last) reduce_all();
}

void ZeroUnsharded::reduce_all() {
  const ComponentScope component(tape_, Component::communication);
  std::int64_t elements = 0, count = 0;
  const auto flush = [&] {
    if (count > 1) {
      const Tensor joined = tape_.empty({elements}, options_.dtype, kJoin);
      if (tape_.wants_operations())
        Work(tape_, OperationKind::all_reduce, kJoin).out(joined).sizes({options_.ranks}).run();
    }
    elements = count = 0;
  };
  for (const Tensor& gradient : gradients_in_order()) {
    elements += gradient.elements();
    ++count;
    if (elements > kReduceElements) flush();
  }
  flush();
}

/// Every gradient is added to its place in fp32.
void ZeroUnsharded::accumulate_wide() {
  const ComponentScope component(tape_, Component::temporaries);
  for (const Group& group : groups_)
    for (const ZeroParameter& p : group.parameters)
      if ((*p.slot)->grad != nullptr) const Tensor wide = tape_.empty({p.elements}, DType::fp32, kWiden);
}

/// The flat gradients are reduced in the model's dtype.
void ZeroUnsharded::reduce_wide() {
  const ComponentScope communication(tape_, Component::communication);
  std::int64_t elements = 0, count = 0;
  const auto flush = [&] {
    Tensor joined;
    if (count > 1) joined = tape_.empty({elements}, DType::fp32, kJoin);
    if (count > 0) const Tensor cast = tape_.empty({elements}, options_.dtype, kJoin);
    elements = count = 0;
  };
  for (const Group& group : groups_) {
    elements += group.elements;
    ++count;
    if (elements > kReduceElements) flush();
  }
  flush();
}

// --- Step

void ZeroUnsharded::step(bool overflow) {
  const GradMode no_grad(tape_, false);
  const Tensor logged = std::exchange(logged_loss_, {});  // goes with the step
  const ComponentScope component(tape_, Component::temporaries);
  whole_states() ? step_whole(overflow) : step_spread();
}

void ZeroUnsharded::step_whole(bool overflow) {
  for (const Tensor& gradient : gradients_in_order()) {
    const Tensor flat = tape_.alias(gradient, Shape{gradient.elements()});
    Tensor wide = elementwise(kWiden, DType::fp32, {&flat});
    const Tensor total = reduce(kSum, DType::fp32, 4, std::move(wide), 1u, false);
    if (overflow) break;  // the first infinity ends the search
  }
  { const Tensor found = tape_.empty({1}, DType::uint8, kNorm); }
  if (overflow) {
    for (const ParameterSlot& slot : model_.parameters()) tape_.set_grad(*slot.tensor, {});
    return;
  }
  for (Group& group : groups_) {
    const ComponentScope component(tape_, Component::gradients);
    std::vector<Tensor> wide;
    for (const ZeroParameter& p : group.parameters)
      wide.push_back(tape_.empty({p.elements}, DType::fp32, kWiden));
    group.gradient = tape_.empty({group.elements}, DType::fp32, kWide);
    while (!wide.empty()) wide.pop_back();
    for (const ZeroParameter& p : group.parameters) tape_.set_grad(*p.slot, {});
  }
  for (Group& group : groups_) {
    const Tensor norm = reduce(kNorm, DType::fp32, 4, group.gradient, 1u, false);
  }
  { const Tensor total = tape_.empty({1}, DType::fp32, kNorm); }
  if (tape_.wants_operations())
    for (Group& group : groups_) {
      adamw_work(tape_, kStep, group.master, group.gradient, group.average, group.square_average);
      copy_in_place(group.flat, group.master);
    }
  for (Group& group : groups_) group.gradient.reset();
}

void ZeroUnsharded::step_spread() {
  const auto number = [this](DType dtype = DType::fp32) { return tape_.empty({}, dtype, kNorm); };
  std::vector<Tensor> gradients;  // in fp32, each parameter's place in the flat ones
  for (const Group& group : groups_)
    for (const ZeroParameter& p : group.parameters)
      gradients.push_back(tape_.alias(group.gradient, Shape{p.elements}, p.start));
  if (norms_.size() != gradients.size()) {
    norms_.clear();
    for (std::size_t i = 0; i < gradients.size(); ++i) norms_.push_back(number());
  }
  for (const Tensor& gradient : gradients) {
    const Tensor norm = reduce(kNorm, DType::fp32, 4, gradient, 1u, false);
    const Tensor square = number();
  }
  {
    Tensor norm = number();
    Tensor infinite = zero_infinite(norm);
    Tensor nan = number(DType::boolean), either = number(DType::boolean);
    drop(nan, infinite, either);
    global_norm_ = std::move(norm);
  }
  { const Tensor positive = number(DType::boolean); }
  clip_wide();
  for (Group& group : groups_) {
    make_states(group);
    if (!tape_.wants_operations()) continue;
    const Tensor own = tape_.alias(group.gradient, Shape{group.partition}, options_.rank * group.partition);
    adamw_work(tape_, kStep, group.master, own, group.average, group.square_average);
    copy_in_place(group.flat, group.master);
    Work(tape_, OperationKind::all_gather, kFlat).out(group.flat).sizes({options_.ranks}).run();
  }
}

/// limit / (norm + tiny): gradients shrink in place where that is below 1.
void ZeroUnsharded::clip_wide() {
  const auto number = [this](DType dtype = DType::fp32) { return tape_.empty({}, dtype, kClip); };
  Tensor sum = number();
  Tensor inverse = number();
  sum.reset();
  const Tensor factor = number();
  inverse.reset();
  const Tensor smaller = number(DType::boolean);
}

}  // namespace headroom::tape
