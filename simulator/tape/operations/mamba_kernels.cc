#include "simulator/tape/operations/copy.h"
#include "simulator/tape/operations/linear.h"
#include "simulator/tape/operations/state_kernels.h"
#include "simulator/tape/operations/work.h"

namespace headroom::tape {
namespace {

const std::uint16_t kForward = operation_name("mamba_split_conv1d_scan_combined"),
                    kBackward = operation_name("MambaSplitConv1dScanCombinedFnBackward");

enum Slot { kProjected, kConvolution, kConvolutionBias, kDtBias, kDecay, kSkip, kNorm, kOutput, kOutputBias };

struct Scan {
  std::int64_t batch, tokens;
  Mamba2Sizes m;
  std::int64_t chunks() const { return ceil_div(tokens, m.chunk); }
  std::int64_t values() const { return m.heads * m.value_dim; }
  std::int64_t channels() const { return values() + 2 * m.groups * m.key_dim; }
  /// One number for every head and token, by chunks.
  Tensor numbers(Tape& tape, std::uint16_t name) const {
    return tape.empty({batch, m.heads, chunks(), m.chunk}, DType::fp32, name);
  }
  Tensor states(Tape& tape, DType dtype, std::uint16_t name) const {
    return tape.empty({batch, chunks(), m.heads, m.value_dim, m.key_dim}, dtype, name);
  }
  Tensor last(Tape& tape, std::uint16_t name) const {
    return tape.empty({batch, m.heads, m.value_dim, m.key_dim}, DType::fp32, name);
  }
  /// Products of a chunk's tokens with each other, of every group.
  Tensor pairs(Tape& tape, std::uint16_t name) const {
    return tape.empty({batch, chunks(), m.groups, m.chunk, m.chunk}, DType::fp32, name);
  }
  Tensor wide(Tape& tape, std::int64_t width, DType dtype, std::uint16_t name) const {
    return tape.empty({batch, tokens, width}, dtype, name);
  }
  double flops() const {
    const auto all = static_cast<double>(batch * tokens);
    return 2 * all *
           static_cast<double>(m.groups * m.chunk * m.key_dim + values() * (m.chunk + 2 * m.key_dim));
  }
};

void work(Tape& tape, std::uint16_t name, double flops, std::initializer_list<const Tensor*> in,
          const Tensor& out) {
  if (!tape.wants_operations()) return;
  Work work(tape, OperationKind::matmul, name);
  for (const Tensor* one : in) work.in(*one);
  work.out(out).flops(flops).run();
}

Scan scan_of(const Node& node, const Tensor& projected) {
  const auto& n = node.numbers;
  return {projected.size(0), projected.size(1), {n[0], n[1], n[2], n[3], n[4]}};
}

/// _mamba_chunk_scan_combined_bwd: makes the forward's parts again, then their gradients.
void scan_backward(Tape& tape, const Scan& scan, DType dtype, std::uint16_t name) {
  const Tensor sums = scan.numbers(tape, name), steps = scan.numbers(tape, name);
  const Tensor pairs = scan.pairs(tape, name);
  Tensor states = scan.states(tape, DType::fp32, name);
  {
    Tensor passed = scan.states(tape, dtype, name);
    const Tensor last = scan.last(tape, name);
    states = std::move(passed);
  }
  Tensor state_gradients = scan.states(tape, dtype, name);
  const Tensor own_sums = scan.numbers(tape, name);
  {
    Tensor passed = scan.states(tape, dtype, name);
    state_gradients = std::move(passed);
  }
  const Tensor step_gradients = scan.numbers(tape, name);
  const Mamba2Sizes& m = scan.m;
  const Tensor keys = tape.empty({scan.batch, scan.tokens, m.groups, m.key_dim}, DType::fp32, name);
  const Tensor queries = tape.empty({scan.batch, scan.tokens, m.groups, m.key_dim}, DType::fp32, name);
  const Tensor pair_gradients = scan.pairs(tape, name);
}

void backward(Node& node, std::span<Tensor> in, std::span<Tensor> out) {
  const Tensor projected = node.unpack(kProjected), result = node.unpack(1), rstd = node.unpack(2),
               output = node.unpack(3), convolution = node.unpack(4), bias = node.unpack(5),
               norm = node.unpack(6);
  Tape& tape = *node.tape;
  const Scan scan = scan_of(node, projected);
  const DType dtype = projected.dtype();
  const Tensor convolved = scan.wide(tape, scan.channels(), dtype, node.name);
  out[kProjected] = tape.empty(like(projected.shape()), dtype, node.name);
  const Tensor channels = scan.wide(tape, scan.channels(), dtype, node.name);
  const Tensor normed = scan.wide(tape, scan.values(), dtype, node.name);
  Tensor gradient = in[0];
  if (output.defined()) {
    gradient = scan.wide(tape, scan.values(), dtype, node.name);
    tape.matmul_workspace(false);
    work(tape, node.name, 2.0 * static_cast<double>(in[0].elements() * scan.values()), {&in[0], &output},
         gradient);
  }
  if (norm.defined()) {
    Tensor own = scan.wide(tape, scan.values(), dtype, node.name);
    const Tensor partial = tape.empty({tape.traits().multiprocessors, norm.size(0)}, DType::fp32, node.name);
    gradient = std::move(own);
  }
  scan_backward(tape, scan, dtype, node.name);
  work(tape, node.name, 4 * scan.flops(), {&gradient, &result, &convolved}, channels);
  for (const Slot slot : {kDtBias, kDecay, kSkip})
    if (node.wants(slot)) out[slot] = tape.empty({scan.m.heads}, DType::fp32, node.name);
  if (node.wants(kNorm)) out[kNorm] = tape.empty(like(norm.shape()), norm.dtype(), node.name);
  if (node.wants(kOutput)) {
    out[kOutput] = tape.empty(like(output.shape()), output.dtype(), node.name);
    work(tape, node.name, 2.0 * static_cast<double>(in[0].elements() * scan.values()), {&in[0], &normed},
         out[kOutput]);
  }
  if (node.wants(kOutputBias)) out[kOutputBias] = tape.empty({in[0].size(-1)}, dtype, node.name);
  const Tensor wide = tape.empty(like(convolution.shape()), DType::fp32, node.name);
  const Tensor wide_bias = tape.empty({scan.channels()}, DType::fp32, node.name);
  if (node.wants(kConvolution)) out[kConvolution] = to(wide, convolution.dtype());
  if (node.wants(kConvolutionBias)) out[kConvolutionBias] = to(wide_bias, bias.dtype());
}

}  // namespace

Tensor mamba2_combined(Arg projected, const Mamba2Weights& weights, const Mamba2Sizes& sizes) {
  Tape& tape = projected->tape();
  const Scan scan{projected->size(0), projected->size(1), sizes};
  const DType dtype = projected->dtype();
  Node* node = nullptr;
  if (tape.records(projected)) {
    node = tape.node(kBackward, backward,
                     {&*projected, &weights.convolution, &weights.convolution_bias, &weights.dt_bias,
                      &weights.decay, &weights.skip, &weights.norm, &weights.output, &weights.output_bias});
    node->numbers = {sizes.heads, sizes.groups, sizes.key_dim, sizes.value_dim, sizes.chunk};
  }
  Tensor out;
  {
    const GradMode inside(tape, false);
    const Tensor convolved = scan.wide(tape, scan.channels(), dtype, kForward);
    const Tensor sums = scan.numbers(tape, kForward), steps = scan.numbers(tape, kForward);
    const Tensor states = scan.states(tape, DType::fp32, kForward);
    const Tensor passed = scan.states(tape, dtype, kForward), last = scan.last(tape, kForward);
    const Tensor pairs = scan.pairs(tape, kForward);
    const Tensor result = scan.wide(tape, scan.values(), dtype, kForward);
    work(tape, kForward, scan.flops(), {&*projected, &convolved, &states, &pairs}, result);
    Tensor normed = scan.wide(tape, scan.values(), dtype, kForward), rstd;
    if (weights.norm.defined())
      rstd = tape.empty({sizes.groups * scan.batch * scan.tokens}, DType::fp32, kForward);
    work(tape, kForward, 0, {&*projected, &result}, normed);
    out = weights.output.defined() ? linear(normed, weights.output, weights.output_bias) : std::move(normed);
    if (node != nullptr)
      for (const Tensor& kept : {*projected, result, Tensor(rstd), weights.output, weights.convolution,
                                 weights.convolution_bias, weights.norm})
        tape.save(node, kept);
  }
  tape.attach(out, node);
  done(projected);
  return out;
}

}  // namespace headroom::tape
