#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "models/base/bytes.h"
#include "simulator/memory/memory.h"
#include "simulator/tape/core/names.h"
#include "simulator/tape/core/node.h"
#include "simulator/tape/core/pool.h"
#include "simulator/tape/core/tensor.h"

namespace headroom::tape {

/// Which kernel `scaled_dot_product_attention` picks when nothing forbids it.
enum class AttentionBackend : std::uint8_t { cudnn, flash, efficient, math };

/// What of the GPU and its libraries decides allocations.
struct DeviceTraits {
  std::int64_t multiprocessors = 132;
  std::int64_t threads_per_multiprocessor = 2048;
  Bytes cublas_workspace = 32 * kMiB;  ///< Hopper and newer; 8,519,680 before
  Bytes cublaslt_workspace = 1 * kMiB;
  AttentionBackend attention = AttentionBackend::cudnn;
};

/// Threads with library handles of their own.
enum class Thread : std::uint8_t { main, autograd };

/// The casts of an autocast region's leaves, in the order of their making. They are made with gradients on in
/// any case, so their graphs hold the leaves.
struct AutocastState {
  bool enabled = false;
  DType dtype = DType::bf16;
  int depth = 0;
  std::vector<std::pair<Tensor, Tensor>> cache;
};

/// Eager PyTorch without numbers: tensors with owners, an autograd graph, and the modes that decide what
/// operators allocate and keep. Operators (`tape/operations`) are free functions over tensors; programs
/// (`tape/modules`, `tape/generate`, sharding runtimes) call them in the order in which the Python code does
/// and let go of variables where Python does. Every allocation and free reaches the Memory at that moment.
///
/// One Tape is one process on one device, used from one thread; tensors must not outlive it. After warm-up
/// nothing is allocated on the host by an operation.
class Tape {
 public:
  explicit Tape(Memory& memory, const DeviceTraits& traits = {}) : memory_(memory), traits_(traits) {}
  Tape(const Tape&) = delete;
  Tape& operator=(const Tape&) = delete;
  ~Tape();

  Memory& memory() { return memory_; }
  const DeviceTraits& traits() const { return traits_; }
  ModuleNames& modules() { return modules_; }

  // --- Tensors
  /// Uninitialised memory on the device, labelled with the current module, component and `operation`.
  Tensor empty(const Shape& shape, DType dtype, std::uint16_t operation);
  Tensor empty_host(const Shape& shape, DType dtype, HostKind kind);
  /// Another tensor on the base's storage, `elements` further in. Not differentiable: see operations/views.h.
  Tensor alias(const Tensor& base, const Shape& shape, std::int64_t elements = 0, bool view = true);
  /// A leaf parameter: `empty` with the component `weights`.
  /// While `meta_parameters` is set it has a shape and no memory (made on the host, or on PyTorch's meta
  /// device).
  Tensor parameter(const Shape& shape, DType dtype, bool requires_grad);
  /// Frees the memory of the tensor's storage (every view stays valid and empty), or takes it anew.
  void shrink_storage(const Tensor& tensor);
  void regrow_storage(const Tensor& tensor, Bytes bytes);
  void relabel(const Tensor& tensor, Component component);
  /// `tensor.data = data`: the same tensor on another storage; the old one goes.
  void set_data(const Tensor& tensor, const Tensor& data);
  /// Makes `tensor` the leaf's gradient (which may be undefined).
  void set_grad(const Tensor& leaf, Tensor gradient);

  // --- Autograd graph
  bool grad_enabled() const { return grad_enabled_; }
  template <typename... Args>
  bool records(const Args&... args) const {
    return grad_enabled_ && (((args).defined() && (*args).requires_grad()) || ...);
  }
  /// A node with one edge an input (none for inputs that need no gradient), numbered now.
  Node* node(std::uint16_t name, Formula formula, std::initializer_list<const Tensor*> inputs);
  Node* node(std::uint16_t name, Formula formula, std::span<const Tensor* const> inputs);
  /// Keeps a tensor for the formula; slots are counted in call order, which is also the release order.
  void save(Node* node, const Tensor& tensor);
  /// An empty slot, where a formula's slot is not needed this time.
  void save_nothing(Node* node) { node->saved.emplace_back(); }
  /// `output` number `index` of the node; with a null node nothing happens.
  void attach(Tensor& output, Node* node, std::uint16_t index = 0);
  Node* accumulator(const Tensor& leaf);
  LeafHooks& leaf_hooks(const Tensor& leaf);
  static NodeHooks& hooks(Node& node);

