#include "simulator/tape/sharding/gemini.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "simulator/tape/operations/copy.h"
#include "simulator/tape/operations/pointwise.h"
#include "simulator/tape/operations/reduce.h"
#include "simulator/tape/operations/work.h"
#include "simulator/tape/optimizers/adamw_work.h"
#include "simulator/tape/sharding/list_collective.h"

namespace headroom::tape {
namespace {

const std::uint16_t kChunk = operation_name("gemini::chunk"), kPart = operation_name("gemini::shard"),
                    kGather = operation_name("gemini::all_gather"),
                    kReduce = operation_name("gemini::reduce_scatter"),
                    kWide = operation_name("gemini::fp32_parameter"), kClone = operation_name("aten::clone"),
                    kState = operation_name("adamw_state"), kStep = operation_name("fused_adam::multi_tensor"),
                    kHostStep = operation_name("cpu_adam::step"), kInf = operation_name("aten::isinf"),
                    kAbs = operation_name("aten::abs"), kNan = operation_name("aten::isnan"),
                    kAny = operation_name("aten::any"), kNorm = operation_name("aten::linalg_vector_norm"),
                    kStead = operation_name("aten::empty_like"), kBefore = operation_name("PostFwdPreBwdBackward");

const std::vector<std::size_t> kNone;

unsigned all_dimensions(const Tensor& tensor) {
  return (1u << tensor.rank()) - 1u;
}

}  // namespace

/// The gradient of a module's output is complete: its chunks are needed.
class Gemini::BeforeBackward : public Function {
 public:
  BeforeBackward(Gemini& owner, std::uint32_t module) : owner_(owner), module_(module) {}
  void backward(Node& node, std::span<Tensor> incoming, std::span<Tensor> outgoing) override {
    node.tape->set_operation(0);
    owner_.enter(module_);
    outgoing[0] = incoming[0];
  }

 private:
  Gemini& owner_;
  std::uint32_t module_;
};

Gemini::Gemini(Model& model, Engine& engine, const GeminiOptions& options)
    : tape_(model.tape()), engine_(engine), options_(options) {
  take_over(model);
  find_moments();
  model.hooks = this;
}

// --- Building

void Gemini::take_over(Model& model) {
  std::vector<std::int64_t> sizes;
  std::map<const TensorRecord*, std::size_t> places;
  const bool adapted = std::any_of(model.parameters().begin(), model.parameters().end(),
                                   [](const ParameterSlot& slot) { return (*slot.tensor)->requires_grad; });
  std::vector<std::uint32_t> keys;
  for (const ParameterSlot& slot : model.parameters()) {
    // Of a model that trains in part, what is frozen stays whole on every rank.
    if (adapted && !(*slot.tensor)->requires_grad) {
      if ((*slot.tensor)->storage->block == kNoBlock) tape_.regrow_storage(*slot.tensor, (*slot.tensor)->storage->bytes);
      continue;
    }
    places[slot.tensor->record()] = parameters_.size();
    parameters_.push_back({.tensor = *slot.tensor, .chunk = 0, .start = 0});
    keys.push_back(model.intern(slot.name.substr(0, slot.name.rfind('.'))));
    sizes.push_back(slot.tensor->elements());
  }
  for (const Tensor* buffer : model.buffers())
    if (buffer->defined() && (*buffer)->storage->block == kNoBlock)
      tape_.regrow_storage(*buffer, (*buffer)->storage->bytes);
  for (ChunkPlan& plan : plan_chunks(sizes, options_.search)) {
    Chunk& chunk = chunks_.emplace_back();
    chunk.plan = std::move(plan);
    chunk.weights.dtype = chunk.gradients.dtype = options_.dtype;
    chunk.wide.dtype = DType::fp32;
    chunk.wide.component = Component::master_weights;
    chunk.gradients.component = Component::gradients;
  }
  for (std::size_t c = 0; c < chunks_.size(); ++c) {
    for (const std::size_t i : chunks_[c].plan.parameters) parameters_[i].chunk = c;
    fill(chunks_[c], c > 0 ? &chunks_[c - 1] : nullptr);
  }
  if (!chunks_.empty()) {
    close(chunks_.back().weights, chunks_.back());
    close(chunks_.back().wide, chunks_.back());
  }
  const auto use = [&](std::uint32_t module, std::size_t parameter) {
    std::vector<std::size_t>& chunks = modules_[module];
    const std::size_t chunk = parameters_[parameter].chunk;
    if (std::find(chunks.begin(), chunks.end(), chunk) == chunks.end()) chunks.push_back(chunk);
  };
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    use(keys[i], i);
    if (parameters_[i].tensor->requires_grad)
      tape_.leaf_hooks(parameters_[i].tensor).accumulated.push_back([this, i](const Tensor&) { gradient_ready(i); });
  }
  // A tied head is a module with the embedding's table.
  if (model.options().head != HeadKind::language_model || modules_.contains(model.intern("lm_head"))) return;
  const auto table = places.find(model.head_table().record());
  if (table != places.end()) use(model.intern("lm_head"), table->second);
}

