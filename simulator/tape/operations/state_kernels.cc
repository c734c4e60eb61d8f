#include "simulator/tape/operations/state_kernels.h"

#include "simulator/tape/operations/copy.h"
#include "simulator/tape/operations/work.h"

namespace headroom::tape {
namespace {

const std::uint16_t kConvolution = operation_name("causal_conv1d_fwd"),
                    kConvolutionBackward = operation_name("CausalConv1dFnBackward"),
                    kNorm = operation_name("layer_norm_gated_fwd"),
                    kNormBackward = operation_name("LayerNormGatedFunctionBackward"),
                    kDelta = operation_name("chunk_gated_delta_rule_fwd"),
                    kDeltaBackward = operation_name("ChunkGatedDeltaRuleFunctionBackward");

Tensor beside(const Tensor& x, std::uint16_t name) {
  return x.tape().empty(like(x.shape()), x.dtype(), name);
}

Tensor wide_beside(const Tensor& x, std::uint16_t name) {
  return x.tape().empty(like(x.shape()), DType::fp32, name);
}

void work(std::uint16_t name, double flops, std::initializer_list<const Tensor*> in,
          std::initializer_list<const Tensor*> out) {
  Tape& tape = (*in.begin())->tape();
  if (!tape.wants_operations()) return;
  Work work(tape, flops > 0 ? OperationKind::matmul : OperationKind::elementwise, name);
  for (const Tensor* one : in) work.in(*one);
  for (const Tensor* one : out) work.out(*one);
  work.flops(flops).run();
}

void convolution_backward(Node& node, std::span<Tensor> in, std::span<Tensor> out) {
  const Tensor x = node.unpack(0), weight = node.unpack(1), bias = node.unpack(2);
  out[0] = beside(x, node.name);
  const Tensor wide = wide_beside(weight, node.name);
  Tensor wide_bias;
  if (bias.defined()) wide_bias = wide_beside(bias, node.name);
  work(node.name, 0, {&in[0], &x, &weight}, {&out[0], &wide});
  if (node.wants(1)) out[1] = to(wide, weight.dtype());
  if (node.wants(2)) out[2] = to(wide_bias, bias.dtype());
}

void norm_backward(Node& node, std::span<Tensor> in, std::span<Tensor> out) {
  const Tensor x = node.unpack(0), gate = node.unpack(1), weight = node.unpack(2), rstd = node.unpack(3);
  Tape& tape = *node.tape;
  out[0] = beside(x, node.name);
  out[1] = beside(gate, node.name);
  const Tensor partial = tape.empty({tape.traits().multiprocessors, weight.size(0)}, DType::fp32, node.name);
  work(node.name, 0, {&in[0], &x, &gate, &weight, &rstd}, {&out[0], &out[1], &partial});
  if (node.wants(2)) out[2] = beside(weight, node.name);
}

/// Sizes of one call: [B,T,H] heads with keys K and values V, in chunks.
struct Delta {
  std::int64_t batch, tokens, heads, key, value, chunk;
  std::int64_t chunks() const { return ceil_div(tokens, chunk); }
  Tensor keys(Tape& tape, DType dtype, std::uint16_t name) const {
    return tape.empty({batch, tokens, heads, key}, dtype, name);
  }
  Tensor values(Tape& tape, DType dtype, std::uint16_t name) const {
    return tape.empty({batch, tokens, heads, value}, dtype, name);
  }
  Tensor states(Tape& tape, DType dtype, std::uint16_t name) const {
    return tape.empty({batch, chunks(), heads, key, value}, dtype, name);
  }
  Tensor triangles(Tape& tape, DType dtype, std::uint16_t name) const {
    return tape.empty({batch, tokens, heads, chunk}, dtype, name);
  }
  Tensor numbers(Tape& tape, std::uint16_t name) const {
    return tape.empty({batch, tokens, heads}, DType::fp32, name);
  }
  /// Of one pass: every token with its chunk, and with the state.
  double flops() const {
    const auto all = static_cast<double>(batch * tokens * heads);
    return 2 * all * static_cast<double>(chunk * (2 * key + 2 * value) + 3 * key * value);
  }
};

Delta delta_of(const Tensor& key, const Tensor& value, std::int64_t chunk) {
  return {key.size(0), key.size(1), key.size(2), key.size(3), value.size(3), chunk};
}

void delta_backward(Node& node, std::span<Tensor> in, std::span<Tensor> out) {
  const Tensor query = node.unpack(0), query_rstd = node.unpack(1), key = node.unpack(2),
               key_rstd = node.unpack(3), value = node.unpack(4), sums = node.unpack(5),
               beta = node.unpack(6), triangles = node.unpack(7);
  Tape& tape = *node.tape;
  const Delta d = delta_of(key, value, node.numbers[0]);
  const DType dtype = key.dtype();
  const std::uint16_t name = node.name;
  const Tensor w = d.keys(tape, dtype, name), u = d.values(tape, dtype, name);
  const Tensor states = d.states(tape, dtype, name), new_values = d.values(tape, dtype, name);
  Tensor value_gradient = d.values(tape, dtype, name);
  const Tensor state_gradients = d.states(tape, dtype, name);
  value_gradient = d.values(tape, dtype, name);
  Tensor query_gradient = d.keys(tape, dtype, name), key_gradient = d.keys(tape, dtype, name);
  Tensor decay_gradient = d.numbers(tape, name);
  const Tensor w_gradient = d.keys(tape, dtype, name);
  {
    const Tensor second = d.keys(tape, dtype, name);
    Tensor own = d.values(tape, dtype, name);
    if (node.wants(4)) out[4] = beside(beta, name);
    const Tensor second_decay = d.numbers(tape, name);
    value_gradient = std::move(own);
  }
  decay_gradient = d.numbers(tape, name);
  out[0] = beside(query, name);
  out[1] = beside(key, name);
  out[2] = std::move(value_gradient);
  if (node.wants(3)) out[3] = std::move(decay_gradient);
  work(name, 3 * d.flops(), {&in[0], &query, &key, &value, &sums, &triangles, &states, &new_values},
       {&out[0], &out[1], &out[2], &state_gradients});
}

}  // namespace

Tensor causal_conv1d(Arg x, const Tensor& weight, const Tensor& bias) {
  Tape& tape = x->tape();
  Node* node = nullptr;
  const Arg weight_arg(weight);
  if (tape.records(x, weight_arg)) {
    node = tape.node(kConvolutionBackward, convolution_backward, {&*x, &weight, &bias});
    tape.save(node, *x);
    tape.save(node, weight);
    if (bias.defined())
      tape.save(node, bias);
    else
      tape.save_nothing(node);
  }
  Tensor out = beside(*x, kConvolution);
  work(kConvolution, 0, {&*x, &weight}, {&out});
  tape.attach(out, node);
  done(x);
  return out;
}

Tensor gated_rms_norm(Arg x, Arg gate, const Tensor& weight) {
  Tape& tape = x->tape();
  Node* node = nullptr;
  if (tape.records(x, gate)) {
    node = tape.node(kNormBackward, norm_backward, {&*x, &*gate, &weight});
    tape.save(node, *x);
    tape.save(node, *gate);
    tape.save(node, weight);
  }
  Tensor out = beside(*x, kNorm);
  const Tensor rstd = tape.empty({x->size(0)}, DType::fp32, kNorm);
  work(kNorm, 0, {&*x, &*gate, &weight}, {&out, &rstd});
  if (node != nullptr) tape.save(node, rstd);
  tape.attach(out, node);
  done(x, gate);
  return out;
}

Tensor chunk_gated_delta_rule(Arg query, Arg key, Arg value, const Tensor& decay, const Tensor& beta,
                              std::int64_t chunk, Tensor* last) {
  Tape& tape = query->tape();
  const Delta d = delta_of(*key, *value, chunk);
  const DType dtype = query->dtype();
  Node* node = nullptr;
  if (tape.records(query, key, value))
    node = tape.node(kDeltaBackward, delta_backward, {&*query, &*key, &*value, &decay, &beta});
  Tensor out;
  {
    const GradMode inside(tape, false);
    // The wrapper that makes its arguments row-major holds them until the call returns.
    const Tensor given_query = contiguous(*query), given_key = contiguous(*key), v = contiguous(*value);
    const Tensor q = beside(given_query, kDelta), query_rstd = d.numbers(tape, kDelta);
    const Tensor k = beside(given_key, kDelta), key_rstd = d.numbers(tape, kDelta);
    const Tensor sums = d.numbers(tape, kDelta);
    Tensor wide = d.triangles(tape, DType::fp32, kDelta);
    const Tensor triangles = d.triangles(tape, dtype, kDelta);
    wide.reset();
    const Tensor w = d.keys(tape, dtype, kDelta), u = d.values(tape, dtype, kDelta);
    const Tensor states = d.states(tape, dtype, kDelta);
    if (last != nullptr) *last = tape.empty({d.batch, d.heads, d.key, d.value}, DType::fp32, kDelta);
    const Tensor new_values = d.values(tape, dtype, kDelta);
    out = d.values(tape, dtype, kDelta);
    work(kDelta, d.flops(), {&q, &k, &v, &sums, &triangles, &w, &u}, {&states, &new_values, &out});
    if (node != nullptr) {
      node->numbers[0] = chunk;
      for (const Tensor* kept : {&q, &query_rstd, &k, &key_rstd, &v, &sums, &beta, &triangles})
        tape.save(node, *kept);
    }
  }
  tape.attach(out, node);
  done(query, key, value);
  return out;
}

}  // namespace headroom::tape
