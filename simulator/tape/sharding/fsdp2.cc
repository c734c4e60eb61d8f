#include "simulator/tape/sharding/fsdp2.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "simulator/tape/operations/copy.h"
#include "simulator/tape/operations/pointwise.h"
#include "simulator/tape/operations/work.h"

namespace headroom::tape {
namespace {

const std::uint16_t kShard = operation_name("fsdp::shard"),
                    kGatherIn = operation_name("fsdp::all_gather_input"),
                    kGatherOut = operation_name("fsdp::all_gather_output"),
                    kFull = operation_name("fsdp::unsharded_parameter"),
                    kCopyOut = operation_name("fsdp::split_with_sizes_copy"),
                    kReduceIn = operation_name("fsdp::reduce_scatter_input"),
                    kCopyIn = operation_name("fsdp::chunk_cat"),
                    kReduceOut = operation_name("fsdp::reduce_scatter_output"),
                    kFakeContext = operation_name("init_gpu_context"),
                    kToDevice = operation_name("fsdp::copy_to_device"),
                    kToHost = operation_name("fsdp::copy_to_host"),
                    kPostBackward = operation_name("RegisterPostBackwardFunctionBackward");

constexpr int kRoot = -1;

}  // namespace

/// Passes gradients of a unit's input through and reduces the unit's gradients when they are complete.
class Fsdp2::PostBackward : public Function {
 public:
  PostBackward(Fsdp2& runtime, int unit) : runtime_(runtime), unit_(unit) {}
  void backward(Node&, std::span<Tensor> incoming, std::span<Tensor> outgoing) override {
    runtime_.after_backward(runtime_.group(unit_));
    outgoing[0] = incoming[0];
  }

