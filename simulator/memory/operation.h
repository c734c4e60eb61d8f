#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "models/base/bytes.h"
#include "models/base/dtype.h"
#include "simulator/memory/component.h"

namespace headroom {

/// Handles; never pointers, so that programs cannot look behind them.
enum class Block : std::uint32_t {};
inline constexpr Block kNoBlock{0xffffffffu};
enum class HostBlock : std::uint32_t {};
inline constexpr HostBlock kNoHostBlock{0xffffffffu};
using Stream = std::uint8_t;

enum class HostKind : std::uint8_t { pinned, pageable };

/// Why a block exists: which module and operation made it, and what it is for. Module and operation are
/// indices into the program's name tables.
struct Label {
  Component component = Component::other;
  std::uint8_t reserved = 0;
  std::uint16_t operation = 0;
  std::uint32_t module = 0;
};

/// Kinds of work that executors tell apart. Times come from flops and bytes; the GPU probe maps each to a
/// kernel.
enum class OperationKind : std::uint8_t {
  matmul,  ///< [M,K]x[K,N], batch in attributes
  attention_forward,
  attention_backward,
  norm_forward,
  norm_backward,
  elementwise,  ///< unary, binary, activation and their gradients
  reduce,
  softmax,  ///< softmax and log-softmax, forward and backward
  cross_entropy,
  embedding,
  embedding_backward,
  gather,
  copy,  ///< copies, casts, cat, fills
  dropout,
  rotary,
  sample,
  optimizer,
  host_to_device,
  device_to_host,
  all_gather,
  reduce_scatter,
  all_reduce,
  all_to_all,
  broadcast,
};

/// A tensor as an operation sees it: a dense range of a block, or of a block on the host. An operation that
/// names tensors on the host and moves nothing is the host's work.
struct Operand {
  Block block = kNoBlock;
  HostBlock host = kNoHostBlock;
  DType dtype = DType::bf16;
  Bytes offset = 0;
  std::int64_t elements = 0;
};

/// One piece of work. `sizes` by kind: matmul {M, N, K, batch}; attention {batch, query length, key length,
/// heads, kv heads, head_dim}; norm and softmax {rows, columns}; collectives {ranks}; others {elements}.
struct Operation {
  OperationKind kind = OperationKind::elementwise;
  Label label;
  Stream stream = 0;
  DType dtype = DType::bf16;
  std::array<std::int64_t, 6> sizes{};
  std::span<const Operand> inputs;
  std::span<const Operand> outputs;
  /// Kernels move one element at a time rather than 16 bytes: rows of a matrix that do not begin at multiples
  /// of 16 bytes, operands of an element-wise kernel whose layouts differ.
  bool by_element = false;
  double flops = 0;
  Bytes bytes = 0;  ///< read plus written on the device; for transfers and collectives: payload
};

}  // namespace headroom
