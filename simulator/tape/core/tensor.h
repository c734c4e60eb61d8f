#pragma once

#include <cstdint>
#include <utility>

#include "models/base/bytes.h"
#include "models/base/dtype.h"
#include "simulator/memory/memory.h"
#include "simulator/tape/core/shape.h"

namespace headroom::tape {

class Tape;
struct Node;
struct LeafHooks;

enum class Device : std::uint8_t { gpu, pinned_host, pageable_host };

/// Memory with owners: a block of a Memory, given back when the last tensor on it goes.
struct Storage {
  Tape* tape = nullptr;
  std::uint32_t owners = 0;
  Device device = Device::gpu;
  Block block = kNoBlock;
  HostBlock host = kNoHostBlock;
  Bytes bytes = 0;
  Label label;
};

/// A tensor: a shape and dtype on a storage, with its place in the autograd graph.
struct TensorRecord {
  std::uint32_t owners = 0;
  std::uint16_t output = 0;  ///< which output of `producer`
  DType dtype = DType::bf16;
  bool view = false;           ///< made by a view: its base counts as a second owner of the storage
  bool requires_grad = false;  ///< of a leaf
  Storage* storage = nullptr;
  Bytes offset = 0;  ///< bytes into the storage, for executors that compute
  Shape shape;
  Node* producer = nullptr;      ///< owned; null for leaves
  Node* accumulator = nullptr;   ///< of a leaf; not owned: lives as long as a graph or hook needs it
  TensorRecord* grad = nullptr;  ///< owned
  LeafHooks* hooks = nullptr;    ///< of a leaf; owned
};

/// A counted reference to a tensor: what a Python variable, a container's element or a saved variable is.
/// Moving is free; copying counts. The last reference to go frees the storage at that moment.
class Tensor {
 public:
  Tensor() = default;
  /// Adopts a reference that is already counted.
  static Tensor adopt(TensorRecord* record) {
    Tensor t;
    t.record_ = record;
    return t;
  }
  static Tensor share(TensorRecord* record) {
    if (record != nullptr) ++record->owners;
    return adopt(record);
  }
  Tensor(const Tensor& other) : record_(other.record_) {
    if (record_ != nullptr) ++record_->owners;
  }
  Tensor(Tensor&& other) noexcept : record_(std::exchange(other.record_, nullptr)) {}
  /// Assignment keeps Python's order: the new value exists before the old one goes.
  Tensor& operator=(const Tensor& other) {
    Tensor copy(other);
    std::swap(record_, copy.record_);
    return *this;
  }
  Tensor& operator=(Tensor&& other) noexcept {
    if (this != &other) {
      TensorRecord* old = std::exchange(record_, std::exchange(other.record_, nullptr));
      drop(old);
    }
    return *this;
  }
  ~Tensor() { drop(record_); }

  void reset() { drop(std::exchange(record_, nullptr)); }
  /// Gives up the reference without counting it down.
  TensorRecord* release() { return std::exchange(record_, nullptr); }

  bool defined() const { return record_ != nullptr; }
  explicit operator bool() const { return defined(); }
  TensorRecord* record() const { return record_; }
  TensorRecord* operator->() const { return record_; }

  const Shape& shape() const { return record_->shape; }
  DType dtype() const { return record_->dtype; }
  std::int64_t size(int dimension) const { return record_->shape[dimension]; }
  int rank() const { return record_->shape.rank; }
  std::int64_t elements() const { return record_->shape.elements(); }
  Bytes bytes() const { return bytes_of(record_->dtype, elements()); }
  Tape& tape() const { return *record_->storage->tape; }
  bool requires_grad() const { return record_->requires_grad || record_->producer != nullptr; }
  bool is_leaf() const { return record_->producer == nullptr; }
  Tensor grad() const { return share(record_->grad); }

 private:
  static void drop(TensorRecord* record) {
    if (record != nullptr && --record->owners == 0) destroy(record);
  }
  static void destroy(TensorRecord* record);

  TensorRecord* record_ = nullptr;
};

/// An operand: `f(x)` borrows x, `f(std::move(x))` hands it over, so that it goes when the operator is done,
/// operands from left to right, as an expression's temporaries do in Python. Operators end with `done(...)`.
class Arg {
 public:
  Arg(const Tensor& tensor) : tensor_(const_cast<Tensor*>(&tensor)), owned_(false) {}  // NOLINT
  Arg(Tensor&& tensor) : tensor_(&tensor), owned_(true) {}                             // NOLINT
  const Tensor& operator*() const { return *tensor_; }
  const Tensor* operator->() const { return tensor_; }
  bool defined() const { return tensor_->defined(); }
  void release() {
    if (owned_) tensor_->reset();
  }
  /// As an operand of an inner operator that ends the same reference.
  Arg pass() const { return *this; }

 private:
  Tensor* tensor_;
  bool owned_;
};

template <typename... Args>
void done(Args&... args) {
  (args.release(), ...);
}

/// Lets go of variables in the order given: at the end of a Python function, arguments first, then locals in
/// the order of their first assignment.
template <typename... Tensors>
void drop(Tensors&... tensors) {
  (tensors.reset(), ...);
}

}  // namespace headroom::tape
