#include "simulator/tape/sharding/fsdp1.h"

#include <algorithm>
#include <numeric>
#include <string_view>

#include "simulator/memory/host_stream.h"
#include "simulator/tape/operations/copy.h"
#include "simulator/tape/operations/pointwise.h"
#include "simulator/tape/operations/work.h"

namespace headroom::tape {
namespace {

const std::uint16_t kFlat = operation_name("fsdp::flat_parameter"), kShard = operation_name("fsdp::shard"),
                    kLowPrecision = operation_name("fsdp::low_precision_shard"),
                    kToDevice = operation_name("fsdp::copy_to_device"),
                    kGather = operation_name("fsdp::all_gather_output"),
                    kSplit = operation_name("SplitWithSizesBackward0"),
                    kBroadcast = operation_name("fsdp::broadcast"),
                    kClone = operation_name("state_dict::clone"), kPart = operation_name("state_dict::shard"),
                    kSummon = operation_name("fsdp::summon_full_params"),
                    kPad = operation_name("fsdp::padded_gradient"),
                    kReduce = operation_name("fsdp::reduce_scatter_output"),
                    kGatherFlat = operation_name("fsdp1::all_gather"),
                    kReduceFlat = operation_name("fsdp1::reduce_scatter"),
                    kReshardOnly = operation_name("fsdp::post_backward_reshard_only");

constexpr int kRoot = -1;
constexpr std::size_t kMostInFlight = 2;
constexpr Bytes kBroadcastBucket = 250 * kMiB;
constexpr std::size_t kMostBroadcasts = 2;

/// Gradients of all views of a flat parameter become one flat gradient.
void split_backward(Node& node, std::span<Tensor> incoming, std::span<Tensor> outgoing) {
  Tape& tape = *node.tape;
  outgoing[0] = tape.empty(
      node.shape, tape.accumulator(Tensor::share(node.edges[0].node->leaf))->outputs[0].dtype, kSplit);
  if (tape.wants_operations()) {
    Work work(tape, OperationKind::copy, kSplit);
    for (const Tensor& gradient : incoming) work.in(gradient);
    work.out(outgoing[0]).run();
  }
}

}  // namespace

/// Units without trainable parameters are resharded when the gradients of their input are complete.
class Fsdp1::ReshardOnly : public Function {
 public:
  ReshardOnly(Fsdp1& runtime, int number) : runtime_(runtime), number_(number) {}
  void backward(Node&, std::span<Tensor> incoming, std::span<Tensor> outgoing) override {
    runtime_.reshard(runtime_.unit(number_));
    outgoing[0] = incoming[0];
  }

