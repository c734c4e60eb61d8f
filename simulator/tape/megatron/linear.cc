#include "simulator/tape/megatron/linear.h"

#include "simulator/tape/megatron/adapter.h"
#include "simulator/tape/megatron/collectives.h"
#include "simulator/tape/megatron/elementary.h"
#include "simulator/tape/megatron/own_linear.h"
#include "simulator/tape/megatron/products.h"
#include "simulator/tape/operations/pointwise.h"
#include "simulator/tape/operations/work.h"

namespace headroom::tape::megatron {
namespace {

const std::uint16_t kNorm = operation_name("te::norm"), kGemm = operation_name("te::gemm"),
                    kGrouped = operation_name("te::grouped_gemm"),
                    kNormLinearBackward = operation_name("_LayerNormLinearBackward"),
                    kLinearBackward = operation_name("_LinearBackward"),
                    kNormBackward = operation_name("_RMSNormBackward"),
                    kGroupedBackward = operation_name("_GroupedLinearBackward");

constexpr Multiplier kBy = Multiplier::transformer_engine;

using Tensors = std::span<Tensor>;

/// The norm's output and its statistics: one fp32 number a token, two with a mean.
struct Normed {
  Tensor out, statistics;
};
Normed apply_norm(Context& c, const Tensor& input, const NormWeights& w) {
  Normed n;
  n.out = c.tape.empty(Shape::contiguous(input.shape().sizes()), input.dtype(), kNorm);
  const std::int64_t rows = input.elements() / input.size(-1);
  n.statistics = c.tape.empty({rows * (w.layer_norm ? 2 : 1)}, DType::fp32, kNorm);
  if (c.tape.wants_operations())
    Work(c.tape, OperationKind::norm_forward, kNorm)
        .in(input)
        .in(w.scale)
        .out(n.out)
        .out(n.statistics)
        .sizes({rows, input.size(-1)})
        .run();
  return n;
}

Tensor norm_input_gradient(Context& c, const Tensor& gradient, const Tensor& input, const Tensor& statistics,
                           const Tensor& scale) {
  Tensor out = c.tape.empty(Shape::contiguous(input.shape().sizes()), input.dtype(), kNormBackward);
  if (c.tape.wants_operations())
    Work(c.tape, OperationKind::norm_backward, kNormBackward)
        .in(gradient)
        .in(input)
        .in(statistics)
        .in(scale)
        .out(out)
        .sizes({input.elements() / input.size(-1), input.size(-1)})
        .run();
  return out;
}

/// Backward of a product: gradients of input, weight, bias in `out[0..2]`. `input` is this rank's part.
void linear_gradients(Context& c, Cut cut, const Node& node, const Tensor& incoming, const Tensor& input,
                      const Tensor& weight, Tensors out, const Tensor& bias) {
  c.tape.memory().host_work(HostWork::megatron_linear_gradient, 1);
  const Quantised half = c.options.switches.fp8 ? quantised(c, incoming) : Quantised{};
  const Tensor& mine = half.rows.defined() ? half.rows : incoming;
  const Tensor gradient = cut == Cut::row ? gather_tokens(c, mine) : mine;
  Tensor whole = cut == Cut::column && node.wants(1) ? gather_tokens(c, input) : input;
  Tensor dgrad, reduced;
  if (node.wants(0)) {
    dgrad = input_gradient(c, kBy, node.name, gradient, weight);
    reduced = cut == Cut::column ? reduce_tokens(c, dgrad) : dgrad;
  }
  if (node.wants(1)) out[1] = weight_gradient(c, gradient, whole, weight);
  if (node.wants(2)) out[2] = small_gradient(c, bias);
  whole.reset();
  dgrad.reset();
  out[0] = std::move(reduced);
}

class NormLinearFunction : public Function {
 public:
  explicit NormLinearFunction(Context& context, NormWeights norm, Tensor weight, Tensor bias)
      : c_(context), norm_(std::move(norm)), weight_(std::move(weight)), bias_(std::move(bias)) {}
  void backward(Node& node, Tensors in, Tensors out) override {
    const Tensor input = node.unpack(0), normed = node.unpack(1), statistics = node.unpack(2);
    linear_gradients(c_, Cut::column, node, in[0], normed, weight_, out, bias_);
    if (node.wants(0)) {
      Tensor gradient = norm_input_gradient(c_, out[0], input, statistics, norm_.scale);
      out[0] = std::move(gradient);
    }
    if (node.wants(3)) out[3] = small_gradient(c_, norm_.scale);
    if (node.wants(4)) out[4] = small_gradient(c_, norm_.shift);
  }

