#include "simulator/tape/megatron/linear.h"

#include "simulator/tape/megatron/collectives.h"
#include "simulator/tape/operations/work.h"

namespace headroom::tape::megatron {
namespace {

const std::uint16_t kNorm = operation_name("te::norm"), kGemm = operation_name("te::gemm"),
                    kGrouped = operation_name("te::grouped_gemm"), kHead = operation_name("megatron::matmul"),
                    kNormLinearBackward = operation_name("_LayerNormLinearBackward"),
                    kLinearBackward = operation_name("_LinearBackward"),
                    kNormBackward = operation_name("_RMSNormBackward"),
                    kGroupedBackward = operation_name("_GroupedLinearBackward"),
                    kHeadBackward = operation_name("LinearWithGradAccumulationAndAsyncCommunicationBackward"),
                    kWeightGradient = operation_name("weight_gradient");

using Tensors = std::span<Tensor>;

/// The work of `out`[M,N] = [M,K] x [K,N]; a weight's gradient that goes into the buffer has no output.
void product_work(Tape& tape, OperationKind kind, std::uint16_t name, const Tensor& a, const Tensor& b,
                  const Tensor& out, std::int64_t m, std::int64_t n, std::int64_t k) {
  if (!tape.wants_operations()) return;
  Work(tape, kind, name)
      .in(a)
      .in(b)
      .out(out)
      .sizes({m, n, k, 1})
      .flops(2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k))
      .run();
}

/// [rows, in] x weight[.., out, in] -> [rows, out].
Tensor product(Context& c, std::uint16_t name, const Tensor& input, const Tensor& weight) {
  Tensor out = c.tape.empty({input.size(0), weight.size(-2)}, input.dtype(), name);
  c.process.product_workspace();
  product_work(c.tape, OperationKind::matmul, name, input, weight, out, input.size(0), weight.size(-2),
               input.size(1));
  return out;
}

/// [rows, out] x weight -> [rows, in].
Tensor input_gradient(Context& c, std::uint16_t name, const Tensor& gradient, const Tensor& weight) {
  Tensor out = c.tape.empty({gradient.size(0), weight.size(-1)}, gradient.dtype(), name);
  c.process.product_workspace();
  product_work(c.tape, OperationKind::matmul, name, gradient, weight, out, gradient.size(0), weight.size(-1),
               gradient.size(1));
  return out;
}

/// What autograd gets for the weight: the placeholder, or a gradient of its own.
Tensor weight_gradient(Context& c, const Tensor& gradient, const Tensor& input, const Tensor& weight) {
  Tensor out, written;
  if (c.options.switches.gradient_accumulation_fusion) {
    // One expert's placeholder stands for all of them.
    const Tensor one = c.process.weight_placeholder({weight.size(-2), weight.size(-1)}, weight.dtype());
    out = c.tape.alias(one, weight.shape(), 0, false);
  } else {
    const ComponentScope component(c.tape, Component::gradients);
    out = written = c.tape.empty(weight.shape(), weight.dtype(), kWeightGradient);
  }
  product_work(c.tape, OperationKind::matmul, kWeightGradient, gradient, input, written, weight.size(-2),
               weight.size(-1), gradient.size(0));
  return out;
}

Tensor small_gradient(Context& c, const Tensor& parameter) {
  return c.tape.empty(parameter.shape(), parameter.dtype(), kWeightGradient);
}

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
  const Tensor gradient = cut == Cut::row ? gather_tokens(c, incoming) : incoming;
  Tensor whole = cut == Cut::column && node.wants(1) ? gather_tokens(c, input) : input;
  Tensor dgrad, reduced;
  if (node.wants(0)) {
    dgrad = input_gradient(c, node.name, gradient, weight);
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
    if (node.wants(0)) out[0] = input_gradient(c_, node.name, in[0], weight_);
    if (node.wants(1)) out[1] = weight_gradient(c_, in[0], input, weight_);
    if (node.wants(2)) out[2] = small_gradient(c_, bias_);
  }

 private:
  Context& c_;
  Tensor weight_, bias_;
};