 private:
  Fsdp1& runtime_;
  int number_;
};

Fsdp1::Fsdp1(Model& model, Engine& engine, const ShardingOptions& options)
    : tape_(model.tape()), engine_(engine), model_(model), options_(options) {
  build_units(model);
  for (Unit& u : units_) shard_unit(u);
  for (Unit& u : units_)
    for (std::size_t f = 0; f < u.flats.size(); ++f) {
      Flat& flat = u.flats[f];
      if (!flat.trainable) continue;
      const int number = u.number;
      tape_.leaf_hooks(flat.full).accumulated.push_back(
          [this, number, f](const Tensor&) { reduce(unit(number), unit(number).flats[f]); });
    }
  viewed_ = alone();
  model.hooks = this;
}

void Fsdp1::build_units(Model& model) {
  units_.resize(options_.layers_wrapped ? static_cast<std::size_t>(model.decoder().layers) + 1 : 1);
  for (std::size_t i = 0; i + 1 < units_.size(); ++i) units_[i].number = static_cast<int>(i);
  units_.back().number = kRoot;
  std::size_t order = 0;
  for (const ParameterSlot& slot : model.parameters()) {
    const bool own = options_.layers_wrapped && slot.layer >= 0;
    Unit& target = own ? units_[static_cast<std::size_t>(slot.layer)] : units_.back();
    const bool trainable = slot.tensor->requires_grad();
    auto flat = std::find_if(target.flats.begin(), target.flats.end(),
                             [&](const Flat& f) { return f.trainable == trainable; });
    if (flat == target.flats.end() || (trainable && options_.leaves_wrapped)) {
      flat = target.flats.insert(target.flats.end(), Flat{});
      flat->trainable = trainable;
      // Their own modules gather adapters; whatever else trains is gathered with its layer.
      flat->leaf = own && trainable && options_.leaves_wrapped && slot.name.find(".lora_") != std::string::npos;
      if (flat->leaf)
        leaves_[slot.tensor] = {static_cast<std::size_t>(slot.layer),
                                static_cast<int>(flat - target.flats.begin())};
    }
    flat->views.push_back({.slot = slot.tensor,
                           .shape = slot.tensor->shape(),
                           .offset = flat->elements,
                           .order = order++});
    flat->elements += slot.tensor->elements();
  }
}

void Fsdp1::shard_unit(Unit& u) {
  for (Flat& flat : u.flats) {
    const DType stored = flat.views.front().slot->dtype();
    const ModuleScope module(tape_, (*flat.views.front().slot)->storage->label.module);
    const ComponentScope component(tape_, Component::weights);
    flat.padded = round_up(flat.elements, options_.ranks);
    std::vector<Tensor> moved;
    if (options_.built_on_host) {
      moved = options_.meta ? materialise(flat, stored) : brought(flat, stored);
      broadcast(flat, stored, u.number == kRoot);
    } else {
      for (const View& view : flat.views) moved.push_back(*view.slot);
    }
    for (View& view : flat.views) view.slot->reset();
    Tensor joined = tape_.empty({flat.elements}, stored, kFlat);
    flat.shard = alone() ? joined : tape_.empty({flat.padded / options_.ranks}, stored, kShard);
    joined.reset();
    if (options_.cpu_offload) {
      if (alone()) flat.viewed = flat.shard;
      flat.shard = to_host(flat.shard, HostKind::pinned);
    }
    while (!moved.empty()) moved.pop_back();
    flat.shard->requires_grad = flat.trainable;
    const ComponentScope gathered(tape_, Component::gathered_parameters);
    const Tensor nothing = tape_.empty({0}, options_.compute, kGather);
    flat.full = tape_.alias(nothing, Shape{flat.elements}, 0, false);
    flat.full->requires_grad = flat.trainable;
  }
}

std::string_view Fsdp1::module_of(const View& view) const {
  const std::string& name = model_.parameters()[view.order].name;
  return std::string_view(name).substr(0, name.rfind('.'));
}

/// The views as a search over modules meets them: a module's own parameters, then its children's.
std::vector<std::size_t> Fsdp1::breadth_first(const Flat& flat) const {
  const auto depth = [&](std::size_t view) {
    const std::string_view module = module_of(flat.views[view]);
    return std::count(module.begin(), module.end(), '.');
  };
  std::vector<std::size_t> order(flat.views.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return depth(a) < depth(b); });
  return order;
}

/// What was made on the host, parameter by parameter.
std::vector<Tensor> Fsdp1::brought(const Flat& flat, DType stored) {
  std::vector<Tensor> out(flat.views.size());
  for (const std::size_t view : breadth_first(flat))
    out[view] = tape_.empty(flat.views[view].shape, stored, kToDevice);
  return out;
}

/// `param_init_fn` on modules of shapes only. It empties the cache after each of them.
std::vector<Tensor> Fsdp1::materialise(const Flat& flat, DType stored) {
  std::vector<Tensor> out(flat.views.size());
  std::string_view module;
  for (const std::size_t view : breadth_first(flat)) {
    const std::string_view next = module_of(flat.views[view]);
    if (std::exchange(module, next) != next) tape_.memory().empty_cache();
    out[view] = tape_.empty(flat.views[view].shape, stored, kToDevice);
  }
  tape_.memory().empty_cache();
  return out;
}

/// The first rank's values come coalesced: tensors are joined in copies until one of them is full; two copies
/// are under way while the next one is made. The root's buffers come first, so its first tensor is joined too.
void Fsdp1::broadcast(const Flat& flat, DType stored, bool with_buffers) {
  const auto most = static_cast<std::int64_t>(kBroadcastBucket / element_size(stored));
  std::deque<Tensor> under_way;
  std::int64_t elements = 0, tensors = 0;
  for (const Tensor* buffer : model_.buffers()) {
    if (!with_buffers || !buffer->defined()) continue;
    elements += buffer->elements();
    ++tensors;
  }
  const auto close = [&] {
    if (tensors > 1) under_way.push_back(tape_.empty({elements}, stored, kBroadcast));
    if (under_way.size() > kMostBroadcasts) under_way.pop_front();
    elements = tensors = 0;
  };
  for (const View& view : flat.views) {
    elements += view.shape.elements();
    ++tensors;
    if (elements >= most) close();
  }
  close();
  while (!under_way.empty()) under_way.pop_front();
}