 private:
  Context& c_;
  NormWeights norm_;
  Tensor weight_, bias_;
};

class LinearFunction : public Function {
 public:
  LinearFunction(Context& context, Cut cut, Tensor weight, Tensor bias)
      : c_(context), cut_(cut), weight_(std::move(weight)), bias_(std::move(bias)) {}
  void backward(Node& node, Tensors in, Tensors out) override {
    const Tensor input = node.unpack(0);
    linear_gradients(c_, cut_, node, in[0], input, weight_, out, bias_);
  }

 private:
  Context& c_;
  Cut cut_;
  Tensor weight_, bias_;
};

/// A frozen weight's product of tokens that are whole already: nothing of its input is kept.
Tensor frozen_linear(Context& c, const Tensor& input, const Tensor& weight, const Tensor& bias) {
  Node* node = recorded_with<LinearFunction>(c, Tensor(), kLinearBackward, {&input, &weight, &bias},
                                             Cut::duplicated, weight, bias);
  const Multiplier by = c.local() ? Multiplier::torch : kBy;
  Tensor out = product(c, by, kGemm, input, weight);
  c.tape.attach(out, node);
  return out;
}

class NormFunction : public Function {
 public:
  NormFunction(Context& context, NormWeights weights) : c_(context), weights_(std::move(weights)) {}
  void backward(Node& node, Tensors in, Tensors out) override {
    const Tensor input = node.unpack(0), statistics = node.unpack(1);
    if (node.wants(0)) out[0] = norm_input_gradient(c_, in[0], input, statistics, weights_.scale);
    if (node.wants(1)) out[1] = small_gradient(c_, weights_.scale);
    if (node.wants(2)) out[2] = small_gradient(c_, weights_.shift);
  }

 private:
  Context& c_;
  NormWeights weights_;
};

class GroupedFunction : public Function {
 public:
  GroupedFunction(Context& context, Tensor weight, Tensor bias)
      : c_(context), weight_(std::move(weight)), bias_(std::move(bias)) {}
  void backward(Node& node, Tensors in, Tensors out) override {
    const Tensor input = node.unpack(0);
    c_.tape.memory().host_work(HostWork::megatron_linear_gradient, 1);
    if (node.wants(0)) out[0] = input_gradient(c_, kBy, node.name, in[0], weight_);
    if (node.wants(1)) out[1] = weight_gradient(c_, in[0], input, weight_);
    if (node.wants(2)) out[2] = small_gradient(c_, bias_);
  }