class OutputLayerFunction : public Function {
 public:
  OutputLayerFunction(Context& context, Tensor weight) : c_(context), weight_(std::move(weight)) {}
  void backward(Node& node, Tensors in, Tensors out) override {
    const Tensor input = node.unpack(0);
    const Tensor whole = gathered(c_, input);
    Tensor dgrad = c_.tape.empty(whole.shape(), whole.dtype(), node.name);
    c_.tape.matmul_workspace(false);
    product_work(c_.tape, OperationKind::matmul, node.name, in[0], weight_, dgrad, whole.size(0),
                 whole.size(1), weight_.size(0));
    out[0] = reduce_tokens(c_, dgrad);
    if (node.wants(1)) out[1] = weight_gradient(c_, in[0], whole, weight_);
  }
  static Tensor gathered(Context& c, const Tensor& input) {
    if (!c.sequence_parallel()) return input;
    return c.process.global_buffer({input.size(0) * c.tensor(), input.size(1)}, input.dtype());
  }

 private:
  Context& c_;
  Tensor weight_;
};

/// The node of a product or norm of the first of `inputs`, which it saves, with the parameters behind it;
/// null where neither it nor the first parameter wants gradients.
template <typename Function, typename... Arguments>
Node* recorded(Context& c, std::uint16_t name, std::initializer_list<const Tensor*> inputs,
               Arguments&&... arguments) {
  Tape& tape = c.tape;
  const Tensor& input = *inputs.begin()[0];
  if (!tape.grad_enabled() || !(input.requires_grad() || inputs.begin()[1]->requires_grad())) return nullptr;
  Node* node = tape.node(name, nullptr, inputs);
  node->function = std::make_unique<Function>(c, std::forward<Arguments>(arguments)...);
  tape.save(node, input);
  return node;
}

}  // namespace

Tensor norm_linear(Context& c, Arg input, const NormWeights& norm, const Tensor& weight, const Tensor& bias) {
  Tape& tape = c.tape;
  Node* node = recorded<NormLinearFunction>(
      c, kNormLinearBackward, {&*input, &weight, &bias, &norm.scale, &norm.shift}, norm, weight, bias);
  Normed normed = apply_norm(c, *input, norm);
  if (node != nullptr) {
    tape.save(node, normed.out);
    tape.save(node, normed.statistics);
  }
  Tensor whole = gather_tokens(c, normed.out);
  Tensor out = product(c, kGemm, whole, weight);
  drop(whole, normed.out, normed.statistics);
  tape.attach(out, node);
  done(input);
  return out;
}

Tensor linear(Context& c, Arg input, const Tensor& weight, const Tensor& bias, Cut cut) {
  Tape& tape = c.tape;
  Node* node = recorded<LinearFunction>(c, kLinearBackward, {&*input, &weight, &bias}, cut, weight, bias);
  Tensor whole = cut == Cut::column ? gather_tokens(c, *input) : *input;
  Tensor wide = product(c, kGemm, whole, weight);
  whole.reset();
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
  Node* node = recorded<GroupedFunction>(c, kGroupedBackward, {&*input, &weight, &bias}, weight, bias);
  c.process.grouped_workspaces();
  Tensor out = product(c, kGrouped, *input, weight);
  tape.attach(out, node);
  done(input);
  return out;
}

Tensor output_layer(Context& c, Arg input, const Tensor& weight) {
  Tape& tape = c.tape;
  Node* node = recorded<OutputLayerFunction>(c, kHeadBackward, {&*input, &weight}, weight);
  const Tensor whole = OutputLayerFunction::gathered(c, *input);
  const ComponentScope component(tape, Component::logits);
  Tensor out = tape.empty({whole.size(0), weight.size(0)}, input->dtype(), kHead);
  tape.matmul_workspace(false);
  product_work(tape, OperationKind::matmul, kHead, whole, weight, out, whole.size(0), weight.size(0),
               whole.size(1));
  tape.attach(out, node);
  done(input);
  return out;
}

}  // namespace headroom::tape::megatron