Fsdp1::Unit& Fsdp1::unit(int number) {
  return number == kRoot ? units_.back() : units_[static_cast<std::size_t>(number)];
}

// --- Gathering

/// First use of the model: what its units will use is made once and emptied, so its memory stays cached.
void Fsdp1::begin() {
  if (std::exchange(begun_, true)) return;
  const ComponentScope component(tape_, Component::communication);
  const auto touch = [&](const Unit& u) {
    for (const Flat& flat : u.flats) {
      const DType stored = flat.shard.dtype();
      const bool narrows = stored != options_.compute;
      if (narrows) const Tensor part = tape_.empty(flat.shard.shape(), options_.compute, kLowPrecision);
      if (alone()) continue;
      { const Tensor whole = tape_.empty({flat.padded}, options_.compute, kGather); }
      if (narrows) const Tensor wide = tape_.empty({flat.padded}, stored, kGather);
    }
  };
  touch(units_.back());
  for (const Unit& u : units_)
    if (u.number != kRoot) touch(u);
}

/// NO_SHARD: the parameter in the compute dtype, by way of a copy on the device when it lies on the host.
void Fsdp1::unshard_alone(Flat& flat) {
  const Tensor viewed = std::move(flat.viewed);  // modules look at it until they look at what comes here
  const bool narrows = flat.shard.dtype() != options_.compute;
  if (!narrows && !options_.cpu_offload) return;  // the parameter itself is used
  const StreamScope stream(tape_, static_cast<Stream>(options_.gather_stream + 1));
  tape_.regrow_storage(flat.full, bytes_of(options_.compute, flat.padded));
  if (narrows && options_.cpu_offload)
    const Tensor on_device = tape_.empty(flat.shard.shape(), flat.shard.dtype(), kToDevice);
}

/// This rank's part in the compute dtype, by way of a copy on the device when it lies on the host; undefined
/// where the part itself is gathered.
Tensor Fsdp1::low_precision_part(const Flat& flat) {
  const bool narrows = flat.shard.dtype() != options_.compute;
  if (!narrows && !options_.cpu_offload) return {};
  const StreamScope stream(tape_, static_cast<Stream>(options_.gather_stream + 1));
  Tensor part = tape_.empty(flat.shard.shape(), options_.compute, kLowPrecision);
  if (options_.cpu_offload && narrows)
    const Tensor on_device = tape_.empty(flat.shard.shape(), flat.shard.dtype(), kToDevice);
  return part;
}

/// `limited`: the host first waits for what was freed before the last two gathers.
void Fsdp1::gather(Flat& flat, bool gathered, bool limited) {
  const ComponentScope component(tape_, Component::communication);
  if (alone()) return unshard_alone(flat);
  const Tensor part = low_precision_part(flat);
  if (limited && frees_.size() >= kMostInFlight) {
    tape_.memory().wait_event(frees_.front());
    frees_.pop_front();
  }
  if (gathered) return;
  const StreamScope stream(tape_, options_.gather_stream);
  tape_.regrow_storage(flat.full, bytes_of(options_.compute, flat.padded));
  if (tape_.wants_operations())
    Work(tape_, OperationKind::all_gather, kGatherFlat).out(flat.full).sizes({options_.ranks}).run();
}

void Fsdp1::unshard(Unit& u) {
  // A part on the host comes to the device even where the unit is gathered already.
  const bool gathered = std::exchange(u.unsharded, true);
  if (gathered && (alone() || !options_.cpu_offload)) return;
  wait_for_frees();
  const std::uint16_t operation = tape_.operation();
  tape_.set_operation(0);
  bool first = true;
  for (Flat& flat : u.flats)
    if (!flat.leaf) gather(flat, gathered, std::exchange(first, false));
  tape_.set_operation(operation);
}

/// As the host is held back in time: leaves count among the two in flight.
void Fsdp1::wait_for_frees() {
  if (!leaves_.empty() && freed_ >= kMostInFlight) tape_.memory().wait_stream(kHostStream, kKept[freed_ % kMostInFlight]);
}

void Fsdp1::note_free() {
  if (!leaves_.empty()) tape_.memory().wait_stream(kKept[freed_++ % kMostInFlight], 0);
}

void Fsdp1::unshard_leaf(Flat& flat) {
  if (std::exchange(flat.unsharded, true)) return;
  wait_for_frees();
  const std::uint16_t operation = tape_.operation();
  tape_.set_operation(0);
  gather(flat, false, false);
  tape_.set_operation(operation);
}