  // --- Modes
  /// The node whose formula runs: it names every block made inside. 0 outside formulas.
  std::uint16_t operation() const { return backward_operation_; }
  void set_operation(std::uint16_t name) { backward_operation_ = name; }
  Label& label() { return label_; }
  AutocastState& autocast() { return autocast_; }
  /// Whether nobody asked for `operation` before: what a process sets up once.
  bool first(std::uint16_t operation);
  Stream stream() const { return stream_; }
  void set_stream(Stream stream) { stream_ = stream; }
  /// Active saved-tensor hooks, the innermost last.
  std::vector<std::shared_ptr<SavedTensorHooks>>& saved_tensor_hooks() { return saved_tensor_hooks_; }
  /// From a checkpoint's early stop to the end of its recomputation nothing is allocated or saved: what
  /// Python does by raising.
  bool stopped() const { return stopped_; }
  void set_stopped(bool stopped) { stopped_ = stopped; }
  /// Whether DeepSpeed's function for partitioned weights stands in the place of torch.nn.functional.linear.
  bool zero3_linears() const { return zero3_linears_; }
  void set_zero3_linears(bool on) { zero3_linears_ = on; }
  bool meta_parameters() const { return meta_parameters_; }
  void set_meta_parameters(bool meta) { meta_parameters_ = meta; }
  Thread thread() const { return thread_; }
  std::uint32_t backward_depth() const { return backward_depth_; }

  // --- Library workspaces
  /// Called by matrix products after their output exists: the thread's first one takes the cuBLAS workspace.
  void matmul_workspace(bool with_bias);

  // --- Operations for executors that work
  bool wants_operations() const { return memory_.wants_operations(); }

 private:
  friend class Tensor;
  friend class NodeRef;
  friend class Engine;
  friend class GradMode;
  friend class ThreadScope;

  Storage* take_storage();
  TensorRecord* take_record(Storage* storage, const Shape& shape, DType dtype);
  void drop_storage(Storage* storage);
  void destroy_record(TensorRecord* record);
  void drop_node(Node* node);
  void add_edge(Node* node, const Tensor* input);
  Node* take_node();

  Memory& memory_;
  DeviceTraits traits_;
  ModuleNames modules_;
  Label label_{.component = Component::activations};
  std::uint16_t backward_operation_ = 0;
  bool grad_enabled_ = true;
  bool stopped_ = false;
  bool meta_parameters_ = false;
  bool zero3_linears_ = false;
  Thread thread_ = Thread::main;
  Stream stream_ = 0;
  std::uint64_t sequence_ = 0;
  std::uint32_t backward_depth_ = 0;
  std::uint32_t backward_task_ = 0;
  AutocastState autocast_;
  std::vector<std::uint16_t> set_up_;
  std::vector<std::shared_ptr<SavedTensorHooks>> saved_tensor_hooks_;
  Pool<Storage> storages_;
  Pool<TensorRecord> records_;
  Pool<Node> nodes_;
  std::vector<Node*> dying_;  ///< nodes without owners, let go one after the other rather than recursively
  bool burying_ = false;
  struct Workspaces {
    Tensor cublas, cublaslt;
  };
  static constexpr std::size_t kStreams = 8;
  std::array<std::array<Workspaces, kStreams>, 2> workspaces_;
};

/// torch.no_grad() / enable_grad() for a C++ scope.
class GradMode {
 public:
  GradMode(Tape& tape, bool enabled) : tape_(tape), before_(tape.grad_enabled_) {
    tape.grad_enabled_ = enabled;
  }
  ~GradMode() { tape_.grad_enabled_ = before_; }
  GradMode(const GradMode&) = delete;
  GradMode& operator=(const GradMode&) = delete;

 private:
  Tape& tape_;
  bool before_;
};

/// Blocks made inside are labelled with this module.
class ModuleScope {
 public:
  ModuleScope(Tape& tape, std::uint32_t module) : label_(tape.label()), before_(label_.module) {
    label_.module = module;
  }
  ~ModuleScope() { label_.module = before_; }
  ModuleScope(const ModuleScope&) = delete;
  ModuleScope& operator=(const ModuleScope&) = delete;

 private:
  Label& label_;
  std::uint32_t before_;
};

/// Blocks made inside are counted to this component.
class ComponentScope {
 public:
  ComponentScope(Tape& tape, Component component) : label_(tape.label()), before_(label_.component) {
    label_.component = component;
  }
  ~ComponentScope() { label_.component = before_; }
  ComponentScope(const ComponentScope&) = delete;
  ComponentScope& operator=(const ComponentScope&) = delete;

 private:
  Label& label_;
  Component before_;
};

/// torch.cuda.stream(...) for a C++ scope.
class StreamScope {
 public:
  StreamScope(Tape& tape, Stream stream) : tape_(tape), before_(tape.stream()) { tape.set_stream(stream); }
  ~StreamScope() { tape_.set_stream(before_); }
  StreamScope(const StreamScope&) = delete;
  StreamScope& operator=(const StreamScope&) = delete;

 private:
  Tape& tape_;
  Stream before_;
};

}  // namespace headroom::tape
