#include "simulator/tape/sharding/zero_coordinator.h"

#include <algorithm>

#include "simulator/tape/operations/work.h"

namespace headroom::tape {
namespace {

const std::uint16_t kGather = operation_name("zero3::all_gather"),
                    kJoint = operation_name("zero3::all_gather_coalesced"),
                    kWhole = operation_name("zero3::replicated_parameter"),
                    kCompare = operation_name("zero3::assert_same_as_other_ranks"),
                    kReleased = operation_name("zero3::released"),
                    kBefore = operation_name("PreBackwardFunctionForModuleBackward"),
                    kAfter = operation_name("PostBackwardFunctionModuleBackward");

/// Keys of decoder layers, which have no parameters of their own but count as modules.
constexpr std::uint32_t kLayerKey = 0x8000'0000;

const std::vector<std::size_t> kNone;

}  // namespace

/// The gradient of a module's output is complete: its parameters are needed.
class ZeroCoordinator::BeforeBackward : public Function {
 public:
  BeforeBackward(ZeroCoordinator& owner, std::uint32_t key) : owner_(owner), key_(key) {}
  void backward(Node& node, std::span<Tensor> incoming, std::span<Tensor> outgoing) override {
    node.tape->set_operation(0);
    owner_.enter(key_);
    outgoing[0] = incoming[0];
  }

 private:
  ZeroCoordinator& owner_;
  std::uint32_t key_;
};

/// The gradient of a module's input is complete, and so are those of its weights.
class ZeroCoordinator::AfterBackward : public Function {
 public:
  AfterBackward(ZeroCoordinator& owner, std::uint32_t key) : owner_(owner), key_(key) {}
  void backward(Node& node, std::span<Tensor> incoming, std::span<Tensor> outgoing) override {
    node.tape->set_operation(0);
    if (--owner_.gradients_left_[key_] == 0) owner_.leave(key_);
    outgoing[0] = incoming[0];
  }