void Fsdp1::make_views(Unit& u) {
  u.views_have_history = tape_.grad_enabled();
  for (Flat& flat : u.flats)
    if (!flat.leaf) make_views(flat);
}

void Fsdp1::make_views(Flat& flat) {
  const StreamScope stream(tape_, options_.gather_stream);
  Node* node = nullptr;
  if (tape_.grad_enabled() && flat.trainable) {
    node = tape_.node(kSplit, split_backward, {&flat.full});
    node->shape = flat.full.shape();
  }
  for (std::size_t i = 0; i < flat.views.size(); ++i) {
    View& view = flat.views[i];
    Tensor part = tape_.alias(flat.full, view.shape, view.offset);
    tape_.attach(part, node, static_cast<std::uint16_t>(i));
    *view.slot = std::move(part);
  }
}

void Fsdp1::reshard(Unit& u) {
  if (!u.unsharded) return;
  u.unsharded = false;
  for (Flat& flat : u.flats) {
    if (flat.leaf || flat.full->storage->block == kNoBlock) continue;
    tape_.memory().record_stream(flat.full->storage->block, 0);
    tape_.shrink_storage(flat.full);
  }
  frees_.push_back(tape_.memory().record_event(0));
  note_free();
}

void Fsdp1::reshard_leaf(Flat& flat) {
  if (!std::exchange(flat.unsharded, false) || flat.full->storage->block == kNoBlock) return;
  tape_.memory().record_stream(flat.full->storage->block, 0);
  tape_.shrink_storage(flat.full);
  note_free();
}

// --- Forward

void Fsdp1::before_forward(int number, Tensor& input) {
  if (!is_unit(number)) return;
  begin();
  viewed_ = false;
  Unit& u = unit(number);
  unshard(u);
  tape_.memory().wait_stream(0, options_.gather_stream);
  make_views(u);
  if (options_.forward_prefetch && number + 1 < static_cast<int>(units_.size()) - 1 && number != kRoot)
    unshard(unit(number + 1));
  const bool frozen = std::none_of(u.flats.begin(), u.flats.end(),
                                   [](const Flat& f) { return f.trainable && !f.leaf; });
  if (!frozen || number == kRoot || !input.defined() || !tape_.grad_enabled() || !input.requires_grad())
    return;
  Node* node = tape_.node(kReshardOnly, nullptr, {&input});
  node->function = std::make_unique<ReshardOnly>(*this, number);
  Tensor through = tape_.alias(input, input.shape(), 0, input->view);
  tape_.attach(through, node);
  input = std::move(through);
}

void Fsdp1::after_forward(int number, Tensor& output) {
  if (!is_unit(number)) return;
  Unit& u = unit(number);
  const bool backward_follows = output.defined() && output.requires_grad() && output->producer != nullptr;
  // Backward is expected to begin with the root, so it is left as it is, even where no backward follows.
  if (alone() || (number != kRoot && options_.reshard_after_forward)) reshard(u);
  if (!backward_follows) return;
  u.forward_order.push_back(post_forward_order_.size());
  register_backward(output, {static_cast<std::size_t>(&u - units_.data())});
}

void Fsdp1::register_backward(const Tensor& output, Place place) {
  post_forward_order_.push_back(place);
  Tape::hooks(*output->producer).before.push_back([this, place](std::span<Tensor>) {
    Unit& u = units_[place.unit];
    place.leaf < 0 ? before_backward(u) : before_backward(u.flats[static_cast<std::size_t>(place.leaf)]);
  });
}

Fsdp1::Flat* Fsdp1::leaf_of(const Tensor& parameter, Place& place) {
  const auto found = leaves_.find(&parameter);
  if (found == leaves_.end() || tape_.stopped()) return nullptr;
  place = found->second;
  return &units_[place.unit].flats[static_cast<std::size_t>(place.leaf)];
}

void Fsdp1::before_leaf(const Tensor& parameter) {
  Place place;
  Flat* leaf = leaf_of(parameter, place);
  if (leaf == nullptr) return;
  unshard_leaf(*leaf);
  tape_.memory().wait_stream(0, options_.gather_stream);
  make_views(*leaf);
}