/// Parameter by parameter into the open chunks; the ones before are closed when they are full.
void Gemini::fill(Chunk& chunk, Chunk* before) {
  std::int64_t at = 0;
  bool first = true;
  for (const std::size_t i : chunk.plan.parameters) {
    Parameter& p = parameters_[i];
    const ModuleScope module(tape_, p.tensor->storage->label.module);
    const bool from_host = p.tensor->storage->block == kNoBlock;
    const ComponentScope component(tape_, Component::temporaries);
    // A fp32 copy is made before the weight moves, or out of the chunk where it came from the host.
    Tensor wide;
    if (!from_host) wide = tape_.empty(p.tensor.shape(), DType::fp32, kWide);
    if (first && before != nullptr) close(before->weights, *before);
    if (first) open(chunk.weights, chunk);
    p.start = at;
    at += p.tensor.elements();
    tape_.set_data(p.tensor, tape_.alias(chunk.weights.whole, p.tensor.shape(), p.start));
    if (from_host) {
      const Tensor copy = tape_.empty(p.tensor.shape(), options_.dtype, kClone);
      wide = tape_.empty(p.tensor.shape(), DType::fp32, kWide);
    }
    if (first && before != nullptr) close(before->wide, *before);
    if (first) open(chunk.wide, chunk);
    first = false;
  }
}

void Gemini::open(Half& half, const Chunk& chunk) {
  const ComponentScope component(tape_, chunk.plan.whole ? half.component : Component::gathered_parameters);
  half.whole = tape_.empty({chunk.plan.elements}, half.dtype, kChunk);
}

void Gemini::close(Half& half, const Chunk& chunk) {
  if (chunk.plan.whole) return;
  scatter(half, chunk);
  const ComponentScope component(tape_, half.component);
  if (options_.pin_memory) half.pinned = tape_.empty_host({part(chunk)}, half.dtype, HostKind::pinned);
  if (!on_host()) return;
  half.part = options_.pin_memory ? half.pinned : tape_.empty_host({part(chunk)}, half.dtype, HostKind::pageable);
}

/// Where this rank's part cuts the parameters: Adam works on the pieces.
void Gemini::find_moments() {
  for (Chunk& chunk : chunks_) {
    const std::int64_t end = chunk.plan.whole ? chunk.plan.elements : part(chunk);
    for (const std::size_t i : chunk.plan.parameters) {
      const Parameter& p = parameters_[i];
      const std::int64_t elements = std::min(end, p.start + p.tensor.elements()) - p.start;
      if (elements > 0 && p.tensor->requires_grad) chunk.moments.push_back({.elements = elements, .average = {}, .square_average = {}});
    }
  }
}

// --- Gathering

void Gemini::scatter(Half& half, const Chunk& chunk) {
  if (chunk.plan.whole || !half.gathered) return;
  const ComponentScope component(tape_, half.component);
  half.part = tape_.empty({part(chunk)}, half.dtype, kPart);
  tape_.shrink_storage(half.whole);
  half.gathered = false;
}

/// An idle chunk's part comes back; where the fp32 copy alone was updated, by way of that.
void Gemini::to_device(Chunk& chunk) {
  if (chunk.weights.part->storage->device == Device::gpu) return;
  const ComponentScope component(tape_, Component::staging);
  const Tensor source = chunk.behind ? chunk.wide.part : chunk.weights.part;
  Tensor wide;
  if (chunk.behind) wide = tape_.empty({part(chunk)}, DType::fp32, kPart);
  Tensor here = tape_.empty({part(chunk)}, options_.dtype, kPart);
  if (tape_.wants_operations())
    Work(tape_, OperationKind::host_to_device, kPart).in(source).out(chunk.behind ? wide : here).run();
  chunk.behind = false;
  chunk.weights.part = std::move(here);
}