 private:
  ZeroCoordinator& owner_;
  std::uint32_t key_;
};

ZeroCoordinator::ZeroCoordinator(Model& model, const ZeroOptions& options)
    : tape_(model.tape()),
      options_(options),
      // Reward models are called by a method of their own, around their root's hooks.
      root_is_called_(model.options().head == HeadKind::language_model) {
  std::map<const Tensor*, std::size_t> places;
  for (const ParameterSlot& slot : model.parameters()) {
    Parameter& p = parameters_.emplace_back();
    p.tensor = *slot.tensor;
    p.shape = p.tensor.shape();
    p.elements = p.tensor.elements();
    p.part = ceil_div(p.elements, options.ranks);
    p.persistent = p.elements <= options.persistence_threshold;
    const std::size_t place = parameters_.size() - 1;
    places[slot.tensor] = place;
    p.owner = model.intern(slot.name.substr(0, slot.name.rfind('.')));
    modules_[p.owner].push_back(place);
  }
  if (model.options().head != HeadKind::language_model) return;
  // A tied head is a module with the embedding's table.
  const auto table = std::find_if(places.begin(), places.end(), [&](const auto& entry) {
    return entry.first->record() == model.head_table().record();
  });
  std::vector<std::size_t>& head = modules_[model.intern("lm_head")];
  if (head.empty() && table != places.end()) head.push_back(table->second);
}

const std::vector<std::size_t>& ZeroCoordinator::own(std::uint32_t key) const {
  const auto found = modules_.find(key);
  return found == modules_.end() ? kNone : found->second;
}

void ZeroCoordinator::release(Parameter& p) {
  const Tensor nothing = tape_.empty({0}, p.tensor.dtype(), kReleased);
  tape_.set_data(p.tensor, tape_.alias(nothing, p.shape));
  p.available = false;
}

std::vector<std::vector<std::size_t>> ZeroCoordinator::by_module() const {
  std::vector<std::vector<std::size_t>> out;
  for (const auto& [module, parameters] : modules_)
    if (!parameters.empty() && parameters_[parameters.front()].owner == module) out.push_back(parameters);
  std::sort(out.begin(), out.end());
  return out;
}

// --- The trace

void ZeroCoordinator::begin_forward() {
  drop_in_flight();
  if (trace_ != Trace::complete) compare_ranks(static_cast<std::int64_t>(order_.size()));
  if (trace_ == Trace::recording) {
    std::int64_t uses = 0;
    for (const std::uint32_t key : order_) uses += static_cast<std::int64_t>(own(key).size());
    compare_ranks(uses);
    compare_ranks(uses);
    trace_ = Trace::complete;
  } else if (trace_ == Trace::invalid) {
    trace_ = Trace::recording;
  }
  queue_.clear();
  if (trace_ == Trace::complete)
    for (std::size_t step = 0; step < order_.size(); ++step)
      for (const std::size_t parameter : own(order_[step]))
        queue_.push_back({.parameter = parameter, .step = static_cast<int>(step)});
  for (Parameter& p : parameters_) p.last_use = -1;
  step_ = 0;
}

void ZeroCoordinator::compare_ranks(std::int64_t numbers) {
  const ComponentScope component(tape_, Component::temporaries);
  const Tensor list = tape_.empty({numbers}, DType::int64, kCompare);
}

void ZeroCoordinator::forget() {
  trace_ = Trace::invalid;
  order_.clear();
  queue_.clear();
  drop_in_flight();
}

void ZeroCoordinator::drop_in_flight() {
  while (!in_flight_.empty()) {
    const std::size_t parameter = in_flight_.begin()->first;
    wait(parameter);
    release(parameters_[parameter]);
    available_elements_ -= parameters_[parameter].elements;
  }
}

void ZeroCoordinator::enter(std::uint32_t key) {
  if (trace_ == Trace::complete &&
      (static_cast<std::size_t>(step_) >= order_.size() || order_[static_cast<std::size_t>(step_)] != key))
    forget();
  if (trace_ == Trace::recording) order_.push_back(key);
  fetch(key);
}

// --- Gathering

void ZeroCoordinator::fetch(std::uint32_t key) {
  const std::vector<std::size_t>& needed = own(key);
  std::vector<std::size_t> missing;
  for (const std::size_t i : needed)
    if (!parameters_[i].available && !in_flight_.contains(i)) missing.push_back(i);
  if (!missing.empty()) gather(missing);
  for (const std::size_t i : needed) {
    parameters_[i].active.insert(key);
    wait(i);
  }
  if (trace_ == Trace::complete) prefetch(needed);
  ++step_;
}

/// Takes what the module needs off the queue, then gathers what comes next.
void ZeroCoordinator::prefetch(const std::vector<std::size_t>& needed) {
  std::size_t discard = 0;
  for (const std::size_t i : needed) discard += parameters_[i].last_use < step_;
  for (; discard > 0 && !queue_.empty(); --discard) {
    parameters_[queue_.front().parameter].last_use = queue_.front().step;
    queue_.pop_front();
  }
  const std::int64_t most =
      std::min(options_.max_live_parameters - available_elements_, options_.prefetch_bucket);
  std::vector<std::size_t> ahead;
  std::int64_t elements = 0;
  while (!queue_.empty() && elements < most) {
    const Queued next = queue_.front();
    queue_.pop_front();
    Parameter& p = parameters_[next.parameter];
    p.last_use = std::max(p.last_use, next.step);
    const bool there = p.available || in_flight_.contains(next.parameter) ||
                       std::find(ahead.begin(), ahead.end(), next.parameter) != ahead.end();
    if (there) continue;
    ahead.push_back(next.parameter);
    elements += p.elements;
  }
  if (!ahead.empty()) gather(ahead);
}

void ZeroCoordinator::gather(const std::vector<std::size_t>& wanted) {
  const StreamScope stream(tape_, options_.gather_stream);
  const ComponentScope component(tape_, Component::gathered_parameters);
  auto made = std::make_shared<Gather>();
  made->parameters = wanted;
  std::sort(made->parameters.begin(), made->parameters.end());
  std::int64_t parts = 0;
  for (const std::size_t i : made->parameters) {
    parts += parameters_[i].part;
    available_elements_ += parameters_[i].elements;
    in_flight_[i] = made;
  }
  if (options_.ranks == 1) {
    for (const std::size_t i : made->parameters) take_own(parameters_[i]);
    made->split = true;
    return;
  }
  made->joint = tape_.empty({parts * options_.ranks}, options_.dtype, wanted.size() == 1 ? kGather : kJoint);
  std::vector<Tensor> visiting;
  for (const std::size_t i : made->parameters)
    if (parameters_[i].on_host) visiting.push_back(from_host(parameters_[i]));
  if (tape_.wants_operations())
    Work(tape_, OperationKind::all_gather, kGather).out(made->joint).sizes({options_.ranks}).run();
  // A part alone is what the collective reads, and it keeps what it reads; several were copied together.
  if (wanted.size() == 1 && !visiting.empty()) made->visiting = std::move(visiting.front());
}

Tensor ZeroCoordinator::from_host(const Parameter& p) {
  Tensor visiting = tape_.empty({p.part}, options_.dtype, kGather);
  if (tape_.wants_operations())
    Work(tape_, OperationKind::host_to_device, kGather).in(p.partition).out(visiting).run();
  return visiting;
}

void ZeroCoordinator::take_own(Parameter& p) {
  tape_.set_data(p.tensor, tape_.alias(p.on_host ? from_host(p) : p.partition, p.shape));
}

/// One parameter alone becomes what was gathered; several are copied out when the first is waited for.
void ZeroCoordinator::wait(std::size_t parameter) {
  const auto found = in_flight_.find(parameter);
  if (found == in_flight_.end()) return;
  tape_.memory().wait_stream(0, options_.gather_stream);
  const std::shared_ptr<Gather> gathered = found->second;
  if (!gathered->split) {
    gathered->split = true;
    gathered->visiting.reset();
    const StreamScope stream(tape_, options_.gather_stream);
    const ComponentScope component(tape_, Component::gathered_parameters);
    const bool alone = gathered->parameters.size() == 1;
    for (const std::size_t i : gathered->parameters) {
      Parameter& p = parameters_[i];
      const Tensor whole = alone ? gathered->joint : tape_.empty({p.elements}, options_.dtype, kGather);
      tape_.set_data(p.tensor, tape_.alias(whole, p.shape));
      p.available = true;
    }
    if (alone) gathered->joint.reset();
  }
  parameters_[parameter].available = true;
  in_flight_.erase(found);
}

// --- Releasing

const std::vector<std::size_t>& ZeroCoordinator::releasable(std::uint32_t key) {
  const std::vector<std::size_t>& used = own(key);
  if (trace_ != Trace::complete) return used;
  const auto [place, fresh] = releasable_.try_emplace({key, step_});
  std::vector<std::size_t>& out = place->second;
  if (!fresh) return out;
  for (const std::size_t i : used)
    if (!parameters_[i].persistent && parameters_[i].last_use <= step_) out.push_back(i);
  std::int64_t passed = 0;
  for (std::size_t at = static_cast<std::size_t>(step_); at < order_.size(); ++at) {
    if (passed >= options_.max_reuse_distance) break;
    for (const std::size_t i : own(order_[at])) {
      std::erase(out, i);
      passed += parameters_[i].elements;
    }
  }
  return out;
}

void ZeroCoordinator::leave(std::uint32_t key) {
  const std::vector<std::size_t>& out = releasable(key);
  for (const std::size_t i : own(key)) {
    Parameter& p = parameters_[i];
    p.active.erase(key);
    if (!p.available || !p.active.empty() || std::find(out.begin(), out.end(), i) == out.end()) continue;
    release(p);
    available_elements_ -= p.elements;
  }
}

void ZeroCoordinator::release_all() {
  drop_in_flight();
  for (Parameter& p : parameters_) {
    p.active.clear();
    if (p.available) release(p);
  }
  available_elements_ = 0;
}

void ZeroCoordinator::gather_persistent() {
  std::vector<std::size_t> persistent;
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    if (parameters_[i].persistent) persistent.push_back(i);
  if (persistent.size() == 1)
    gather_now(persistent.front());
  else
    gather_now(persistent);
}

void ZeroCoordinator::gather_now(std::size_t parameter) {
  const ComponentScope component(tape_, Component::gathered_parameters);
  Parameter& p = parameters_[parameter];
  const Tensor gathered = tape_.empty({p.part * options_.ranks}, options_.dtype, kGather);
  if (options_.gathers_in_place) {
    const Tensor own = p.on_host ? from_host(p) : p.partition;
    if (tape_.wants_operations())
      Work(tape_, OperationKind::all_gather, kGather).in(own).out(gathered).sizes({options_.ranks}).run();
    tape_.set_data(p.tensor, tape_.alias(gathered, p.shape));
    p.available = true;
    return;
  }
  if (tape_.wants_operations()) {
    const Tensor own = tape_.alias(gathered, Shape{p.part}, options_.rank * p.part);
    if (p.on_host) Work(tape_, OperationKind::host_to_device, kGather).in(p.partition).out(own).run();
    Work(tape_, OperationKind::all_gather, kGather)
        .in(p.on_host ? own : p.partition)
        .out(gathered)
        .sizes({options_.ranks})
        .run();
  }
  tape_.set_data(p.tensor, tape_.alias(tape_.empty({p.elements}, options_.dtype, kWhole), p.shape));
  p.available = true;
}

void ZeroCoordinator::gather_now(const std::vector<std::size_t>& wanted) {
  const ComponentScope component(tape_, Component::gathered_parameters);
  std::vector<Tensor> parts, gathered;
  if (options_.ranks > 1) {
    for (const std::size_t i : wanted)
      parts.push_back(parameters_[i].on_host ? from_host(parameters_[i]) : parameters_[i].partition);
    for (const std::size_t i : wanted)
      gathered.push_back(tape_.empty({parameters_[i].part * options_.ranks}, options_.dtype, kGather));
  }
  for (std::size_t n = 0; n < wanted.size(); ++n) {
    Parameter& p = parameters_[wanted[n]];
    p.available = true;
    if (options_.ranks == 1) {
      take_own(p);
      continue;
    }
    if (tape_.wants_operations())
      Work(tape_, OperationKind::all_gather, kGather)
          .in(parts[n])
          .out(gathered[n])
          .sizes({options_.ranks})
          .run();
    tape_.set_data(p.tensor, tape_.alias(gathered[n], p.shape));
  }
}

// --- Hooks

void ZeroCoordinator::run_module(std::uint32_t key, Tensor& input) {
  if (tape_.stopped()) return;
  enter(key);
  if (!input.defined() || !tape_.grad_enabled() || !input.requires_grad()) return;
  ++gradients_left_[key];
  Node* node = tape_.node(kAfter, nullptr, {&input});
  node->function = std::make_unique<AfterBackward>(*this, key);
  Tensor through = tape_.alias(input, input.shape(), 0, input->view);
  tape_.attach(through, node);
  input = std::move(through);
}

void ZeroCoordinator::leave_module(std::uint32_t key, Tensor& output) {
  if (tape_.stopped()) return;
  leave(key);
  if (!output.defined() || !tape_.grad_enabled() || !output.requires_grad()) return;
  Node* node = tape_.node(kBefore, nullptr, {&output});
  node->function = std::make_unique<BeforeBackward>(*this, key);
  Tensor through = tape_.alias(output, output.shape(), 0, output->view);
  tape_.attach(through, node);
  output = std::move(through);
}

void ZeroCoordinator::enter_container(std::uint32_t module) {
  if (!tape_.stopped()) enter(module);
}
void ZeroCoordinator::leave_container(std::uint32_t module) {
  if (!tape_.stopped()) leave(module);
}

void ZeroCoordinator::before_module(std::uint32_t module, Tensor& input) {
  run_module(module, input);
}
void ZeroCoordinator::after_module(std::uint32_t module, Tensor& output) {
  leave_module(module, output);
}

void ZeroCoordinator::before_forward(int unit, Tensor& input) {
  if (is_table(unit)) return;
  if (unit >= 0) {
    run_module(kLayerKey + static_cast<std::uint32_t>(unit), input);
  } else if (root_is_called_) {
    begin_forward();
    Tensor none;
    run_module(kLayerKey - 1, none);
  }
}

void ZeroCoordinator::after_forward(int unit, Tensor& output) {
  if (unit >= 0) leave_module(kLayerKey + static_cast<std::uint32_t>(unit), output);
}

}  // namespace headroom::tape
