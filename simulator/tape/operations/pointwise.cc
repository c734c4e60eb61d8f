#include "simulator/tape/operations/pointwise.h"

#include <algorithm>
#include <array>

#include "simulator/tape/core/autocast.h"
#include "simulator/tape/operations/work.h"

namespace headroom::tape {
namespace {

const std::uint16_t kMul = operation_name("aten::mul"), kMulBackward = operation_name("MulBackward0");
const std::uint16_t kDiv = operation_name("aten::div"), kDivBackward = operation_name("DivBackward0");
const std::uint16_t kAdd = operation_name("aten::add"), kAddBackward = operation_name("AddBackward0");
const std::uint16_t kSub = operation_name("aten::sub"), kSubBackward = operation_name("SubBackward0");
const std::uint16_t kNeg = operation_name("aten::neg"), kNegBackward = operation_name("NegBackward0");
const std::uint16_t kPow = operation_name("aten::pow"), kPowBackward = operation_name("PowBackward0");
const std::uint16_t kRsqrt = operation_name("aten::rsqrt"), kRsqrtBackward = operation_name("RsqrtBackward0");
const std::uint16_t kExp = operation_name("aten::exp"), kExpBackward = operation_name("ExpBackward0");
const std::uint16_t kTanh = operation_name("aten::tanh"), kTanhBackward = operation_name("TanhBackward0");
const std::uint16_t kSigmoid = operation_name("aten::sigmoid"),
                    kSigmoidBackward = operation_name("SigmoidBackward0");
const std::uint16_t kRelu = operation_name("aten::relu"), kReluBackward = operation_name("ReluBackward0");
const std::uint16_t kSoftplus = operation_name("aten::softplus"),
                    kSoftplusBackward = operation_name("SoftplusBackward0");
const std::uint16_t kSilu = operation_name("aten::silu"), kSiluBackward = operation_name("SiluBackward0");
const std::uint16_t kGelu = operation_name("aten::gelu"), kGeluBackward = operation_name("GeluBackward0");
const std::uint16_t kClamp = operation_name("aten::clamp"), kClampBackward = operation_name("ClampBackward1");
const std::uint16_t kMaximum = operation_name("aten::maximum"),
                    kMaximumBackward = operation_name("MaximumBackward0");
const std::uint16_t kMinimum = operation_name("aten::minimum"),
                    kMinimumBackward = operation_name("MinimumBackward0");
const std::uint16_t kMaskedFill = operation_name("aten::masked_fill"),
                    kMaskedFillBackward = operation_name("MaskedFillBackward0");
const std::uint16_t kWhere = operation_name("aten::where"), kWhereBackward = operation_name("WhereBackward0");
const std::uint16_t kCompare = operation_name("aten::compare");

using Tensors = std::span<Tensor>;

bool floating(DType t) {
  return t == DType::fp32 || t == DType::fp16 || t == DType::bf16 || t == DType::fp64;
}

/// One kernel of the gradient and something saved, in the gradient's dtype.
Tensor one(const Node& node, const Tensor& gradient, const Tensor& saved) {
  return elementwise(node.name, gradient.dtype(), {&gradient, &saved});
}

void saved_backward(Node& node, Tensors in, Tensors out) {
  const Tensor saved = node.unpack(0);
  out[0] = one(node, in[0], saved);
}

/// Operators whose gradient is one kernel over the gradient and their saved input or result.
Tensor unary(std::uint16_t name, std::uint16_t backward, Arg self, bool save_result) {
  Tape& t = self->tape();
  Node* node = nullptr;
  if (t.records(self)) {
    node = t.node(backward, saved_backward, {&*self});
    if (!save_result) t.save(node, *self);
  }
  Tensor out = elementwise(name, self->dtype(), {&*self});
  if (node != nullptr && save_result) t.save(node, out);
  t.attach(out, node);
  done(self);
  return out;
}

void scaled_backward(Node& node, Tensors in, Tensors out) {
  out[0] = elementwise(node.name, in[0].dtype(), {&in[0]});
}

Tensor scaled(std::uint16_t name, std::uint16_t backward, Arg self) {
  Tape& t = self->tape();
  Node* node = t.records(self) ? t.node(backward, scaled_backward, {&*self}) : nullptr;
  Tensor out = elementwise(name, self->dtype(), {&*self});
  t.attach(out, node);
  done(self);
  return out;
}

void mul_backward(Node& node, Tensors in, Tensors out) {
  const Tensor other = node.unpack(0), self = node.unpack(1);
  if (node.wants(1)) out[1] = mul(in[0], self);
  if (node.wants(0)) out[0] = mul(in[0], other);
}

void pass_backward(Node&, Tensors in, Tensors out) {
  out[0] = in[0];
}

void sub_backward(Node& node, Tensors in, Tensors out) {
  if (node.wants(1)) out[1] = neg(in[0]);
  if (node.wants(0)) out[0] = in[0];
}

void pow_backward(Node& node, Tensors in, Tensors out) {
  const Tensor self = node.unpack(0);
  const Tensor power = elementwise(kPow, self.dtype(), {&self});
  const Tensor scaled_power = elementwise(kMul, self.dtype(), {&power});
  out[0] = mul(in[0], scaled_power);
}

void rsqrt_backward(Node& node, Tensors in, Tensors out) {
  const Tensor result = node.unpack(0);
  const Tensor cube = elementwise(kPow, result.dtype(), {&result});
  const Tensor half = elementwise(kMul, in[0].dtype(), {&in[0]});
  out[0] = mul(half, cube);
}

void clamp_backward(Node& node, Tensors in, Tensors out) {
  const Tensor self = node.unpack(0);
  const Tensor zero = self.tape().empty({}, in[0].dtype(), kClampBackward);
  const Tensor above = elementwise(kCompare, DType::boolean, {&self});
  const Tensor below = elementwise(kCompare, DType::boolean, {&self});
  out[0] = elementwise(kWhere, in[0].dtype(), {&above, &in[0]});
}

/// Gradient of one side of maximum or minimum: equal elements share it.
Tensor extremum_side(const Tensor& gradient, const Tensor& self, const Tensor& other) {
  const Tensor half = elementwise(kDiv, gradient.dtype(), {&gradient});
  const Tensor equal = elementwise(kCompare, DType::boolean, {&self, &other});
  Tensor result = elementwise(kWhere, gradient.dtype(), {&equal, &half, &gradient});
  const Tensor beaten = elementwise(kCompare, DType::boolean, {&self, &other});
  return result;
}

void extremum_backward(Node& node, Tensors in, Tensors out) {
  const Tensor other = node.unpack(0), self = node.unpack(1);
  if (node.wants(1)) out[1] = extremum_side(in[0], self, other);
  if (node.wants(0)) out[0] = extremum_side(in[0], self, other);
}

Tensor extremum(std::uint16_t name, std::uint16_t backward, Arg self, Arg other) {
  Tape& t = self->tape();
  Node* node = nullptr;
  if (t.records(self, other)) {
    node = t.node(backward, extremum_backward, {&*self, &*other});
    t.save(node, *other);
    t.save(node, *self);
  }
  Tensor out = elementwise(name, promote(*self, *other), {&*self, &*other});
  t.attach(out, node);
  done(self, other);
  return out;
}

void where_backward(Node& node, Tensors in, Tensors out) {
  const Tensor condition = node.unpack(0);
  if (node.wants(1)) out[1] = elementwise(node.name, in[0].dtype(), {&condition, &in[0]});
  if (node.wants(2)) out[2] = elementwise(node.name, in[0].dtype(), {&condition, &in[0]});
}

}  // namespace

void add_backward(Node& node, Tensors in, Tensors out) {
  if (node.wants(1)) out[1] = in[0];
  if (node.wants(0)) out[0] = in[0];
}

void div_backward(Node& node, Tensors in, Tensors out) {
  const Tensor other = node.unpack(0), self = node.unpack(1);
  if (node.wants(1)) {
    const Tensor once = div(self, other);
    const Tensor twice = div(once, other);
    const Tensor negative = neg(in[0]);
    out[1] = mul(negative, twice);
  }
  if (node.wants(0)) out[0] = div(in[0], other);
}

void masked_fill_backward(Node& node, Tensors in, Tensors out) {
  const Tensor mask = node.unpack(0);
  out[0] = elementwise(node.name, in[0].dtype(), {&in[0], &mask});
}

Tensor elementwise(std::uint16_t name, DType dtype, std::initializer_list<const Tensor*> operands) {
  Tape& t = (*operands.begin())->tape();
  std::array<const Shape*, 4> shapes{};
  std::size_t count = 0;
  for (const Tensor* operand : operands) shapes[count++] = &operand->shape();
  Tensor out;
  if (count == 1 && shapes[0]->is_contiguous()) {
    out = t.empty(Shape::contiguous(shapes[0]->sizes()), dtype, name);
  } else {
    Shape sizes = *shapes[0];
    for (std::size_t i = 1; i < count; ++i) sizes = broadcast(sizes, *shapes[i]);
    out = t.empty(elementwise_result(sizes, {shapes.data(), count}), dtype, name);
  }
  if (t.wants_operations()) {
    Work work(t, OperationKind::elementwise, name);
    for (const Tensor* operand : operands) work.in(*operand);
    work.out(out).run();
  }
  return out;
}

DType promote(DType x, DType y) {
  if (x == y) return x;
  const bool fx = floating(x), fy = floating(y);
  if (fx != fy) return fx ? x : y;
  if (fx) return x == DType::fp64 || y == DType::fp64 ? DType::fp64 : DType::fp32;
  return element_size(x) >= element_size(y) ? x : y;
}

DType promote(const Tensor& a, const Tensor& b) {
  const DType x = a.dtype(), y = b.dtype();
  if (x == y) return x;
  // A scalar tensor decides only between kinds of numbers.
  if (floating(x) == floating(y) && (a.rank() == 0) != (b.rank() == 0)) return a.rank() == 0 ? y : x;
  return promote(x, y);
}

Tensor mul(Arg self, Arg other) {
  Tape& t = self->tape();
  Node* node = nullptr;
  if (t.records(self, other)) {
    node = t.node(kMulBackward, mul_backward, {&*self, &*other});
    self->requires_grad() ? t.save(node, *other) : t.save_nothing(node);
    other->requires_grad() ? t.save(node, *self) : t.save_nothing(node);
  }
  Tensor out = elementwise(kMul, promote(*self, *other), {&*self, &*other});
  t.attach(out, node);
  done(self, other);
  return out;
}

Tensor div(Arg self, Arg other) {
  Tape& t = self->tape();
  Node* node = nullptr;
  if (t.records(self, other)) {
    node = t.node(kDivBackward, div_backward, {&*self, &*other});
    t.save(node, *other);
    other->requires_grad() ? t.save(node, *self) : t.save_nothing(node);
  }
  Tensor out = elementwise(kDiv, promote(*self, *other), {&*self, &*other});
  t.attach(out, node);
  done(self, other);
  return out;
}

Tensor mul_scalar(Arg self) {
  return scaled(kMul, kMulBackward, self);
}
Tensor div_scalar(Arg self) {
  return scaled(kDiv, kDivBackward, self);
}
Tensor neg(Arg self) {
  return scaled(kNeg, kNegBackward, self);
}

Tensor add(Arg self, Arg other) {
  Tape& t = self->tape();
  Node* node = t.records(self, other) ? t.node(kAddBackward, add_backward, {&*self, &*other}) : nullptr;
  Tensor out = elementwise(kAdd, promote(*self, *other), {&*self, &*other});
  t.attach(out, node);
  done(self, other);
  return out;
}

Tensor add_scalar(Arg self) {
  Tape& t = self->tape();
  Node* node = t.records(self) ? t.node(kAddBackward, pass_backward, {&*self}) : nullptr;
  Tensor out = elementwise(kAdd, self->dtype(), {&*self});
  t.attach(out, node);
  done(self);
  return out;
}

Tensor sub(Arg self, Arg other) {
  Tape& t = self->tape();
  Node* node = t.records(self, other) ? t.node(kSubBackward, sub_backward, {&*self, &*other}) : nullptr;
  Tensor out = elementwise(kSub, promote(*self, *other), {&*self, &*other});
  t.attach(out, node);
  done(self, other);
  return out;
}

Tensor pow(Arg self) {
  Tape& t = self->tape();
  Tensor x = autocast_fp32(*self, t);
  Node* node = nullptr;
  if (t.records(self)) {
    node = t.node(kPowBackward, pow_backward, {&x});
    t.save(node, x);
  }
  Tensor out = elementwise(kPow, x.dtype(), {&x});
  t.attach(out, node);
  x.reset();
  done(self);
  return out;
}

Tensor rsqrt(Arg self) {
  Tape& t = self->tape();
  Node* node = t.records(self) ? t.node(kRsqrtBackward, rsqrt_backward, {&*self}) : nullptr;
  Tensor out = elementwise(kRsqrt, self->dtype(), {&*self});
  if (node != nullptr) t.save(node, out);
  t.attach(out, node);
  done(self);
  return out;
}

Tensor exp(Arg self) {
  return unary(kExp, kExpBackward, self, true);
}
Tensor tanh(Arg self) {
  return unary(kTanh, kTanhBackward, self, true);
}
Tensor sigmoid(Arg self) {
  return unary(kSigmoid, kSigmoidBackward, self, true);
}
Tensor relu(Arg self) {
  return unary(kRelu, kReluBackward, self, true);
}
Tensor silu(Arg self) {
  return unary(kSilu, kSiluBackward, self, false);
}
Tensor softplus(Arg self) {
  return unary(kSoftplus, kSoftplusBackward, self, false);
}
Tensor gelu(Arg self) {
  return unary(kGelu, kGeluBackward, self, false);
}

Tensor clamp(Arg self) {
  Tape& t = self->tape();
  Node* node = nullptr;
  if (t.records(self)) {
    node = t.node(kClampBackward, clamp_backward, {&*self});
    t.save(node, *self);
  }
  Tensor out = elementwise(kClamp, self->dtype(), {&*self});
  t.attach(out, node);
  done(self);
  return out;
}

Tensor clamp(Arg self, const Tensor& lower, const Tensor& upper) {
  Tape& t = self->tape();
  Node* node = nullptr;
  if (t.records(self)) {
    node = t.node(kClampBackward, clamp_backward, {&*self});
    t.save(node, *self);
    t.save(node, lower);
    t.save(node, upper);
  }
  Tensor out = elementwise(kClamp, self->dtype(), {&*self, &lower, &upper});
  t.attach(out, node);
  done(self);
  return out;
}

Tensor maximum(Arg self, Arg other) {
  return extremum(kMaximum, kMaximumBackward, self, other);
}
Tensor minimum(Arg self, Arg other) {
  return extremum(kMinimum, kMinimumBackward, self, other);
}

Tensor masked_fill(Arg self, Arg mask) {
  Tape& t = self->tape();
  Node* node = nullptr;
  if (t.records(self)) {
    node = t.node(kMaskedFillBackward, masked_fill_backward, {&*self});
    t.save(node, *mask);
  }
  Tensor out = elementwise(kMaskedFill, self->dtype(), {&*self, &*mask});
  t.attach(out, node);
  done(self, mask);
  return out;
}

Tensor where(Arg condition, Arg self, Arg other) {
  Tape& t = self->tape();
  Node* node = nullptr;
  if (t.records(self, other)) {
    node = t.node(kWhereBackward, where_backward, {nullptr, &*self, &*other});
    t.save(node, *condition);
  }
  Tensor out = elementwise(kWhere, promote(*self, *other), {&*condition, &*self, &*other});
  t.attach(out, node);
  done(condition, self, other);
  return out;
}

void add_in_place(const Tensor& self, const Tensor& other) {
  Tape& t = self.tape();
  if (t.wants_operations()) Work(t, OperationKind::elementwise, kAdd).in(self).in(other).out(self).run();
}

Tensor div_scalar_in_place(const Tensor& self) {
  Tape& t = self.tape();
  Node* node = t.records(Arg(self)) ? t.node(kDivBackward, scaled_backward, {&self}) : nullptr;
  Tensor out = t.alias(self, self.shape(), 0, false);
  t.attach(out, node);
  return out;
}

void mul_in_place(const Tensor& self) {
  Tape& t = self.tape();
  if (t.wants_operations()) Work(t, OperationKind::elementwise, kMul).in(self).out(self).run();
}

Tensor plain(std::uint16_t name, DType dtype, Arg self) {
  Tensor out = elementwise(name, dtype, {&*self});
  done(self);
  return out;
}

Tensor plain(std::uint16_t name, DType dtype, Arg self, Arg other) {
  Tensor out = elementwise(name, dtype, {&*self, &*other});
  done(self, other);
  return out;
}

}  // namespace headroom::tape