 private:
  Fsdp2& runtime_;
  int unit_;
};

Fsdp2::Fsdp2(Model& model, Engine& engine, const ShardingOptions& options)
    : tape_(model.tape()), engine_(engine), model_(model), options_(options) {
  build_groups(model);
  describe_groups(model);
  for (std::vector<Group>* groups : {&experts_, &groups_})
    for (Group& g : *groups) shard_group(g);
  if (options_.loads_into_meta) {
    receive();
  } else if (options_.built_on_host) {
    place();
    distribute();
  }
  model.hooks = this;
}

void Fsdp2::build_groups(Model& model) {
  const bool own_embedding = options_.embedding_wrapped && !model.decoder().tied_embeddings;
  Group tokens, positions, head, root;
  tokens.unit = kEmbeddingUnit;
  positions.unit = kPositionUnit;
  head.unit = kHeadUnit;
  std::vector<Group> layers(static_cast<std::size_t>(model.decoder().layers));
  for (std::size_t i = 0; i < layers.size(); ++i) layers[i].unit = static_cast<int>(i);
  if (options_.expert_ranks > 1) experts_.resize(layers.size());
  std::size_t order = 0;
  for (const ParameterSlot& slot : model.parameters()) {
    Group* target = slot.layer >= 0 ? &layers[static_cast<std::size_t>(slot.layer)] : &root;
    if (slot.expert && !experts_.empty()) target = &experts_[static_cast<std::size_t>(slot.layer)];
    if (own_embedding && slot.table == kEmbeddingUnit) target = &tokens;
    if (own_embedding && slot.table == kPositionUnit) target = &positions;
    if (options_.head_wrapped && slot.table == kHeadUnit) target = &head;
    if (!options_.layers_wrapped) target = &root;
    Parameter& added = target->parameters.emplace_back();
    added.slot = slot.tensor;
    added.order = order++;
  }
  for (Group* embedding : {&tokens, &positions})
    if (!embedding->parameters.empty()) groups_.push_back(std::move(*embedding));
  if (options_.layers_wrapped)
    for (Group& layer : layers) groups_.push_back(std::move(layer));
  if (!head.parameters.empty()) groups_.push_back(std::move(head));
  groups_.push_back(std::move(root));
}

/// Who shares a group and in which dtypes. Experts are wrapped without a policy of mixed precision.
void Fsdp2::describe_groups(Model& model) {
  for (Group& g : groups_) {
    g.ranks = options_.ranks;
    g.compute = options_.compute;
    g.reduce = options_.reduce;
  }
  int layer = 0;
  for (Group& g : experts_) {
    g.unit = layer++;
    g.ranks = std::max<std::int64_t>(1, options_.ranks / options_.expert_ranks);
    g.plain = g.ranks == 1;
    g.compute = g.reduce = model.options().dtype;
  }
}

Fsdp2::Group* Fsdp2::experts_of(const Group& g) {
  if (experts_.empty() || g.unit < 0) return nullptr;
  Group& found = experts_[static_cast<std::size_t>(g.unit)];
  return found.parameters.empty() ? nullptr : &found;
}

/// A rank's part of a parameter. Experts are cut along their second dimension: there may be fewer of them than ranks.
Tensor Fsdp2::shard_of(const Group& g, const Tensor& whole) {
  Shape local = whole.shape();
  if (is_experts(g))
    local.size[1] = ceil_div(local.size[1], g.ranks);
  else
    local = shard_shape(whole.shape(), g.ranks);
  local = Shape::contiguous(local.sizes());
  if (options_.meta) return tape_.alias(tape_.empty({0}, whole.dtype(), kShard), local, 0, false);
  return tape_.empty(local, whole.dtype(), kShard);
}

/// What was made on the host comes to the device a unit at a time, is cut there and goes. Parameters without
/// values anywhere are cut without memory.
void Fsdp2::shard_group(Group& g) {
  std::vector<Tensor> moved;
  if (options_.built_on_host && !options_.meta) {
    const ComponentScope component(tape_, Component::weights);
    for (const Parameter& p : g.parameters)
      moved.push_back(tape_.empty(p.slot->shape(), p.slot->dtype(), kToDevice));
  }
  for (Parameter& p : g.parameters) {
    const Tensor& whole = *p.slot;
    const ModuleScope module(tape_, whole->storage->label.module);
    {
      const ComponentScope component(tape_, Component::weights);
      p.shard = shard_of(g, whole);
      if (options_.cpu_offload && !options_.meta) p.shard = to_host(p.shard, HostKind::pinned);
    }
    p.shard->requires_grad = whole->requires_grad;
    Shape all = whole.shape();
    if (is_experts(g)) all.size[0] *= options_.expert_ranks;
    p.whole = Shape::contiguous(all.sizes());
    if (g.plain) {
      p.full = p.shard;
      continue;
    }
    const std::int64_t local = p.shard.elements();
    g.elements += local;
    p.full_bytes = bytes_of(g.compute, local * g.ranks);
    const ComponentScope component(tape_, Component::gathered_parameters);
    const Tensor nothing = tape_.empty({0}, g.compute, kFull);
    p.full = tape_.alias(nothing, whole.shape(), 0, false);
    p.full->requires_grad = whole->requires_grad;
  }
  for (Parameter& p : g.parameters) *p.slot = p.full;  // the whole parameters go, in order
  for (Tensor& whole : moved) whole.reset();
}

/// Before weights are loaded the first rank brings shards to the device that are not there (`to`); the others
/// make all of theirs anew (`to_empty`), a tied table once more as the head's. A unit's old shards go when all
/// of its modules have new ones, so the root's at the end; those that live on the host return there then.
void Fsdp2::place() {
  const bool anew = options_.meta || !options_.first_rank;
  if (!anew && !options_.cpu_offload) return;
  const ComponentScope component(tape_, Component::weights);
  fake_context();
  Group& root = groups_.back();
  std::vector<Tensor> olds, roots;
  const auto make = [&](const Parameter& p) {
    const ModuleScope module(tape_, p.shard->storage->label.module);
    return tape_.empty(p.shard.shape(), p.shard.dtype(), kShard);
  };
  for (const auto& [p, g] : in_order()) {
    Tensor made = make(*p);
    (g == &root ? roots : olds).push_back(tape_.alias(p->shard, p->shard.shape()));
    tape_.set_data(p->shard, std::move(made));
    if (g != &root && p == &g->parameters.back()) settle(*g, olds);
  }
  for (Parameter& p : root.parameters)
    if (anew && model_.decoder().tied_embeddings && p.slot == &model_.head_table())
      tape_.set_data(p.shard, make(p));
  settle(root, roots);
}

/// A unit's modules have their new shards.
void Fsdp2::settle(Group& g, std::vector<Tensor>& olds) {
  for (std::size_t i = 0; i < olds.size(); ++i) {
    Parameter& p = g.parameters[i];
    if (options_.cpu_offload)
      tape_.set_data(p.shard, to_host(p.shard, HostKind::pinned));
    olds[i].reset();
  }
  olds.clear();
}

/// A whole state dict on the first rank's host is broadcast tensor by tensor, a tied table once more as the
/// head's.
void Fsdp2::distribute() {
  const ComponentScope component(tape_, Component::staging);
  for (const StateTensor& state : state_dict(false))
    const Tensor whole = tape_.empty(state.whole, state.part.dtype(), kToDevice);
}

/// A model without values on any rank gets its shards from that state dict: each is cut out of the tensor that came,
/// which then goes. Those that live on the host are taken there when all have come.
void Fsdp2::receive() {
  const ComponentScope component(tape_, Component::weights);
  fake_context();
  std::vector<Parameter*> in_turn = ordered();
  if (model_.decoder().tied_embeddings)
    for (Parameter* p : ordered())
      if (p->slot == &model_.head_table()) in_turn.push_back(p);
  for (Parameter* p : in_turn) {
    const ModuleScope module(tape_, p->shard->storage->label.module);
    Tensor whole;
    {
      const ComponentScope staging(tape_, Component::staging);
      whole = tape_.empty(p->whole, p->shard.dtype(), kToDevice);
    }
    tape_.set_data(p->shard, tape_.empty(p->shard.shape(), p->shard.dtype(), kShard));
  }
  if (options_.cpu_offload) offload(HostKind::pinned);
}

Fsdp2::Group& Fsdp2::group(int unit) {
  const auto found =
      std::find_if(groups_.begin(), groups_.end(), [&](const Group& g) { return g.unit == unit; });
  return found == groups_.end() ? groups_.back() : *found;
}

// --- Gathering

void Fsdp2::unshard(Group& g) {
  if (g.plain || g.unsharded || g.gathering || g.parameters.empty()) return;
  g.gathering = true;
  if (g.ranks == 1) return;
  const StreamScope stream(tape_, options_.gather_stream);
  const ComponentScope component(tape_, Component::communication);
  const DType stored = g.parameters.front().shard.dtype();
  std::vector<Tensor> inputs;
  Tensor input;
  if (options_.cpu_offload) {
    for (const Parameter& p : g.parameters) {
      Tensor on_device = tape_.empty(p.shard.shape(), stored, kToDevice);
      if (tape_.wants_operations())
        Work(tape_, OperationKind::host_to_device, kToDevice).in(p.shard).out(on_device).run();
      if (stored != g.compute) {
        Tensor narrow = tape_.empty(p.shard.shape(), g.compute, kGatherIn);
        if (tape_.wants_operations()) copy_in_place(narrow, on_device);
        on_device = std::move(narrow);
      }
      inputs.push_back(std::move(on_device));
    }
  } else if (stored != g.compute) {
    input = tape_.empty({g.elements}, g.compute, kGatherIn);
  }
  g.gathered = tape_.empty({g.elements * g.ranks}, g.compute, kGatherOut);
  if (tape_.wants_operations())
    Work(tape_, OperationKind::all_gather, kGatherOut).out(g.gathered).sizes({g.ranks}).run();
  input.reset();
  while (!inputs.empty()) inputs.pop_back();
}

void Fsdp2::wait(Group& g, bool forward) {
  if (!g.gathering) return;
  g.gathering = false;
  g.unsharded = true;
  if (g.ranks > 1) tape_.memory().wait_stream(0, options_.gather_stream);
  g.ranks == 1 ? widen_alone(g) : copy_out(g, forward);
}

/// A rank alone gathers nothing: shards become the full parameters one by one, each cast living until the
/// next one is made.
void Fsdp2::widen_alone(Group& g) {
  const ComponentScope component(tape_, Component::temporaries);
  Tensor input;
  for (Parameter& p : g.parameters) {
    const DType stored = p.shard.dtype();
    Tensor next;
    if (options_.cpu_offload) next = tape_.empty(p.shard.shape(), stored, kToDevice);
    if (stored != g.compute) next = tape_.empty(p.shard.shape(), g.compute, kGatherIn);
    input = std::move(next);
    tape_.regrow_storage(p.full, p.full_bytes);
  }
}

void Fsdp2::copy_out(Group& g, bool forward) {
  for (Parameter& p : g.parameters) tape_.regrow_storage(p.full, p.full_bytes);
  {
    const ComponentScope component(tape_, Component::temporaries);
    const Tensor scratch = tape_.empty({copy_out_scratch(g)}, DType::uint8, kCopyOut);
  }
  if (forward)
    kept_gather_ = std::move(g.gathered);
  else
    g.gathered.reset();
  g.gathered.reset();
}

void Fsdp2::reshard(Group& g) {
  if (!g.unsharded) return;
  for (Parameter& p : g.parameters) tape_.shrink_storage(p.full);
  g.unsharded = false;
}

/// Pointers, sizes and offsets that `split_with_sizes_copy` sends to the device: 8·(4k + 1 + blocks).
Bytes Fsdp2::copy_out_scratch(const Group& g) const {
  std::int64_t chunks = 0;
  for (const Parameter& p : g.parameters) chunks += ceil_div(p.shard.elements() * element_size(g.compute), 2048);
  const std::int64_t waves = ceil_div(g.ranks * chunks, tape_.traits().multiprocessors * 32);
  const auto root = static_cast<std::int64_t>(std::ceil(std::sqrt(static_cast<double>(waves))));
  const std::int64_t per_block = ceil_div(waves, std::max<std::int64_t>(1, std::min(root, g.ranks)));
  std::int64_t blocks = 0;
  for (const Parameter& p : g.parameters)
    blocks += ceil_div(p.shard.elements() * element_size(g.compute), 2048 * per_block);
  return 8 * (4 * static_cast<std::int64_t>(g.parameters.size()) + 1 + blocks);
}

/// The same for `_chunk_cat` before a reduction: 8·(6k + 2 + blocks).
Bytes Fsdp2::copy_in_scratch(std::span<const std::int64_t> lengths, DType reduce) {
  std::int64_t blocks = 0;
  for (const std::int64_t length : lengths) blocks += ceil_div(length * element_size(reduce), 2048);
  return 8 * (6 * static_cast<std::int64_t>(lengths.size()) + 2 + blocks);
}

// --- Forward

/// Module by module: the root comes first. Each unit's gather is waited for at once.
void Fsdp2::begin_pass() {
  if (!options_.gathers_whole_forward) return;
  const auto whole = [this](Group& g) {
    unshard(g);
    wait(g, false);
  };
  whole(groups_.back());
  for (std::vector<Group>* groups : {&groups_, &experts_})
    for (Group& g : *groups) whole(g);
}

void Fsdp2::end_pass() {
  if (!options_.gathers_whole_forward) return;
  for (std::vector<Group>* groups : {&groups_, &experts_})
    for (Group& g : *groups) reshard(g);
}

void Fsdp2::before_forward(int unit, Tensor& input) {
  Group& g = group(unit);
  if (g.unit != unit) return;
  // A module of its own is given floating-point arguments in the compute dtype.
  if (unit == kPositionUnit && input.defined() && input.dtype() == DType::fp32)
    input = to(input, options_.compute);
  unshard(g);
  wait(g, true);
  if (Group* experts = experts_of(g)) {
    unshard(*experts);
    wait(*experts, true);
  }
  if (options_.forward_prefetch && unit != kRoot && (&g + 1)->unit != kRoot) unshard(*(&g + 1));
  if (unit == kRoot || !input.defined() || !tape_.grad_enabled() || !input.requires_grad()) return;
  Node* node = tape_.node(kPostBackward, nullptr, {&input});
  node->function = std::make_unique<PostBackward>(*this, unit);
  Tensor through = tape_.alias(input, input.shape(), 0, input->view);
  tape_.attach(through, node);
  input = std::move(through);
}

void Fsdp2::after_forward(int unit, Tensor& output) {
  Group& g = group(unit);
  if (g.unit != unit) return;
  // A checkpoint that recomputes through this hook leaves the parameters for its own backward; the layer is
  // its own root there.
  const bool recomputes = tape_.thread() != Thread::main;
  const bool stays = unit == kRoot && options_.root_stays_gathered;
  if (options_.reshard_after_forward && !recomputes && !stays) {
    reshard(g);
    if (Group* experts = experts_of(g)) reshard(*experts);
  }
  if (unit == kRoot || recomputes) kept_gather_.reset();
  if (!recomputes) {
    g.forward_order.push_back(post_forward_order_.size());
    post_forward_order_.push_back(static_cast<std::size_t>(&g - groups_.data()));
  }
  if (!output.defined() || !output.requires_grad()) return;
  if (output->producer == nullptr) {  // frozen embeddings whose output is made to require gradients
    tape_.leaf_hooks(output).accumulated.push_back(
        [this, unit](const Tensor&) { before_backward(group(unit)); });
    return;
  }
  Tape::hooks(*output->producer).before.push_back([this, unit](std::span<Tensor>) {
    before_backward(group(unit));
  });
}

// --- Backward

void Fsdp2::before_backward(Group& g) {
  if (!callback_queued_) {
    callback_queued_ = true;
    engine_.queue_callback([this] { finish_backward(); });
  }
  g.in_backward = true;
  const std::uint16_t operation = tape_.operation();
  tape_.set_operation(0);
  unshard(g);
  wait(g, false);
  if (Group* experts = experts_of(g)) {
    experts->in_backward = true;
    unshard(*experts);
    wait(*experts, false);
  }
  if (!g.forward_order.empty()) {
    const std::size_t place = g.forward_order.back();
    g.forward_order.pop_back();
    if (place > 0) {
      Group& next = groups_[post_forward_order_[place - 1]];
      unshard(next);
      if (Group* experts = experts_of(next)) unshard(*experts);
    }
  }
  tape_.set_operation(operation);
}

void Fsdp2::accumulate_whole(Group& g) {
  for (Parameter& p : g.parameters) {
    if (!p.accumulated.defined() || p.full->grad == nullptr) continue;
    add_in_place(p.accumulated, p.full.grad());
    tape_.set_grad(p.full, {});
  }
}

void Fsdp2::after_backward(Group& g) {
  if (!g.in_backward) return;
  g.in_backward = false;
  if (Group* experts = experts_of(g); experts != nullptr && experts != &g) after_backward(*experts);
  if (g.plain) return;  // its gradients are where the backward left them
  const std::uint16_t operation = tape_.operation();
  tape_.set_operation(0);
  accumulate_whole(g);
  reshard(g);
  if (sync_) {
    reduce(g);
  } else {
    const ComponentScope component(tape_, Component::gradients);
    for (Parameter& p : g.parameters) {
      if (p.full->grad == nullptr) continue;
      if (p.full.grad().dtype() == g.reduce) continue;  // stays where it is
      p.accumulated = to(p.full.grad(), g.reduce);
      tape_.set_grad(p.full, {});
    }
  }
  tape_.set_operation(operation);
}

void Fsdp2::reduce(Group& g) {
  // Frozen parameters have no part in it.
  std::vector<Tensor> gradients;
  std::vector<std::int64_t> lengths;
  for (Parameter& p : g.parameters) {
    Tensor whole = p.accumulated.defined() ? std::move(p.accumulated) : p.full.grad();
    if (!whole.defined()) continue;
    p.accumulated.reset();
    tape_.set_grad(p.full, {});
    gradients.push_back(std::move(whole));
    lengths.push_back(p.shard.elements());
  }
  if (gradients.empty()) return;
  const std::int64_t elements = std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
  const ComponentScope component(tape_, Component::communication);
  // The input of the reduction before is let go when that is done.
  if (reduce_input_.defined()) tape_.memory().wait_stream(0, options_.reduce_stream);
  reduce_input_.reset();
  reduce_input_ = tape_.empty({elements * g.ranks}, g.reduce, kReduceIn);
  { const Tensor scratch = tape_.empty({copy_in_scratch(lengths, g.reduce)}, DType::uint8, kCopyIn); }
  // A loop over several ranks' gradients leaves its variable at the last one.
  Tensor last;
  if (g.ranks > 1) last = std::move(gradients.back());
  if (g.ranks > 1) gradients.pop_back();
  while (!gradients.empty()) gradients.pop_back();
  Tensor reduced;
  {
    tape_.memory().wait_stream(options_.reduce_stream, 0);
    const StreamScope stream(tape_, options_.reduce_stream);
    reduced = tape_.empty({elements}, g.reduce, kReduceOut);
    if (tape_.wants_operations())
      Work(tape_, OperationKind::reduce_scatter, kReduceOut)
          .in(reduce_input_)
          .out(reduced)
          .sizes({g.ranks})
          .run();
    const DType stored = g.parameters.front().shard.dtype();
    if (stored != g.reduce) reduced = tape_.empty({elements}, stored, kReduceOut);
  }
  last.reset();
  take_gradients(g, reduced);
}

void Fsdp2::take_gradients(Group& g, const Tensor& reduced) {
  std::int64_t at = 0;
  for (Parameter& p : g.parameters) {
    if (!p.shard->requires_grad) continue;
    Tensor part = tape_.alias(reduced, p.shard.shape(), at);
    at += p.shard.elements();
    if (options_.cpu_offload) {
      const ComponentScope component(tape_, Component::gradients);
      const Tensor on_device = std::move(part);
      part = tape_.empty_host(p.shard.shape(), on_device.dtype(), HostKind::pinned);
      if (tape_.wants_operations())
        Work(tape_, OperationKind::device_to_host, kToHost).in(on_device).out(part).run();
    }
    if (p.shard->grad != nullptr)
      add_in_place(p.shard.grad(), part);
    else
      tape_.set_grad(p.shard, std::move(part));
  }
}

void Fsdp2::finish_backward() {
  callback_queued_ = false;
  after_backward(groups_.back());
  for (Group& g : groups_) {
    after_backward(g);
    if (Group* experts = experts_of(g)) reshard(*experts);
    reshard(g);  // of units that had no backward too: a frozen embedding's
    g.forward_order.clear();
    g.gathered.reset();
    g.gathering = false;
  }
  post_forward_order_.clear();
  tape_.memory().wait_stream(0, options_.reduce_stream);
  reduce_input_.reset();
}

std::vector<StateTensor> Fsdp2::state_dict(bool) {
  std::vector<StateTensor> out;
  std::optional<StateTensor> head;  // a tied one comes again
  for (const Parameter* p : ordered()) {
    out.push_back({p->shard, p->whole});
    if (model_.decoder().tied_embeddings && p->slot == &model_.head_table()) head = out.back();
  }
  if (head) out.push_back(std::move(*head));
  return out;
}

// --- Shards

std::vector<std::pair<Fsdp2::Parameter*, Fsdp2::Group*>> Fsdp2::in_order() {
  std::vector<std::pair<Parameter*, Group*>> out;
  for (std::vector<Group>* groups : {&experts_, &groups_})
    for (Group& g : *groups)
      for (Parameter& p : g.parameters) out.emplace_back(&p, &g);
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.first->order < b.first->order; });
  return out;
}