void Fsdp1::after_leaf(const Tensor& parameter, Tensor& output) {
  Place place;
  Flat* leaf = leaf_of(parameter, place);
  if (leaf == nullptr) return;
  // What a checkpoint recomputes has no backward of its own, and a leaf whose backward has begun stays.
  if (callback_queued_) {
    if (leaf->forward_order.empty()) return;
    return reshard_leaf(*leaf);
  }
  if (alone() || options_.reshard_after_forward) reshard_leaf(*leaf);
  if (!output.requires_grad() || output->producer == nullptr) return;
  leaf->forward_order.push_back(post_forward_order_.size());
  register_backward(output, place);
}

// --- Backward

void Fsdp1::before_backward(Unit& u) {
  if (!callback_queued_) {
    callback_queued_ = true;
    engine_.queue_callback([this] { finish_backward(); });
  }
  unshard(u);
  tape_.memory().wait_stream(0, options_.gather_stream);
  // A pass without gradients came between, a reference's: what a checkpoint recomputes needs views with history.
  if (!u.views_have_history) {
    const GradMode with_history(tape_, true);
    make_views(u);
  }
  prefetch_before(u.forward_order);
}

void Fsdp1::before_backward(Flat& leaf) {
  if (!callback_queued_) {
    callback_queued_ = true;
    engine_.queue_callback([this] { finish_backward(); });
  }
  unshard_leaf(leaf);
  tape_.memory().wait_stream(0, options_.gather_stream);
  prefetch_before(leaf.forward_order);
}

/// BACKWARD_PRE: what comes next is gathered while this one runs.
void Fsdp1::prefetch_before(std::vector<std::size_t>& forward_order) {
  if (forward_order.empty()) return;
  const std::size_t at = forward_order.back();
  forward_order.pop_back();
  if (at == 0) return;
  const Place next = post_forward_order_[at - 1];
  Unit& u = units_[next.unit];
  next.leaf < 0 ? unshard(u) : unshard_leaf(u.flats[static_cast<std::size_t>(next.leaf)]);
}

void Fsdp1::reduce(Unit& u, Flat& flat) {
  const std::uint16_t operation = tape_.operation();
  tape_.set_operation(0);
  flat.leaf ? reshard_leaf(flat) : reshard(u);
  if (sync_) {
    const ComponentScope component(tape_, Component::communication);
    tape_.memory().wait_stream(options_.reduce_stream, 0);
    const StreamScope stream(tape_, options_.reduce_stream);
    const Tensor computed = flat.full.grad();
    tape_.set_grad(flat.full, {});
    Tensor gradient = computed;
    if (gradient.dtype() != options_.reduce)
      gradient = tape_.empty(computed.shape(), options_.reduce, kReduce);
    Tensor padded = gradient;
    if (flat.padded != flat.elements) padded = tape_.empty({flat.padded}, options_.reduce, kPad);
    Tensor part =
        options_.ranks == 1 ? padded : tape_.empty({flat.padded / options_.ranks}, options_.reduce, kReduce);
    if (tape_.wants_operations() && options_.ranks > 1)
      Work(tape_, OperationKind::reduce_scatter, kReduceFlat).in(padded).out(part).sizes({options_.ranks}).run();
    if (part.dtype() != flat.shard.dtype()) part = tape_.empty(part.shape(), flat.shard.dtype(), kReduce);
    if (options_.cpu_offload) part = to_host(part, HostKind::pinned);
    if (flat.shard->grad != nullptr)
      add_in_place(flat.shard.grad(), part);
    else
      tape_.set_grad(flat.shard, std::move(part));
    padded.reset();
    gradient.reset();
    tape_.memory().record_stream(computed->storage->block, options_.reduce_stream);
  }
  tape_.set_operation(operation);
}

void Fsdp1::finish_backward() {
  callback_queued_ = false;
  tape_.memory().wait_stream(0, options_.reduce_stream);
  for (Unit& u : units_) {
    reshard(u);
    u.forward_order.clear();
    for (Flat& flat : u.flats) {
      if (!flat.leaf) continue;
      reshard_leaf(flat);
      flat.forward_order.clear();
    }
  }
  post_forward_order_.clear();
}

void Fsdp1::end_pass() {
  if (!options_.root_stays_gathered) reshard(units_.back());
}

// --- State dicts

/// A clone of the parameter becomes a distributed tensor: this rank's part of it is copied. A part of one rank
/// is the clone.
StateTensor Fsdp1::part_of(const View& view, DType stored, bool on_host) {
  const ComponentScope component(tape_, Component::staging);
  Tensor part = tape_.empty(view.shape, stored, kClone);
  if (!alone()) {
    const Tensor clone = std::move(part);
    part = tape_.empty(shard_shape(view.shape, options_.ranks), stored, kPart);
  }
  if (on_host) part = to_host(part, HostKind::pageable);
  return {std::move(part), view.shape};
}