void Gemini::gather(std::size_t c) {
  Chunk& chunk = chunks_[c];
  if (std::find(accessed_.begin(), accessed_.end(), c) != accessed_.end()) return;
  accessed_.push_back(c);
  if (chunk.weights.gathered) return;
  to_device(chunk);
  tape_.regrow_storage(chunk.weights.whole, bytes_of(options_.dtype, chunk.plan.elements));
  if (options_.joins_lists) join_list(tape_, chunk.plan.elements, options_.dtype, options_.reduce_stream);
  if (tape_.wants_operations() && options_.search.ranks > 1)
    Work(tape_, OperationKind::all_gather, kGather)
        .in(chunk.weights.part)
        .out(chunk.weights.whole)
        .sizes({options_.search.ranks})
        .run();
  chunk.weights.part.reset();
  chunk.weights.gathered = true;
}

void Gemini::release(std::size_t c) {
  Chunk& chunk = chunks_[c];
  std::erase(accessed_, c);
  scatter(chunk.weights, chunk);
  if (!on_host() || chunk.plan.whole) return;
  const ComponentScope component(tape_, Component::weights);
  chunk.weights.part = options_.pin_memory
                           ? chunk.weights.pinned
                           : tape_.empty_host({part(chunk)}, options_.dtype, HostKind::pageable);
}

const std::vector<std::size_t>& Gemini::own(std::uint32_t module) const {
  const auto found = modules_.find(module);
  return found == modules_.end() ? kNone : found->second;
}

/// Idle chunks go in the order in which they were made.
void Gemini::evict(const std::vector<std::size_t>& needed) {
  if (options_.placement == GeminiPlacement::resident) return;
  std::vector<std::size_t> idle;
  for (const std::size_t c : accessed_)
    if (!chunks_[c].plan.whole && !chunks_[c].holds_gradients &&
        std::find(needed.begin(), needed.end(), c) == needed.end())
      idle.push_back(c);
  std::sort(idle.begin(), idle.end());
  for (const std::size_t c : idle) release(c);
}

void Gemini::enter(std::uint32_t module) {
  const std::vector<std::size_t>& needed = own(module);
  if (needed.empty()) return;
  evict(needed);
  for (const std::size_t c : needed) gather(c);
}

void Gemini::before_module(std::uint32_t module, Tensor&) {
  if (!tape_.stopped()) enter(module);
}

void Gemini::after_module(std::uint32_t module, Tensor& output) {
  if (tape_.stopped() || own(module).empty() || !output.defined() || !tape_.grad_enabled() || !output.requires_grad())
    return;
  Node* node = tape_.node(kBefore, nullptr, {&output});
  node->function = std::make_unique<BeforeBackward>(*this, module);
  Tensor through = tape_.alias(output, output.shape(), 0, output->view);
  tape_.attach(through, node);
  output = std::move(through);
}

void Gemini::after_forward(int unit, Tensor&) {
  if (unit != -1 || tape_.grad_enabled() || tape_.stopped()) return;
  for (const std::size_t c : std::vector<std::size_t>(accessed_)) release(c);
}

// --- Backward

void Gemini::backward(const Tensor& loss) {
  {
    const ComponentScope component(tape_, Component::temporaries);
    const Tensor scaled = options_.loss_scaling ? mul_scalar(loss) : loss;
    tape::backward(engine_, scaled);
  }
  // What trained nothing, and what stays whole, is idle again.
  for (const std::size_t c : std::vector<std::size_t>(accessed_)) release(c);
  if (options_.overlaps) tape_.memory().synchronize();
  accumulating_ = options_.gradient_chunks;
}

void Gemini::gradient_ready(std::size_t parameter) {
  const std::uint16_t operation = tape_.operation();
  tape_.set_operation(0);
  const Parameter& p = parameters_[parameter];
  Chunk& chunk = chunks_[p.chunk];
  // What autograd gets in the gradient's stead: as large, and freed at once.
  { const Tensor stead = tape_.empty(p.tensor.shape(), p.tensor.grad().dtype(), kStead); }
  options_.gradient_chunks ? begin_gradients(chunk) : gather(p.chunk);
  Half& half = options_.gradient_chunks ? chunk.gradients : chunk.weights;
  if (!options_.gradient_chunks) chunk.holds_gradients = true;
  if (tape_.wants_operations())
    copy_in_place(tape_.alias(half.whole, p.tensor.shape(), p.start), p.tensor.grad());
  std::size_t wanted = 0;
  for (const std::size_t i : chunk.plan.parameters) wanted += parameters_[i].tensor->requires_grad;
  if (++chunk.full == wanted) reduce(p.chunk, half);
  tape_.set_grad(p.tensor, {});  // autograd holds it while the hook runs
  tape_.set_operation(operation);
}