std::vector<Fsdp2::Parameter*> Fsdp2::ordered() {
  std::vector<Parameter*> out;
  for (const auto& [parameter, group] : in_order()) out.push_back(parameter);
  return out;
}

/// Those that the model's `parameters()` names: a tied weight once.
std::vector<Tensor> Fsdp2::shards() {
  std::vector<Tensor> out;
  for (const Parameter* p : ordered())
    if (p->shard->requires_grad && !is_tied_head(*p)) out.push_back(p->shard);
  return out;
}

bool Fsdp2::is_tied_head(const Parameter& p) const {
  return options_.ties_after_sharding && p.slot == &model_.head_table();
}

/// Moving a module looks its parameters up anew: the head's shard is the embedding's from then on.
void Fsdp2::tie() {
  if (!options_.ties_after_sharding) return;
  Parameter *table = nullptr, *head = nullptr;
  for (Parameter* p : ordered()) {
    if (is_tied_head(*p))
      head = p;
    else if (table == nullptr)
      table = p;  // embeddings come first
  }
  if (head != nullptr && table != nullptr) head->shard = table->shard;
}

void Fsdp2::move_buffers(bool device, HostKind kind) {
  for (Tensor* buffer : model_.buffers()) {
    if (!buffer->defined() || ((*buffer)->storage->device == Device::gpu) == device) continue;
    const ModuleScope module(tape_, (*buffer)->storage->label.module);
    tape_.set_data(*buffer, device ? to_device(*buffer) : to_host(*buffer, kind));
  }
}