void Fsdp1::export_unit(Unit& u, bool to_host, std::vector<std::pair<std::size_t, StateTensor>>& out) {
  for (Flat& flat : u.flats) {
    flat.viewed.reset();
    for (const View& view : flat.views) out.emplace_back(view.order, part_of(view, flat.shard.dtype(), to_host));
  }
}

std::vector<StateTensor> Fsdp1::state_dict(bool to_host) {
  begin();
  std::vector<std::pair<std::size_t, StateTensor>> parts;
  const auto gathered = [&](const Unit& u) {
    const ComponentScope component(tape_, Component::staging);
    std::vector<Tensor> whole;
    if (!alone())
      for (const Flat& flat : u.flats) whole.push_back(tape_.empty({flat.padded}, flat.shard.dtype(), kGather));
    return whole;
  };
  Unit& root = units_.back();
  const std::vector<Tensor> held = gathered(root);
  for (Unit& u : units_) {
    if (u.number == kRoot) continue;
    const std::vector<Tensor> whole = gathered(u);
    export_unit(u, to_host, parts);
  }
  export_unit(root, to_host, parts);
  if (model_.decoder().tied_embeddings)  // a tied head comes again
    for (const Flat& flat : root.flats)
      for (const View& view : flat.views)
        if (view.slot == &model_.head_table())
          parts.emplace_back(parts.size(), part_of(view, flat.shard.dtype(), to_host));
  viewed_ = alone();
  std::stable_sort(parts.begin(), parts.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<StateTensor> out;
  for (auto& [order, part] : parts) out.push_back(std::move(part));
  return out;
}

void Fsdp1::summon_adapters(bool layer_by_layer) {
  begin();
  const ComponentScope component(tape_, Component::staging);
  std::vector<Tensor> whole;
  std::vector<std::pair<std::size_t, StateTensor>> parts;
  const auto gather = [&](const Unit& u) {
    if (alone()) return;
    for (const Flat& flat : u.flats)
      whole.push_back(tape_.empty({flat.padded}, flat.shard.dtype(), kSummon));
  };
  const auto let_go = [&] {
    while (!parts.empty()) parts.pop_back();
    while (!whole.empty()) whole.pop_back();
  };
  if (!layer_by_layer) gather(units_.back());
  if (!layer_by_layer)
    for (const Unit& u : units_)
      if (u.number != kRoot) gather(u);
  for (Unit& u : units_) {
    if (u.number == kRoot) continue;
    if (layer_by_layer) gather(u);
    export_unit(u, false, parts);
    if (layer_by_layer) let_go();
  }
  let_go();
  // Leaves' modules look at the stored parameters again, until they are gathered for use.
  for (Unit& u : units_)
    for (Flat& flat : u.flats)
      if (flat.leaf)
        for (View& view : flat.views) view.slot->reset();
  tape_.memory().empty_cache();
}

// --- Shards

/// As FSDP lists its flat parameters: the outermost module's, which is the root's, comes first.
void Fsdp1::root_first(const std::function<void(Flat&)>& visit) {
  for (Flat& flat : units_.back().flats) visit(flat);
  for (Unit& u : units_)
    if (u.number != kRoot)
      for (Flat& flat : u.flats) visit(flat);
}

std::vector<Tensor> Fsdp1::shards() {
  std::vector<Tensor> out;
  root_first([&](const Flat& flat) {
    if (flat.trainable) out.push_back(flat.shard);
  });
  return out;
}

void Fsdp1::offload(HostKind kind) {
  const ComponentScope component(tape_, Component::weights);
  root_first([&](Flat& flat) {
    if (flat.shard->storage->device != Device::gpu) return;
    const ModuleScope module(tape_, flat.shard->storage->label.module);
    if (viewed_) flat.viewed = tape_.alias(flat.shard, flat.shard.shape());
    tape_.set_data(flat.shard, to_host(flat.shard, kind));
  });
}

void Fsdp1::load() {
  if (options_.cpu_offload) return;
  const ComponentScope component(tape_, Component::weights);
  root_first([&](Flat& flat) {
    if (flat.shard->storage->device == Device::gpu) return;
    const ModuleScope module(tape_, flat.shard->storage->label.module);
    tape_.set_data(flat.shard, to_device(flat.shard));
  });
}

}  // namespace headroom::tape
