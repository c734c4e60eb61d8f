#include "simulator/tape/megatron/products.h"

#include "simulator/tape/operations/work.h"

namespace headroom::tape::megatron {
namespace {

const std::uint16_t kWeightGradient = operation_name("weight_gradient"),
                    kQuantise = operation_name("te::quantize");

/// The work of `out`[M,N] = [M,K] x [K,N]; a weight's gradient that goes into the buffer has no output.
void product_work(Tape& tape, std::uint16_t name, const Tensor& a, const Tensor& b, const Tensor& out,
                  std::int64_t m, std::int64_t n, std::int64_t k) {
  if (!tape.wants_operations()) return;
  Work(tape, OperationKind::matmul, name)
      .in(a)
      .in(b)
      .out(out)
      .sizes({m, n, k, 1})
      .flops(2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k))
      .run();
}

/// Of a product with the weight, and of its gradient: weights in FP8 give and take what the model computes in.
DType computed(const Context& c, const Tensor& weight) {
  return weight.dtype() == DType::fp8 ? c.options.dtype : weight.dtype();
}

void workspace(Context& c, Multiplier by) {
  if (by == Multiplier::transformer_engine)
    c.process.product_workspace();
  else
    c.tape.matmul_workspace(false);
}

}  // namespace

Tensor product(Context& c, Multiplier by, std::uint16_t name, const Tensor& input, const Tensor& weight) {
  c.tape.memory().host_work(HostWork::megatron_linear, 1);
  Tensor out = c.tape.empty({input.size(0), weight.size(-2)}, computed(c, weight), name);
  if (by == Multiplier::transformer_engine && c.options.switches.fp8)
    c.process.quantised_weight(weight, c.options.role, c.options.modules);
  workspace(c, by);
  product_work(c.tape, name, input, weight, out, input.size(0), weight.size(-2), input.size(1));
  return out;
}

Tensor input_gradient(Context& c, Multiplier by, std::uint16_t name, const Tensor& gradient,
                      const Tensor& weight) {
  Tensor out = c.tape.empty({gradient.size(0), weight.size(-1)}, computed(c, weight), name);
  workspace(c, by);
  product_work(c.tape, name, gradient, weight, out, gradient.size(0), weight.size(-1), gradient.size(1));
  return out;
}

Tensor weight_gradient(Context& c, const Tensor& gradient, const Tensor& input, const Tensor& weight) {
  Tensor out, written;
  if (c.options.switches.gradient_accumulation_fusion && !c.local()) {
    // One expert's placeholder stands for all of them.
    const Tensor one = c.process.weight_placeholder({weight.size(-2), weight.size(-1)}, computed(c, weight));
    out = c.tape.alias(one, weight.shape(), 0, false);
  } else {
    const ComponentScope component(c.tape, Component::gradients);
    out = c.tape.empty(weight.shape(), computed(c, weight), kWeightGradient);
    if (!c.options.switches.gradient_accumulation_fusion) written = out;
  }
  product_work(c.tape, kWeightGradient, gradient, input, written, weight.size(-2), weight.size(-1),
               gradient.size(0));
  return out;
}

Quantised quantised(Context& c, const Tensor& operand) {
  const Shape shape = Shape::contiguous(operand.shape().sizes());
  Quantised out;
  out.rows = c.tape.empty(shape, DType::fp8, kQuantise);
  if (c.tape.grad_enabled()) out.columns = c.tape.empty(shape, DType::fp8, kQuantise);
  if (c.tape.wants_operations())
    Work(c.tape, OperationKind::elementwise, kQuantise).in(operand).out(out.rows).out(out.columns).run();
  return out;
}

Tensor small_gradient(Context& c, const Tensor& parameter) {
  return c.tape.empty(parameter.shape(), parameter.dtype(), kWeightGradient);
}

}  // namespace headroom::tape::megatron