void Fsdp2::offload(HostKind kind) {
  const ComponentScope component(tape_, Component::weights);
  for (std::vector<Group>* groups : {&experts_, &groups_})
    for (Group& g : *groups) {
      reshard(g);
      if (&g == &groups_.back() && !options_.cpu_offload) move_buffers(false, kind);
      for (Parameter& p : g.parameters)
        if (p.shard->storage->device == Device::gpu) {
          const ModuleScope module(tape_, p.shard->storage->label.module);
          tape_.set_data(p.shard, to_host(p.shard, kind));
        }
    }
  tie();
}

/// DTensor's shapes are propagated through fake tensors.
void Fsdp2::fake_context() {
  if (tape_.first(kFakeContext)) const Tensor context = tape_.empty({1}, DType::fp32, kFakeContext);
}

void Fsdp2::load() {
  const ComponentScope component(tape_, Component::weights);
  fake_context();
  const Tensor* head = &model_.head_table();
  for (Parameter* p : ordered()) {
    if (p->slot == head && p->order > 0)
      move_buffers(true, HostKind::pageable);  // the body's come before a head of its own
    if (p->shard->storage->device == Device::gpu) continue;
    const ModuleScope module(tape_, p->shard->storage->label.module);
    tape_.set_data(p->shard, to_device(p->shard));
  }
  move_buffers(true, HostKind::pageable);
  tie();
}

}  // namespace headroom::tape
