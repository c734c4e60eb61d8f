#include "simulator/tape/core/tape.h"

#include <algorithm>
#include <limits>

namespace headroom::tape {

namespace {
const std::uint16_t kParameter = operation_name("parameter");
const std::uint16_t kCublas = operation_name("cublas_workspace");
const std::uint16_t kCublasLt = operation_name("cublaslt_workspace");
const std::uint16_t kAccumulate = operation_name("AccumulateGrad");
}  // namespace

Tape::~Tape() {
  autocast_.cache.clear();
  for (auto& threads : workspaces_)
    for (Workspaces& w : threads) drop(w.cublas, w.cublaslt);
}

bool Tape::first(std::uint16_t operation) {
  if (std::find(set_up_.begin(), set_up_.end(), operation) != set_up_.end()) return false;
  set_up_.push_back(operation);
  return true;
}

// --- Storages and tensors

Storage* Tape::take_storage() {
  Storage* s = storages_.take();
  s->tape = this;
  s->owners = 0;
  s->device = Device::gpu;
  s->block = kNoBlock;
  s->host = kNoHostBlock;
  return s;
}

TensorRecord* Tape::take_record(Storage* storage, const Shape& shape, DType dtype) {
  TensorRecord* r = records_.take();
  r->owners = 1;
  r->output = 0;
  r->dtype = dtype;
  r->view = r->requires_grad = false;
  r->storage = storage;
  ++storage->owners;
  r->offset = 0;
  r->shape = shape;
  r->producer = r->accumulator = nullptr;
  r->grad = nullptr;
  r->hooks = nullptr;
  return r;
}

Tensor Tape::empty(const Shape& shape, DType dtype, std::uint16_t operation) {
  Storage* s = take_storage();
  s->bytes = bytes_of(dtype, shape.elements());
  s->label = label_;
  s->label.operation = backward_operation_ != 0 ? backward_operation_ : operation;
  if (!stopped_) s->block = memory_.allocate(s->bytes, stream_, s->label);
  return Tensor::adopt(take_record(s, shape, dtype));
}

Tensor Tape::empty_host(const Shape& shape, DType dtype, HostKind kind) {
  Storage* s = take_storage();
  s->device = kind == HostKind::pinned ? Device::pinned_host : Device::pageable_host;
  s->bytes = bytes_of(dtype, shape.elements());
  s->label = label_;
  if (!stopped_) s->host = memory_.allocate_host(s->bytes, kind, label_.component);
  return Tensor::adopt(take_record(s, shape, dtype));
}

Tensor Tape::alias(const Tensor& base, const Shape& shape, std::int64_t elements, bool view) {
  TensorRecord* r = take_record(base->storage, shape, base.dtype());
  r->view = view;
  r->offset = base->offset + bytes_of(base.dtype(), elements);
  return Tensor::adopt(r);
}

Tensor Tape::parameter(const Shape& shape, DType dtype, bool requires_grad) {
  const ComponentScope component(*this, Component::weights);
  Tensor t = meta_parameters_ ? alias(empty({0}, dtype, kParameter), shape, 0, false)
                              : empty(shape, dtype, kParameter);
  t->requires_grad = requires_grad;
  return t;
}

void Tape::shrink_storage(const Tensor& tensor) {
  Storage& s = *tensor->storage;
  memory_.free(std::exchange(s.block, kNoBlock));
  s.bytes = 0;
}

void Tape::regrow_storage(const Tensor& tensor, Bytes bytes) {
  Storage& s = *tensor->storage;
  s.bytes = bytes;
  if (!stopped_) s.block = memory_.allocate(bytes, stream_, s.label);
}

void Tape::relabel(const Tensor& tensor, Component component) {
  Storage& s = *tensor->storage;
  if (s.label.component == component) return;
  s.label.component = component;
  if (s.block != kNoBlock) memory_.relabel(s.block, s.label);
}

void Tape::set_data(const Tensor& tensor, const Tensor& data) {
  Storage* old = std::exchange(tensor->storage, data->storage);
  ++data->storage->owners;
  tensor->shape = data.shape();
  tensor->dtype = data.dtype();
  tensor->offset = data->offset;
  if (tensor->accumulator != nullptr) tensor->accumulator->outputs[0] = {data.shape(), data.dtype()};
  drop_storage(old);
}

void Tape::set_grad(const Tensor& leaf, Tensor gradient) {
  if (gradient.defined()) relabel(gradient, Component::gradients);
  Tensor old = Tensor::adopt(std::exchange(leaf->grad, gradient.release()));
}

void Tape::drop_storage(Storage* s) {
  if (--s->owners != 0) return;
  if (s->block != kNoBlock) memory_.free(s->block);
  if (s->host != kNoHostBlock) memory_.free_host(s->host);
  storages_.give(s);
}

void Tensor::destroy(TensorRecord* record) {
  record->storage->tape->destroy_record(record);
}

void Tape::destroy_record(TensorRecord* r) {
  // PyTorch lets go of a tensor's autograd state before its storage.
  if (r->producer != nullptr) drop_node(std::exchange(r->producer, nullptr));
  if (r->grad != nullptr) Tensor::adopt(std::exchange(r->grad, nullptr)).reset();
  if (r->hooks != nullptr) delete std::exchange(r->hooks, nullptr);
  drop_storage(r->storage);
  records_.give(r);
}

// --- Graph

Node* Tape::take_node() {
  Node* n = nodes_.take();
  n->tape = this;
  n->owners = 0;
  n->sequence = sequence_++;
  n->module = label_.module;
  n->stream = stream_;
  n->waiting = n->task = 0;
  return n;
}

Node* Tape::node(std::uint16_t name, Formula formula, std::initializer_list<const Tensor*> inputs) {
  return node(name, formula, std::span<const Tensor* const>(inputs.begin(), inputs.size()));
}

Node* Tape::node(std::uint16_t name, Formula formula, std::span<const Tensor* const> inputs) {
  Node* n = take_node();
  n->name = name;
  n->formula = formula;
  for (const Tensor* input : inputs) add_edge(n, input);
  return n;
}

void Tape::add_edge(Node* node, const Tensor* input) {
  Edge edge;
  if (input != nullptr && input->defined()) {
    TensorRecord* r = input->record();
    if (r->producer != nullptr)
      edge = {r->producer, r->output};
    else if (r->requires_grad)
      edge = {accumulator(*input), 0};
  }
  if (edge.node != nullptr) ++edge.node->owners;
  node->edges.push_back(edge);
}

Node* Tape::accumulator(const Tensor& leaf) {
  TensorRecord* r = leaf.record();
  if (r->accumulator != nullptr) return r->accumulator;
  Node* n = take_node();
  n->name = kAccumulate;
  n->formula = nullptr;
  n->sequence = std::numeric_limits<std::uint64_t>::max();
  n->leaf = r;
  ++r->owners;
  n->outputs.push_back({r->shape, r->dtype});
  r->accumulator = n;
  return n;
}

LeafHooks& Tape::leaf_hooks(const Tensor& leaf) {
  if (leaf->hooks == nullptr) leaf->hooks = new LeafHooks;
  return *leaf->hooks;
}

NodeHooks& Tape::hooks(Node& node) {
  if (!node.hooks) node.hooks = std::make_unique<NodeHooks>();
  return *node.hooks;
}

void Tape::save(Node* node, const Tensor& tensor) {
  if (stopped_ || !tensor.defined()) {
    save_nothing(node);
    return;
  }
  if (!saved_tensor_hooks_.empty()) {
    const std::shared_ptr<SavedTensorHooks> hooks = saved_tensor_hooks_.back();
    const std::uint64_t handle = hooks->pack(tensor);
    node->saved.emplace_back(hooks, handle);
    return;
  }
  if (tensor->requires_grad) {  // a leaf
    node->saved.emplace_back(tensor);
    return;
  }
  // A detached twin: a node must not own the graph through what it saves, nor itself through its own result,
  // which is attached only after it was saved.
  node->saved.emplace_back(alias(tensor, tensor.shape(), 0, tensor->view));
}

void Tape::attach(Tensor& output, Node* node, std::uint16_t index) {
  if (node == nullptr) return;
  if (node->outputs.size() <= index) node->outputs.resize(index + 1u);
  node->outputs[index] = {output.shape(), output.dtype()};
  output->producer = node;
  output->output = index;
  ++node->owners;
}

void Tape::drop_node(Node* node) {
  if (--node->owners != 0) return;
  dying_.push_back(node);
  if (burying_) return;
  burying_ = true;
  while (!dying_.empty()) {
    Node* n = dying_.back();
    dying_.pop_back();
    for (SavedTensor& saved : n->saved) saved.reset();
    n->saved.clear();
    n->cuts.clear();
    n->outgoing.clear();
    n->buffer.clear();
    n->outputs.clear();
    n->function.reset();
    n->hooks.reset();
    for (Edge& edge : n->edges)
      if (edge.node != nullptr) drop_node(edge.node);
    n->edges.clear();
    if (n->leaf != nullptr) {
      TensorRecord* leaf = std::exchange(n->leaf, nullptr);
      leaf->accumulator = nullptr;
      Tensor::adopt(leaf).reset();
    }
    nodes_.give(n);
  }
  burying_ = false;
}

NodeRef::~NodeRef() {
  if (node_ != nullptr) node_->tape->drop_node(node_);
}

// --- Workspaces

void Tape::matmul_workspace(bool with_bias) {
  if (stopped_) return;
  Workspaces& w = workspaces_[static_cast<std::size_t>(thread_)][stream_ % kStreams];
  if (w.cublas.defined() && (!with_bias || w.cublaslt.defined())) return;
  const ComponentScope component(*this, Component::workspaces);
  const ModuleScope module(*this, 0);
  const std::uint16_t before = std::exchange(backward_operation_, std::uint16_t{0});
  if (!w.cublas.defined()) w.cublas = empty({traits_.cublas_workspace}, DType::uint8, kCublas);
  if (with_bias && !w.cublaslt.defined())
    w.cublaslt = empty({traits_.cublaslt_workspace}, DType::uint8, kCublasLt);
  backward_operation_ = before;
}

}  // namespace headroom::tape
