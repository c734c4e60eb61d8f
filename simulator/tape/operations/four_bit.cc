#include "simulator/tape/operations/four_bit.h"

#include <memory>
#include <utility>

#include "simulator/tape/core/autocast.h"
#include "simulator/tape/operations/linear.h"
#include "simulator/tape/operations/views.h"
#include "simulator/tape/operations/work.h"

namespace headroom::tape {
namespace {

const std::uint16_t kScales = operation_name("bitsandbytes::scales"),
                    kWiden = operation_name("bitsandbytes::dequantize_4bit"),
                    kMatMul = operation_name("MatMul4BitBackward");

constexpr std::int64_t kBlock = 64, kNestedBlock = 256, kCodes = 16, kNestedCodes = 256;

Tensor widen(const Tensor& weight, const FourBitScales& scales, DType dtype) {
  Tape& tape = weight.tape();
  const Tensor wide_scales = scales.widened(kWiden);
  Tensor out = tape.empty(weight.shape(), dtype, kWiden);
  if (tape.wants_operations()) Work(tape, OperationKind::elementwise, kWiden).in(weight).in(wide_scales).out(out).run();
  return out;
}

/// Keeps what the backward needs without saving tensors, as the Python function does.
class FourBitProduct : public Function {
 public:
  FourBitProduct(Tensor weight, const FourBitScales& scales) : weight_(std::move(weight)), scales_(scales) {}
  void backward(Node& node, std::span<Tensor> in, std::span<Tensor> out) override {
    const GradMode no_grad(*node.tape, false);
    const Tensor wide = widen(weight_, scales_, in[0].dtype());
    out[0] = linear(in[0], t(wide), {});
  }

 private:
  Tensor weight_;
  const FourBitScales& scales_;
};

}  // namespace

FourBitScales::FourBitScales(Tape& tape, std::int64_t elements)
    : scales_(tape.empty({ceil_div(elements, kBlock)}, DType::uint8, kScales)),
      nested_(tape.empty({ceil_div(elements, kBlock * kNestedBlock)}, DType::fp32, kScales)),
      codes_(tape.empty({kCodes}, DType::fp32, kScales)),
      nested_codes_(tape.empty({kNestedCodes}, DType::fp32, kScales)),
      offset_(tape.empty({}, DType::fp32, kScales)) {}

Tensor FourBitScales::widened(std::uint16_t operation) const {
  Tape& tape = scales_.tape();
  Tensor out = tape.empty(scales_.shape(), DType::fp32, operation);
  if (tape.wants_operations()) Work(tape, OperationKind::elementwise, operation).in(scales_).out(out).run();
  return out;
}

Tensor linear_four_bit(Arg input, const Tensor& weight, const FourBitScales& scales, const Tensor& bias) {
  Tape& tape = input->tape();
  Tensor x = autocast_cast(*input, tape);
  Node* node = nullptr;
  if (tape.grad_enabled() && x.requires_grad()) {
    node = tape.node(kMatMul, nullptr, {&x});
    node->function = std::make_unique<FourBitProduct>(weight, scales);
  }
  Tensor out;
  {
    const GradMode no_grad(tape, false);
    const Tensor wide = widen(weight, scales, x.dtype());
    out = linear(x, wide, bias);
  }
  tape.attach(out, node);
  x.reset();
  done(input);
  return out;
}

}  // namespace headroom::tape
