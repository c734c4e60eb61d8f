#include "simulator/tape/megatron/elementary.h"

#include "simulator/tape/megatron/collectives.h"
#include "simulator/tape/operations/copy.h"
#include "simulator/tape/operations/pointwise.h"
#include "simulator/tape/operations/views.h"
#include "simulator/tape/operations/work.h"

namespace headroom::tape::megatron {
namespace {

const std::uint16_t kRotary = operation_name("megatron::rotary"),
                    kRotaryBackward = operation_name("FusedRoPEFuncBackward"),
                    kActivation = operation_name("megatron::bias_swiglu"),
                    kActivationBackward = operation_name("SwiGLUFunctionBackward"),
                    kRowsBackward = operation_name("RowsBackward");

using Tensors = std::span<Tensor>;

Tensor rotated(Context& c, std::uint16_t name, const Tensor& input) {
  if (c.options.switches.fused_rotary) return elementwise(name, input.dtype(), {&input});
  Tape& tape = c.tape;
  const Tensor parts = elementwise(name, input.dtype(), {&input});
  { const Tensor scratch = tape.empty({3 * ceil_div(input.elements(), c.sequences)}, input.dtype(), name); }
  return elementwise(name, input.dtype(), {&parts});
}

class RotaryFunction : public Function {
 public:
  explicit RotaryFunction(Context& context) : c_(context) {}
  void backward(Node& node, Tensors in, Tensors out) override { out[0] = rotated(c_, node.name, in[0]); }

 private:
  Context& c_;
};

/// Kernel over rows of 2f (gated) or f elements.
void activation_backward(Node& node, Tensors in, Tensors out) {
  const Tensor input = node.unpack(0);
  Tape& tape = *node.tape;
  out[0] = tape.empty(Shape::contiguous(input.shape().sizes()), input.dtype(), node.name);
  if (node.wants(1)) out[1] = tape.empty({input.size(0)}, DType::fp32, node.name);
  if (tape.wants_operations())
    Work(tape, OperationKind::elementwise, node.name).in(in[0]).in(input).out(out[0]).run();
}

Tensor fused_activation(Context& c, Arg input, bool gated, const Tensor& weights) {
  Tape& tape = c.tape;
  Node* node = nullptr;
  if (tape.grad_enabled() && input->requires_grad()) {
    node = tape.node(kActivationBackward, activation_backward, {&*input, &weights});
    tape.save(node, *input);
    if (weights.defined()) tape.save(node, weights);
  }
  Tensor out =
      tape.empty({input->size(0), gated ? input->size(1) / 2 : input->size(1)}, input->dtype(), kActivation);
  if (tape.wants_operations()) Work(tape, OperationKind::elementwise, kActivation).in(*input).out(out).run();
  tape.attach(out, node);
  done(input);
  return out;
}

class RowsFunction : public Function {
 public:
  RowsFunction(Context& context, std::int64_t rows, std::int64_t ranks, RowsMaker maker)
      : c_(context), rows_(rows), ranks_(ranks), maker_(maker) {}
  void backward(Node&, Tensors in, Tensors out) override { out[0] = maker_(c_, in[0], rows_, ranks_); }

 private:
  Context& c_;
  std::int64_t rows_, ranks_;
  RowsMaker maker_;
};

}  // namespace

Tensor rotary(Context& c, Arg input) {
  Tape& tape = c.tape;
  Node* node = nullptr;
  if (tape.records(input)) {
    node = tape.node(kRotaryBackward, nullptr, {&*input});
    node->function = std::make_unique<RotaryFunction>(c);
  }
  Tensor out = rotated(c, kRotary, *input);
  tape.attach(out, node);
  done(input);
  return out;
}

Tensor activation(Context& c, Arg input, bool gated, const Tensor& weights) {
  if (c.options.switches.fused_activation) return fused_activation(c, input, gated, weights);
  Tensor out;
  if (gated) {
    const std::int64_t half = input->size(1) / 2;
    std::vector<Tensor> parts = split(*input, 1, half);
    Tensor active = silu(parts[0]);
    if (c.options.switches.linear_offset) parts[1] = add_scalar(parts[1]);
    out = mul(std::move(active), parts[1]);
  } else {
    out = gelu(*input);
  }
  if (weights.defined()) {
    // The product with fp32 probabilities is fp32, and cast back.
    Tensor column = unsqueeze(weights, 1);
    Tensor wide = mul(std::move(out), std::move(column));
    out = to(std::move(wide), input->dtype());
  }
  done(input);
  return out;
}

Tensor row_function(Context& c, Arg input, std::int64_t rows, std::int64_t ranks, RowsMaker forward,
                    RowsMaker backward) {
  Tape& tape = c.tape;
  Node* node = nullptr;
  if (tape.records(input)) {
    node = tape.node(kRowsBackward, nullptr, {&*input});
    node->function = std::make_unique<RowsFunction>(c, input->size(0), ranks, backward);
  }
  Tensor made = forward(c, *input, rows, ranks);
  Tensor out = made.record() == input->record() ? tape.alias(made, made.shape(), 0, false) : made;
  made.reset();
  tape.attach(out, node);
  done(input);
  return out;
}

Tensor exchange(Context& c, Arg input, std::int64_t ranks) {
  const std::int64_t rows = input->size(0);
  return row_function(c, input, rows, ranks, exchange_rows, exchange_rows);
}

}  // namespace headroom::tape::megatron