/// Gradients of an earlier backward are set aside while the chunk is made whole again.
void Gemini::begin_gradients(Chunk& chunk) {
  Half& half = chunk.gradients;
  if (!half.whole.defined()) return open(half, chunk);
  if (half.gathered) return;
  Tensor earlier;
  if (accumulating_) earlier = clone(half.part);
  half.part.reset();
  tape_.regrow_storage(half.whole, bytes_of(half.dtype, chunk.plan.elements));
  half.gathered = true;
}

void Gemini::reduce(std::size_t c, Half& half) {
  Chunk& chunk = chunks_[c];
  chunk.full = 0;
  chunk.holds_gradients = false;
  // All that follows is on the stream of reductions, where there is one: weights that go idle too.
  const StreamScope stream(tape_, options_.overlaps ? options_.reduce_stream : tape_.stream());
  if (!chunk.plan.whole) {
    const ComponentScope component(tape_, Component::gradients);
    half.part = tape_.empty({part(chunk)}, half.dtype, kPart);
    if (options_.joins_lists && options_.search.ranks > 1)
      join_list(tape_, chunk.plan.elements, half.dtype, options_.reduce_stream);
    if (tape_.wants_operations() && options_.search.ranks > 1)
      Work(tape_, OperationKind::reduce_scatter, kReduce)
          .in(half.whole)
          .out(half.part)
          .sizes({options_.search.ranks})
          .run();
    tape_.shrink_storage(half.whole);
    half.gathered = false;
  }
  if (options_.gradient_chunks)
    release(c);
  else
    std::erase(accessed_, c);
  look_through(chunk.plan.whole ? half.whole : half.part);
  if (!on_host() || chunk.plan.whole) return;
  const ComponentScope component(tape_, Component::gradients);
  half.part = half.pinned.defined() ? half.pinned : tape_.empty_host({part(chunk)}, half.dtype, HostKind::pageable);
}

/// For infinities and NaNs, and where gradients are clipped for the norm.
void Gemini::look_through(const Tensor& part) {
  const GradMode no_grad(tape_, false);
  const ComponentScope component(tape_, Component::temporaries);
  for (const std::uint16_t what : {kInf, kNan}) {
    Tensor size;
    if (what == kInf) size = plain(kAbs, part.dtype(), part);
    const Tensor flags = plain(what, DType::boolean, part);
    size.reset();
    const Tensor any = tape::reduce(kAny, DType::boolean, 1, flags, all_dimensions(flags), false);
  }
  if (!options_.clips) return;
  const Tensor wide = to(part, DType::fp32);
  const Tensor norm = tape::reduce(kNorm, DType::fp32, 4, wide, all_dimensions(wide), false);
}

// --- Step

void Gemini::make_moments(Chunk& chunk) {
  const ComponentScope component(tape_, Component::optimizer);
  for (Moments& m : chunk.moments) {
    if (m.average.defined()) continue;
    for (Tensor* moment : {&m.average, &m.square_average})
      *moment = on_host() && !chunk.plan.whole ? tape_.empty_host({m.elements}, DType::fp32, HostKind::pageable)
                                               : tape_.empty({m.elements}, DType::fp32, kState);
  }
}

void Gemini::create_states() {
  for (Chunk& chunk : chunks_) make_moments(chunk);
}

void Gemini::step(bool overflow) {
  const GradMode no_grad(tape_, false);
  accumulating_ = false;
  if (overflow) return;
  for (Chunk& chunk : chunks_) {
    if (chunk.moments.empty()) continue;
    make_moments(chunk);
    const Half& wide = chunk.wide;
    const Half& narrow = options_.gradient_chunks ? chunk.gradients : chunk.weights;
    if (tape_.wants_operations())
      for (const Moments& m : chunk.moments)
        adamw_work(tape_, on_host() ? kHostStep : kStep,
                   tape_.alias(wide.gathered ? wide.whole : wide.part, Shape{m.elements}),
                   tape_.alias(narrow.gathered ? narrow.whole : narrow.part, Shape{m.elements}), m.average,
                   m.square_average);
    chunk.behind = on_host() && !chunk.plan.whole;
  }
}

}  // namespace headroom::tape
