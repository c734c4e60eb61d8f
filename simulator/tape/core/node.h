#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "simulator/tape/core/tensor.h"

namespace headroom::tape {

/// Where a gradient goes: input `slot` of `node`. Owns a reference to the node.
struct Edge {
  Node* node = nullptr;
  std::uint16_t slot = 0;
};

/// What stands in for tensors that nodes save: checkpointing's placeholders, copies on the host.
class SavedTensorHooks {
 public:
  virtual ~SavedTensorHooks() = default;
  /// A tensor is about to be saved; the handle is what the node keeps instead.
  virtual std::uint64_t pack(const Tensor& tensor) = 0;
  /// The backward formula asks for it.
  virtual Tensor unpack(std::uint64_t handle) = 0;
  /// The node lets the handle go.
  virtual void release(std::uint64_t handle) = 0;
};

/// A tensor kept by a node until its backward has run, or a handle of the hooks that were active.
class SavedTensor {
 public:
  SavedTensor() = default;
  explicit SavedTensor(Tensor tensor) : tensor_(std::move(tensor)) {}
  SavedTensor(std::shared_ptr<SavedTensorHooks> hooks, std::uint64_t handle)
      : hooks_(std::move(hooks)), handle_(handle) {}
  SavedTensor(SavedTensor&&) = default;
  SavedTensor& operator=(SavedTensor&&) = default;
  ~SavedTensor() { reset(); }

  Tensor unpack() const { return hooks_ ? hooks_->unpack(handle_) : tensor_; }
  void reset() {
    if (hooks_) {
      hooks_->release(handle_);
      hooks_.reset();
    }
    tensor_.reset();
  }

 private:
  Tensor tensor_;
  std::shared_ptr<SavedTensorHooks> hooks_;
  std::uint64_t handle_ = 0;
};

/// The backward formula of a node: takes the gradients of its outputs (some may be undefined), fills those of
/// its inputs. Unpacked tensors and temporaries are C++ locals, so they go in reverse order of declaration
/// when the formula returns, as in PyTorch's generated code. Incoming gradients belong to the engine: a
/// formula that passes one on copies the handle.
using Formula = void (*)(Node& node, std::span<Tensor> incoming, std::span<Tensor> outgoing);

/// State and backward of a Python autograd function.
class Function {
 public:
  virtual ~Function() = default;
  virtual void backward(Node& node, std::span<Tensor> incoming, std::span<Tensor> outgoing) = 0;
};

struct NodeHooks {
  std::vector<std::function<void(std::span<Tensor>)>> before;  ///< with the complete incoming gradients
  std::vector<std::function<void()>> after;                    ///< when the node has run
};

/// Of a leaf: called after its gradient was accumulated.
struct LeafHooks {
  std::vector<std::function<void(const Tensor& leaf)>> accumulated;
};

/// The sizes and dtype of a node's output: gradients are summed and cast to them.
struct OutputMeta {
  Shape shape;
  DType dtype = DType::bf16;
};

/// One differentiable operation. Nodes are reused: vectors keep their capacity.
struct Node {
  Tape* tape = nullptr;
  std::uint32_t owners = 0;
  std::uint64_t sequence = 0;  ///< grows with creation; leaves' accumulators have the highest
  Formula formula = nullptr;
  std::uint16_t name = 0;          ///< operation name of its label
  std::uint32_t module = 0;        ///< that made it
  Stream stream = 0;               ///< that it was made on and runs on
  std::vector<Edge> edges;         ///< one an input
  std::vector<SavedTensor> saved;  ///< in release order
  std::vector<OutputMeta> outputs;
  std::array<std::int64_t, 6> numbers{};  ///< dimensions, lengths, counts
  Shape shape;                            ///< of an input, where the formula needs it
  std::vector<std::int64_t> cuts;         ///< lengths along a dimension: cat
  TensorRecord* leaf = nullptr;           ///< owned; of an accumulator
  std::unique_ptr<Function> function;
  std::unique_ptr<NodeHooks> hooks;
  // While a backward runs.
  std::uint32_t waiting = 0;     ///< deliveries still to come
  std::uint32_t task = 0;        ///< the backward that counted `waiting`
  std::vector<Tensor> buffer;    ///< gradients delivered so far, one an output
  std::vector<Tensor> outgoing;  ///< gradients of the inputs, while the node runs

  bool wants(std::size_t input) const { return input < edges.size() && edges[input].node != nullptr; }
  Tensor unpack(std::size_t index) const { return saved[index].unpack(); }
};

/// A counted reference to a node, for hooks that outlive a graph.
class NodeRef {
 public:
  NodeRef() = default;
  explicit NodeRef(Node* node) : node_(node) {
    if (node_ != nullptr) ++node_->owners;
  }
  NodeRef(NodeRef&& other) noexcept : node_(std::exchange(other.node_, nullptr)) {}
  NodeRef& operator=(NodeRef&& other) noexcept {
    std::swap(node_, other.node_);
    return *this;
  }
  NodeRef(const NodeRef& other) : NodeRef(other.node_) {}
  ~NodeRef();
  Node* get() const { return node_; }
  Node* operator->() const { return node_; }

 private:
  Node* node_ = nullptr;
};

}  // namespace headroom::tape
