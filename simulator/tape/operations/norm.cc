#include "simulator/tape/operations/norm.h"

#include "simulator/tape/core/autocast.h"
#include "simulator/tape/operations/work.h"

namespace headroom::tape {
namespace {

const std::uint16_t kLayerNorm = operation_name("aten::native_layer_norm"),
                    kLayerNormBackward = operation_name("NativeLayerNormBackward0");

void layer_norm_backward(Node& node, std::span<Tensor> in, std::span<Tensor> out) {
  const Tensor bias = node.unpack(0), input = node.unpack(1), weight = node.unpack(2), mean = node.unpack(3),
               rstd = node.unpack(4);
  Tape& tape = *node.tape;
  if (node.wants(0)) out[0] = tape.empty(Shape::contiguous(input.shape().sizes()), input.dtype(), node.name);
  if (node.wants(1)) out[1] = tape.empty(like(weight.shape()), weight.dtype(), node.name);
  if (node.wants(2)) out[2] = tape.empty(like(bias.shape()), bias.dtype(), node.name);
  if (tape.wants_operations())
    Work(tape, OperationKind::norm_backward, node.name)
        .in(in[0])
        .in(input)
        .in(mean)
        .in(rstd)
        .in(weight)
        .out(out[0])
        .out(out[1])
        .out(out[2])
        .sizes({input.elements() / input.size(-1), input.size(-1)})
        .run();
}

}  // namespace

Tensor layer_norm(Arg input, const Tensor& weight, const Tensor& bias) {
  Tape& tape = input->tape();
  Tensor b = bias.defined() ? autocast_fp32(bias, tape) : Tensor();
  Tensor w = weight.defined() ? autocast_fp32(weight, tape) : Tensor();
  Tensor x = autocast_fp32(*input, tape);
  Node* node = nullptr;
  const auto wants = [](const Tensor& tensor) { return tensor.defined() && tensor.requires_grad(); };
  if (tape.grad_enabled() && (wants(x) || wants(w) || wants(b))) {
    node = tape.node(kLayerNormBackward, layer_norm_backward, {&x, &w, &b});
    tape.save(node, b);
    tape.save(node, x);
    tape.save(node, w);
  }
  Tensor out = tape.empty(Shape::contiguous(x.shape().sizes()), x.dtype(), kLayerNorm);
  Shape rows = x.shape();
  rows.size[static_cast<std::size_t>(rows.rank - 1)] = 1;
  set_contiguous(rows);
  Tensor mean = tape.empty(rows, DType::fp32, kLayerNorm);
  Tensor rstd = tape.empty(rows, DType::fp32, kLayerNorm);
  if (tape.wants_operations())
    Work(tape, OperationKind::norm_forward, kLayerNorm)
        .in(x)
        .in(w)
        .in(b)
        .out(out)
        .out(mean)
        .out(rstd)
        .sizes({x.elements() / x.size(-1), x.size(-1)})
        .run();
  if (node != nullptr) {
    tape.save(node, mean);
    tape.save(node, rstd);
  }
  tape.attach(out, node);
  drop(mean, rstd);
  drop(x, w, b);
  done(input);
  return out;
}

}  // namespace headroom::tape