 private:
  Context& c_;
  Tensor weight_, bias_;
};

Tensor tokens_of_all(const Context& c, const Tensor& mine, std::int64_t, std::int64_t) {
  return gather_tokens(c, mine);
}
Tensor tokens_summed(const Context& c, const Tensor& whole, std::int64_t, std::int64_t) {
  return reduce_tokens(c, whole);
}

/// The frozen product gives its norm's output, gathered, to the adapter, which keeps it.
Tensor norm_linear_with_adapter(Context& c, Arg input, const NormWeights& weights, const Tensor& weight,
                                const Tensor& bias) {
  Tensor whole = norm(c, input.pass(), weights);
  if (c.sequence_parallel()) {
    const std::int64_t rows = whole.size(0) * c.tensor();
    whole = row_function(c, std::move(whole), rows, c.tensor(), tokens_of_all, tokens_summed);
  }
  const Tensor frozen = frozen_linear(c, whole, weight, bias);
  const Tensor added = adapter_output(c, whole, weight, Cut::column);
  whole.reset();
  return add(frozen, added);
}

}  // namespace

Tensor norm_linear(Context& c, Arg input, const NormWeights& weights, const Tensor& weight,
                   const Tensor& bias) {
  if (has_adapter(c, weight)) return norm_linear_with_adapter(c, input.pass(), weights, weight, bias);
  if (c.local()) {
    Tensor normed = norm(c, input.pass(), weights);
    return own_linear(c, std::move(normed), weight, bias, Cut::column);
  }
  Tape& tape = c.tape;
  Node* node = recorded<NormLinearFunction>(c, kNormLinearBackward,
                                            {&*input, &weight, &bias, &weights.scale, &weights.shift},
                                            weights, weight, bias);
  Normed normed = apply_norm(c, *input, weights);
  Tensor kept = normed.out;
  if (c.options.switches.fp8) {
    // The norm's kernel writes both forms.
    normed.out.reset();
    kept.reset();
    Quantised both = quantised(c, *input);
    normed.out = std::move(both.rows);
    kept = std::move(both.columns);
  }
  if (node != nullptr) {
    tape.save(node, weight.requires_grad() ? kept : Tensor());
    tape.save(node, normed.statistics);
  }
  kept.reset();
  Tensor whole = gather_tokens(c, normed.out);
  Tensor out = product(c, kBy, kGemm, whole, weight);
  drop(whole, normed.out, normed.statistics);
  tape.attach(out, node);
  done(input);
  return out;
}

Tensor linear(Context& c, Arg input, const Tensor& weight, const Tensor& bias, Cut cut) {
  if (has_adapter(c, weight)) {
    const Tensor whole = *input;
    Tensor frozen = frozen_linear(c, whole, weight, bias);
    if (cut == Cut::row && c.tensor() > 1) {
      const std::int64_t rows = frozen.size(0) / c.token_split();
      frozen = row_function(c, std::move(frozen), rows, c.tensor(), tokens_summed, tokens_of_all);
    }
    const Tensor added = adapter_output(c, whole, weight, cut);
    done(input);
    return add(frozen, added);
  }
  if (c.local()) return own_linear(c, input.pass(), weight, bias, cut);
  Tape& tape = c.tape;
  Quantised both = c.options.switches.fp8 ? quantised(c, *input) : Quantised{};
  const Tensor& operand = both.rows.defined() ? both.rows : *input;
  const Tensor kept = !weight.requires_grad() ? Tensor() : both.columns.defined() ? both.columns : *input;
  Node* node =
      recorded_with<LinearFunction>(c, kept, kLinearBackward, {&*input, &weight, &bias}, cut, weight, bias);
  Tensor whole = cut == Cut::column ? gather_tokens(c, operand) : operand;
  Tensor wide = product(c, kBy, kGemm, whole, weight);
  drop(whole, both.rows, both.columns);
  Tensor out = cut == Cut::row ? reduce_tokens(c, wide) : wide;
  wide.reset();
  tape.attach(out, node);
  done(input);
  return out;
}

Tensor norm(Context& c, Arg input, const NormWeights& weights) {
  Tape& tape = c.tape;
  Node* node = recorded<NormFunction>(c, kNormBackward, {&*input, &weights.scale, &weights.shift}, weights);
  Normed normed = apply_norm(c, *input, weights);
  if (node != nullptr) tape.save(node, normed.statistics);
  tape.attach(normed.out, node);
  done(input);
  return std::move(normed.out);
}

Tensor grouped_linear(Context& c, Arg input, const Tensor& weight, const Tensor& bias) {
  Tape& tape = c.tape;
  if (has_adapter(c, weight)) {
    const Tensor rows = *input;
    Node* frozen =
        recorded_with<GroupedFunction>(c, Tensor(), kGroupedBackward, {&rows, &weight, &bias}, weight, bias);
    c.process.grouped_workspaces();
    Tensor out = product(c, kBy, kGrouped, rows, weight);
    tape.attach(out, frozen);
    const Tensor added = adapter_output(c, rows, weight, Cut::duplicated);
    done(input);
    return add(out, added);
  }
  Quantised both = c.options.switches.fp8 ? quantised(c, *input) : Quantised{};
  Node* node = recorded_with<GroupedFunction>(c, both.columns.defined() ? both.columns : *input,
                                              kGroupedBackward, {&*input, &weight, &bias}, weight, bias);
  c.process.grouped_workspaces();
  Tensor out = product(c, kBy, kGrouped, both.rows.defined() ? both.rows : *input, weight);
  drop(both.rows, both.columns);
  tape.attach(out, node);
  done(input);
  return out;
}

}  // namespace headroom::tape::megatron
