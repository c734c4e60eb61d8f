#include "simulator/time/kernel_seconds.h"

#include <algorithm>

#include "simulator/time/rates.h"

namespace headroom {
namespace {

/// Of the bytes a second that a plain elementwise kernel moves, what others reach. Measured on H200, PyTorch
/// 2.11, CUDA 13.0 (validator/results/h200-2026-11-28-3, parts memory and optimizer), each where the tensors
/// are larger than the cache.
struct MemoryShare {
  OperationKind kind;
  double forward, backward;
};
constexpr MemoryShare kShares[] = {
    {OperationKind::norm_forward, 0.50, 0.50},
    {OperationKind::norm_backward, 0.50, 0.45},
    {OperationKind::softmax, 0.49, 0.73},
    {OperationKind::cross_entropy, 0.48, 0.56},
    {OperationKind::copy, 0.75, 0.75},
    {OperationKind::embedding, 0.60, 0.60},
    {OperationKind::embedding_backward, 0.30, 0.30},
    {OperationKind::gather, 0.60, 0.80},
};
/// Elements a second and multiprocessor of kernels that move them one by one: strided and broadcast operands.
/// Measured on H200 by kernel, in passes of Llama 1B, OPT 1.3B, GPT-2 medium and Qwen2 1.5B on 4,096 tokens
/// (validator/results/2xh200-2026-11-29, part breakdown): products with a norm's weights and rotary angles 345 to
/// 365, copies of a logits' slice 437, joined halves 224 times 10^9 a second on 132 multiprocessors.
constexpr double kElementwiseElements = 2.6e9, kCopiedElements = 3.3e9, kJoinedElements = 1.7e9;
/// Of the matrix rate, what products reach whose rows are not aligned to 16 bytes (a vocabulary of 50,257): cuBLAS
/// takes kernels of an older generation. Same measurement.
constexpr double kUnaligned = 0.10, kUnalignedBackward = 0.145;
constexpr double kWideningCast = 0.48;  ///< 2-byte numbers to 4-byte ones
constexpr double kFusedStep = 0.65, kForeachStep = 0.26, kLoopStep = 0.29;
/// Sorting and summing what falls together, drawing from a distribution: several small kernels.
constexpr double kScatterSeconds = 70e-6, kSampleSeconds = 110e-6;

/// PyTorch's attention kernels on Hopper: seconds before and after the work, and of the matrix rate the share
/// of heads up to 64 and larger ones; blocks on the diagonal cost as many further keys. Same measurement,
/// part attention (lengths 256 to 16,384).
struct AttentionRate {
  double start, narrow, wide, further_keys;
};
constexpr AttentionRate kForward{6e-6, 0.41, 0.62, 256}, kBackward{20e-6, 0.29, 0.50, 512};

bool widens(const Operation& o) {
  return !o.inputs.empty() && !o.outputs.empty() &&
         element_size(o.inputs.front().dtype) < element_size(o.outputs.front().dtype);
}

double memory_share(const Operation& o, KernelForm form) {
  if (o.kind == OperationKind::optimizer)
    return form == KernelForm::foreach_step ? kForeachStep
           : form == KernelForm::loop_step  ? kLoopStep
                                            : kFusedStep;
  if (o.kind == OperationKind::copy && widens(o)) return kWideningCast;
  for (const MemoryShare& share : kShares)
    if (share.kind == o.kind) return form == KernelForm::backward ? share.backward : share.forward;
  return 1;
}

/// A product by its arithmetic and its traffic; grouped ones (experts) read every group's weights. Operands
/// decide the units: sums may go into wider numbers. fp32 runs on the TF32 units, as loops that allow it do.
double product_seconds(const Operation& o, KernelForm form, const Hardware& hardware) {
  const DType dtype = o.inputs.empty() ? o.dtype : o.inputs.front().dtype;
  const bool tf32 = dtype == DType::fp32 && hardware.matrix.tf32 > 0;
  const double rate = tf32 ? hardware.matrix.tf32 : hardware.matrix.of(dtype);
  const double moved = static_cast<double>(o.bytes) / hardware.memory_bandwidth;
  double computed = hardware.matrix_efficiency.seconds(o.flops / rate);
  if (o.by_element && element_size(dtype) == 2)
    computed = std::max(
        computed, o.flops / (rate * (form == KernelForm::backward ? kUnalignedBackward : kUnaligned)));
  return hardware.latencies.kernel + std::max(computed, hardware.memory_efficiency.seconds(moved));
}

double by_element_seconds(const Operation& o, const Hardware& hardware) {
  if (o.outputs.empty() || hardware.multiprocessors <= 0) return 0;
  const double rate = o.kind != OperationKind::copy ? kElementwiseElements
                      : o.inputs.size() > 1         ? kJoinedElements
                                                    : kCopiedElements;
  return hardware.latencies.kernel + static_cast<double>(o.outputs.front().elements) /
                                         (rate * static_cast<double>(hardware.multiprocessors));
}

double group_seconds(const Operation& o, Collective kind, const Hardware& hardware,
                     std::int64_t gpus_per_node) {
  const std::int64_t ranks = std::max<std::int64_t>(1, o.sizes[0]);
  return collective_seconds(hardware, kind, o.bytes,
                            {.ranks = ranks, .nodes = std::min(ranks, ceil_div(ranks, gpus_per_node))});
}

}  // namespace

KernelForm kernel_form(std::string_view operation) {
  if (operation == "aten::_foreach_adamw_") return KernelForm::foreach_step;
  if (operation == "aten::adamw") return KernelForm::loop_step;
  if (operation == "aten::_fused_adamw_") return KernelForm::fused_step;
  return operation.find("Backward") != std::string_view::npos ? KernelForm::backward : KernelForm::forward;
}

double attention_seconds(const Hardware& hardware, DType dtype, double flops, Bytes bytes,
                         std::int64_t queries, std::int64_t keys, std::int64_t head_dim, bool backward) {
  constexpr std::int64_t kNarrow = 64;
  const AttentionRate& rate = backward ? kBackward : kForward;
  const double moved = memory_seconds(hardware, bytes);
  if (queries <= 1) return moved;
  const double share = head_dim <= kNarrow ? rate.narrow : rate.wide;
  const double more = 1 + rate.further_keys / static_cast<double>(std::max<std::int64_t>(1, keys));
  return rate.start + std::max(moved, flops * more / (share * hardware.matrix.of(dtype)));
}

Spent spent_on(OperationKind kind) {
  switch (kind) {
    case OperationKind::matmul:
    case OperationKind::attention_forward:
    case OperationKind::attention_backward:
      return Spent::matrix;
    case OperationKind::host_to_device:
    case OperationKind::device_to_host:
      return Spent::copies;
    case OperationKind::all_gather:
    case OperationKind::reduce_scatter:
    case OperationKind::all_reduce:
    case OperationKind::all_to_all:
    case OperationKind::broadcast:
      return Spent::network;
    default:
      return Spent::memory;
  }
}

double kernel_seconds(const Operation& o, KernelForm form, const Hardware& hardware,
                      std::int64_t gpus_per_node) {
  switch (o.kind) {
    case OperationKind::matmul:
      return product_seconds(o, form, hardware);
    case OperationKind::attention_forward:
      return attention_seconds(hardware, o.dtype, o.flops, o.bytes, o.sizes[1], o.sizes[2], o.sizes[5],
                               false);
    case OperationKind::attention_backward: {
      // The program counts the whole square; decoders' kernels leave out what lies above the diagonal.
      const double causal = o.sizes[1] == o.sizes[2] ? 0.5 : 1.0;
      return attention_seconds(hardware, o.dtype, causal * o.flops, o.bytes, o.sizes[1], o.sizes[2],
                               o.sizes[5], true);
    }
    case OperationKind::host_to_device:
    case OperationKind::device_to_host:
      return host_transfer_seconds(hardware, o.bytes);
    case OperationKind::all_gather:
      return group_seconds(o, Collective::all_gather, hardware, gpus_per_node);
    case OperationKind::reduce_scatter:
      return group_seconds(o, Collective::reduce_scatter, hardware, gpus_per_node);
    case OperationKind::all_reduce:
      return group_seconds(o, Collective::all_reduce, hardware, gpus_per_node);
    case OperationKind::all_to_all:
      return group_seconds(o, Collective::all_to_all, hardware, gpus_per_node);
    case OperationKind::broadcast:
      return group_seconds(o, Collective::broadcast, hardware, gpus_per_node);
    default:
      break;
  }
  if (o.bytes == 0) return 0;
  const double more = o.kind == OperationKind::embedding_backward ? kScatterSeconds
                      : o.kind == OperationKind::sample           ? kSampleSeconds
                                                                  : 0;
  const double moved =
      memory_seconds(hardware, static_cast<Bytes>(static_cast<double>(o.bytes) / memory_share(o, form)));
  return more + (o.by_element ? std::max(moved, by_element_seconds(o, hardware)) : moved);
}

}  // namespace headroom
