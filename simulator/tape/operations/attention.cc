#include "simulator/tape/operations/attention.h"

#include <algorithm>

#include "simulator/tape/core/autocast.h"
#include "simulator/tape/operations/attention_work.h"
#include "simulator/tape/operations/dense_flash_attention.h"
#include "simulator/tape/operations/fp32_attention.h"

namespace headroom::tape {
namespace {

const std::uint16_t kAttention = operation_name("aten::scaled_dot_product_attention"),
                    kBias = operation_name("convert_boolean_attn_mask"),
                    kAttentionBackward = operation_name("ScaledDotProductCudnnAttentionBackward0");

/// The kernel's scratch memory forward, where it takes any.
constexpr Bytes kForwardWorkspace = 256;
constexpr Bytes kWorkspaceAlignment = 256;
/// Heads that kernels take: cuDNN multiples of so many numbers up to Hopper's limit (128 on Blackwell), the
/// memory-efficient one of so many bytes; flash at most so many numbers, for it pads by itself.
constexpr std::int64_t kCudnnAlignment = 8, kCudnnHead = 256, kFlashHead = 256;
constexpr Bytes kEfficientAlignment = 16;

/// fp32 accumulators of dq, and row sums; for grouped queries another set of accumulators before them, up to
/// the next multiple of the scratch memory's alignment.
Bytes backward_workspace(const Shape& query, std::int64_t kv_heads) {
  const std::int64_t rows = query[0] * query[1] * query[2];
  const Bytes accumulators = rows * query[3] * 4;
  const Bytes grouped = kv_heads < query[1] ? round_up(accumulators, kWorkspaceAlignment) : 0;
  return grouped + accumulators + rows * 4 + kForwardWorkspace;
}

void cudnn_backward(Node& node, std::span<Tensor> in, std::span<Tensor> out) {
  constexpr std::size_t kSavedBias = 7;
  const Tensor bias = node.saved.size() > kSavedBias ? node.unpack(kSavedBias) : Tensor();
  const Tensor key = node.unpack(0), query = node.unpack(1), value = node.unpack(2);
  const Tensor logsumexp = node.unpack(3), result = node.unpack(4), offset = node.unpack(5),
               seed = node.unpack(6);
  Tape& tape = *node.tape;
  out[0] = tape.empty(like(query.shape()), query.dtype(), node.name);
  out[1] = tape.empty(like(key.shape()), key.dtype(), node.name);
  out[2] = tape.empty(like(value.shape()), value.dtype(), node.name);
  const Tensor workspace =
      tape.empty({backward_workspace(query.shape(), key.size(1))}, DType::uint8, node.name);
  attention_backward_work(node.name, in[0], {query, key, value, result, logsumexp}, workspace, out,
                          full_attention(query, key, 5));
}

/// Whether PyTorch lets `kernel` have the operands (sdp_utils.cpp: can_use_*_attention).
bool takes(AttentionBackend kernel, const Tensor& query, const Tensor& key, const Tensor& value,
           const Tensor& bias) {
  const bool grouped = key.size(1) != query.size(1), wide = query.dtype() == DType::fp32;
  const std::int64_t head = query.size(3), value_head = value.size(3);
  const auto multiples = [&](std::int64_t of) { return head % of == 0 && value_head % of == 0; };
  switch (kernel) {
    case AttentionBackend::cudnn:
      return !wide && multiples(kCudnnAlignment) && std::max(head, value_head) <= kCudnnHead;
    case AttentionBackend::flash:
      return !wide && !bias.defined() && head == value_head && head <= kFlashHead;
    case AttentionBackend::efficient:
      return !grouped && multiples(kEfficientAlignment / element_size(query.dtype()));
    case AttentionBackend::math:
      break;
  }
  return true;
}

/// The first kernel of PyTorch's order that takes the operands; the order begins with the GPU's favourite
/// (sdp_utils.cpp: select_sdp_backend).
AttentionBackend kernel_for(const Tape& tape, const Tensor& query, const Tensor& key, const Tensor& value,
                            const Tensor& bias) {
  // No kernel knows grouped heads behind a mask: PyTorch is not told that they are grouped.
  const bool grouped_mask = key.size(1) != query.size(1) && bias.defined();
  AttentionBackend kernel = grouped_mask ? AttentionBackend::math : tape.traits().attention;
  while (!takes(kernel, query, key, value, bias))
    kernel = static_cast<AttentionBackend>(static_cast<int>(kernel) + 1);
  return kernel;
}

/// A mask as numbers of the query's dtype.
Tensor numbers_of(const Tensor& mask, DType dtype) {
  if (!mask.defined() || mask.dtype() != DType::boolean) return mask;
  Tape& tape = mask.tape();
  Tensor zero = tape.empty({}, dtype, kBias), lowest = tape.empty({}, dtype, kBias);
  Tensor bias = tape.empty(Shape::contiguous(mask.shape().sizes()), dtype, kBias);
  drop(lowest, zero);
  return bias;
}

Tensor attention(Arg query, Arg key, Arg value, const Tensor& mask, bool causal) {
  Tape& tape = query->tape();
  Tensor v = autocast_cast(*value, tape);
  Tensor k = autocast_cast(*key, tape);
  Tensor q = autocast_cast(*query, tape);
  Tensor bias = numbers_of(mask, q.dtype());
  const AttentionBackend kernel = kernel_for(tape, q, k, v, bias);
  if (kernel != AttentionBackend::cudnn) {
    const GroupedHeads form = bias.defined() ? GroupedHeads::broadcast : GroupedHeads::repeated;
    Tensor out = kernel == AttentionBackend::flash       ? dense_flash_attention(q, k, v, causal)
                 : kernel == AttentionBackend::efficient ? efficient_attention(q, k, v, bias)
                                                         : composite_attention(q, k, v, bias, causal, form);
    drop(q, k, v, bias);
    done(query, key, value);
    return out;
  }
  Node* node = nullptr;
  const bool recorded = tape.grad_enabled() && (q.requires_grad() || k.requires_grad() || v.requires_grad());
  if (recorded) {
    node = tape.node(kAttentionBackward, cudnn_backward, {&q, &k, &v});
    tape.save(node, k);
    tape.save(node, q);
    tape.save(node, v);
  }
  Tensor seed = tape.empty({}, DType::int64, kAttention);
  Tensor offset = tape.empty({}, DType::int64, kAttention);
  Shape shape = q.shape();
  shape.size[3] = v.size(3);
  Tensor out = tape.empty(like(shape), q.dtype(), kAttention);
  Tensor logsumexp;
  if (recorded) logsumexp = tape.empty({q.size(0), q.size(1), q.size(2), 1}, DType::fp32, kAttention);
  Tensor workspace;
  if (q.size(2) > 1) {
    const ComponentScope component(tape, Component::temporaries);
    workspace = tape.empty({kForwardWorkspace}, DType::uint8, kAttention);
  }
  attention_forward_work(kAttention, q, k, v, workspace, out, logsumexp,
                         full_attention(q, k, causal && q.size(2) > 1 ? 1 : 2));
  workspace.reset();
  if (node != nullptr) {
    tape.save(node, logsumexp);
    tape.save(node, out);
    tape.save(node, offset);
    tape.save(node, seed);
    if (bias.defined()) tape.save(node, bias);
  }
  tape.attach(out, node);
  drop(logsumexp, seed, offset, bias);
  drop(q, k, v);
  done(query, key, value);
  return out;
}

}  // namespace

Tensor scaled_dot_product_attention(Arg query, Arg key, Arg value, bool causal) {
  return attention(query.pass(), key.pass(), value.pass(), {}, causal);
}

Tensor masked_attention(Arg query, Arg key, Arg value, const Tensor& mask) {
  return attention(query.pass(), key.pass(), value.pass(), mask, false);
}

}  // namespace headroom::tape
