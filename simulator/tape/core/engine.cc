#include "simulator/tape/core/engine.h"

#include <algorithm>

#include "simulator/tape/operations/copy.h"
#include "simulator/tape/operations/pointwise.h"
#include "simulator/tape/operations/reduce.h"

namespace headroom::tape {
namespace {

const std::uint16_t kOnes = operation_name("aten::ones_like"), kNan = operation_name("aten::isnan"),
                    kAny = operation_name("aten::any");

bool later(const std::pair<std::uint64_t, Node*>& a, const std::pair<std::uint64_t, Node*>& b) {
  return a.first < b.first;
}

}  // namespace

/// Labels and library handles of the thread that runs backward formulas.
class ThreadScope {
 public:
  explicit ThreadScope(Tape& tape)
      : tape_(tape), thread_(tape.thread_), operation_(tape.backward_operation_) {
    tape.thread_ = Thread::autograd;
    ++tape.backward_depth_;
  }
  ~ThreadScope() {
    tape_.thread_ = thread_;
    tape_.backward_operation_ = operation_;
    --tape_.backward_depth_;
  }
  void name(std::uint16_t operation) { tape_.backward_operation_ = operation; }

 private:
  Tape& tape_;
  Thread thread_;
  std::uint16_t operation_;
};

void Engine::push_ready(Node* node) {
  ready_.emplace_back(node->sequence, node);
  std::push_heap(ready_.begin(), ready_.end(), later);
}

void Engine::count_dependencies(Node* root) {
  visit_.push_back(root);
  while (!visit_.empty()) {
    Node* node = visit_.back();
    visit_.pop_back();
    for (const Edge& edge : node->edges) {
      if (edge.node == nullptr) continue;
      if (edge.node->task != task_) {
        edge.node->task = task_;
        edge.node->waiting = 0;
        visit_.push_back(edge.node);
      }
      ++edge.node->waiting;
    }
  }
}

void Engine::run(std::span<const Tensor> roots, std::span<Tensor> gradients) {
  const std::uint32_t outer_task = task_;
  std::vector<std::pair<std::uint64_t, Node*>> outer_ready;
  std::swap(outer_ready, ready_);
  task_ = ++tape_.backward_task_;
  const ThreadScope thread(tape_);
  const GradMode no_grad(tape_, false);
  const ModuleScope module(tape_, tape_.label().module);
  const ComponentScope component(tape_, Component::temporaries);
  for (const Tensor& root : roots) {
    Node* node = root->producer != nullptr ? root->producer : tape_.accumulator(root);
    if (node->task == task_) continue;
    node->task = task_;
    node->waiting = 0;
    count_dependencies(node);
  }
  for (std::size_t i = 0; i < roots.size(); ++i) {
    Node* node = roots[i]->producer != nullptr ? roots[i]->producer : tape_.accumulator(roots[i]);
    if (node->buffer.size() < node->outputs.size()) node->buffer.resize(node->outputs.size());
    node->buffer[roots[i]->output] = std::move(gradients[i]);
  }
  for (const Tensor& root : roots) {
    Node* node = root->producer != nullptr ? root->producer : tape_.accumulator(root);
    const auto queued = [&](const auto& entry) { return entry.second == node; };
    if (node->waiting == 0 && std::none_of(ready_.begin(), ready_.end(), queued)) push_ready(node);
  }
  while (!ready_.empty()) {
    std::pop_heap(ready_.begin(), ready_.end(), later);
    Node* node = ready_.back().second;
    ready_.pop_back();
    evaluate(node);
  }
  task_ = outer_task;
  std::swap(outer_ready, ready_);
  if (outer_task == 0) {
    tape_.backward_operation_ = 0;
    for (std::size_t i = 0; i < callbacks_.size(); ++i) callbacks_[i]();
    callbacks_.clear();
  }
}

void Engine::evaluate(Node* node) {
  const NodeRef keep(node);
  const StreamScope stream(tape_, node->stream);
  tape_.label().module = node->module;
  tape_.backward_operation_ = node->name;
  node->buffer.resize(std::max<std::size_t>(node->outputs.size(), 1));
  if (node->hooks)
    for (auto& hook : node->hooks->before) hook(node->buffer);
  if (node->leaf != nullptr) {
    accumulate_leaf(node);
  } else {
    node->outgoing.resize(node->edges.size());
    if (node->function)
      node->function->backward(*node, node->buffer, node->outgoing);
    else
      node->formula(*node, node->buffer, node->outgoing);
    tape_.label().module = node->module;
    tape_.backward_operation_ = node->name;
    validate(node);
  }
  if (node->hooks)
    for (auto& hook : node->hooks->after) hook();
  for (Tensor& gradient : node->buffer) gradient.reset();
  node->buffer.clear();
  for (SavedTensor& saved : node->saved) saved.reset();
  if (detects_anomaly_) look_for_nan(node);
  for (std::size_t i = 0; i < node->outgoing.size(); ++i)
    if (node->edges[i].node != nullptr) deliver(node->edges[i], node->stream, std::move(node->outgoing[i]));
  node->outgoing.clear();
}

void Engine::validate(Node* node) {
  for (std::size_t i = 0; i < node->outgoing.size(); ++i) {
    const Edge& edge = node->edges[i];
    Tensor& gradient = node->outgoing[i];
    if (edge.node == nullptr || !gradient.defined()) continue;
    const OutputMeta& meta = edge.node->outputs[edge.slot];
    if (!gradient.shape().same_sizes(meta.shape)) gradient = sum_to(std::move(gradient), meta.shape);
    if (gradient.dtype() != meta.dtype) gradient = to(std::move(gradient), meta.dtype);
  }
}

void Engine::look_for_nan(Node* node) {
  for (const Tensor& gradient : node->outgoing) {
    if (!gradient.defined()) continue;
    const Tensor flags = plain(kNan, DType::boolean, gradient);
    const Tensor any = reduce(kAny, DType::boolean, 1, flags, (1u << flags.rank()) - 1u, false);
  }
}

void Engine::accumulate_leaf(Node* node) {
  Tensor gradient = std::move(node->buffer[0]);
  if (!gradient.defined()) return;
  const Tensor leaf = Tensor::share(node->leaf);
  const ModuleScope module(tape_, leaf->storage->label.module);
  if (leaf->grad == nullptr) {
    // Kept without a copy when it lies in memory as the parameter does.
    const bool fits = gradient.shape().same_layout(like(leaf.shape()));
    if (!fits) gradient = clone_as(std::move(gradient), like(leaf.shape()));
    Tensor kept = tape_.alias(gradient, gradient.shape());
    gradient.reset();
    tape_.set_grad(leaf, std::move(kept));
  } else {
    add_in_place(leaf.grad(), gradient);
  }
  // What was added is let go when the hooks have run.
  if (leaf->hooks != nullptr)
    for (auto& hook : leaf->hooks->accumulated) hook(leaf);
}

/// Gradients are summed on the stream of the node that they are for; one made on another stream is in use on
/// both.
void Engine::deliver(const Edge& edge, Stream made_on, Tensor gradient) {
  Node* node = edge.node;
  const StreamScope stream(tape_, node->stream);
  if (gradient.defined() && node->stream != made_on && gradient->storage->block != kNoBlock) {
    tape_.memory().wait_stream(node->stream, made_on);
    tape_.memory().record_stream(gradient->storage->block, node->stream);
  }
  if (node->buffer.size() <= edge.slot) node->buffer.resize(edge.slot + 1u);
  Tensor& waiting = node->buffer[edge.slot];
  if (gradient.defined()) {
    if (!waiting.defined()) {
      waiting = std::move(gradient);
    } else if (!waiting->view && waiting->owners == 1 && waiting->storage->owners == 1) {
      add_in_place(waiting, gradient);
      gradient.reset();
    } else {
      waiting = add(waiting, gradient);
      gradient.reset();
    }
  }
  if (--node->waiting == 0) push_ready(node);
}

void backward(Engine& engine, const Tensor& loss) {
  Tape& tape = loss.tape();
  Tensor ones;
  {
    const ComponentScope component(tape, Component::temporaries);
    ones = tape.empty(like(loss.shape()), loss.dtype(), kOnes);
  }
  Tensor gradient = ones;
  engine.run({&loss, 1}, {&gradient, 1});
}

void backward(Engine& engine, const Tensor& output, Tensor gradient) {
  engine.run({&output, 1}, {&gradient, 1});
}

}  // namespace headroom::tape
