#include "simulator/tape/megatron/own_linear.h"

#include "simulator/tape/megatron/collectives.h"
#include "simulator/tape/megatron/elementary.h"
#include "simulator/tape/megatron/products.h"
#include "simulator/tape/operations/pointwise.h"
#include "simulator/tape/operations/reduce.h"

namespace headroom::tape::megatron {
namespace {

const std::uint16_t kMatmul = operation_name("megatron::matmul"),
                    kBackward = operation_name("LinearWithGradAccumulationAndAsyncCommunicationBackward");

/// Sequence-parallel inputs of a column-parallel product, whole.
Tensor gathered(Context& c, const Tensor& input) {
  if (!c.sequence_parallel()) return input;
  Tensor whole = c.process.global_buffer({input.size(0) * c.tensor(), input.size(1)}, input.dtype());
  gather_into(c, input, whole);
  return whole;
}

class OwnLinearFunction : public Function {
 public:
  OwnLinearFunction(Context& context, Cut cut, Tensor weight, bool bias)
      : c_(context), cut_(cut), weight_(std::move(weight)), bias_(bias) {}
  void backward(Node& node, std::span<Tensor> in, std::span<Tensor> out) override {
    const Tensor input = node.unpack(0);
    const bool column = cut_ == Cut::column;
    c_.tape.memory().host_work(HostWork::megatron_linear_gradient, 1);
    const Tensor whole = column && node.wants(1) ? gathered(c_, input) : input;
    Tensor dgrad;
    if (node.wants(0)) {
      dgrad = input_gradient(c_, Multiplier::torch, node.name, in[0], weight_);
      out[0] = column ? reduce_tokens(c_, dgrad) : dgrad;
    }
    if (node.wants(1)) out[1] = weight_gradient(c_, in[0], whole, weight_);
    if (bias_ && node.wants(2)) out[2] = sum(in[0], 1, false);
  }

 private:
  Context& c_;
  Cut cut_;
  Tensor weight_;
  bool bias_;
};

Tensor sum_over_ranks(const Context& c, const Tensor& whole, std::int64_t, std::int64_t) {
  return reduce_tokens(c, whole);
}
Tensor tokens_of_all(const Context& c, const Tensor& mine, std::int64_t, std::int64_t) {
  return gather_tokens(c, mine);
}

}  // namespace

Tensor own_linear(Context& c, Arg input, const Tensor& weight, const Tensor& bias, Cut cut) {
  Tape& tape = c.tape;
  // A row-parallel layer's bias is added with the residual.
  const bool biased = bias.defined() && cut != Cut::row;
  Node* node =
      recorded<OwnLinearFunction>(c, kBackward, {&*input, &weight, &bias}, cut, weight, bias.defined());
  Tensor out =
      product(c, Multiplier::torch, kMatmul, cut == Cut::column ? gathered(c, *input) : *input, weight);
  if (biased) {
    const GradMode no_grad(tape, false);
    out = add(out, bias);
  }
  tape.attach(out, node);
  if (cut == Cut::row && c.tensor() > 1) {
    const std::int64_t rows = out.size(0) / c.token_split();
    out = row_function(c, std::move(out), rows, c.tensor(), sum_over_ranks, tokens_of_all);
  }
  done(input);
  return out;
}

Tensor output_layer(Context& c, Arg input, const Tensor& weight) {
  const ComponentScope component(c.tape, Component::logits);
  return own_linear(c, input.pass(), weight, {}, Cut::column);
}

}  // namespace headroom::tape::megatron
