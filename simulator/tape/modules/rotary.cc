#include "simulator/tape/modules/rotary.h"

#include "simulator/tape/core/autocast.h"
#include "simulator/tape/operations/copy.h"
#include "simulator/tape/operations/linear.h"
#include "simulator/tape/operations/pointwise.h"
#include "simulator/tape/operations/views.h"

namespace headroom::tape {
namespace {

const std::uint16_t kFrequencies = operation_name("compute_default_rope_parameters");
const std::uint16_t kCos = operation_name("aten::cos"), kSin = operation_name("aten::sin"),
                    kPolar = operation_name("aten::polar"), kMul = operation_name("aten::mul"),
                    kMulBackward = operation_name("MulBackward0");

/// 1 / base^(arange(0, d, 2) / d).
Tensor make_frequencies(Tape& tape, std::int64_t half) {
  const auto fresh = [&] { return tape.empty({half}, DType::fp32, kFrequencies); };
  Tensor range = fresh();
  Tensor fraction = fresh();
  range.reset();
  Tensor power = fresh();
  Tensor base = tape.empty({}, DType::int64, kFrequencies);
  drop(base, fraction);
  Tensor reciprocal = fresh();
  Tensor out = fresh();
  drop(reciprocal, power);
  return out;
}

Tensor rotate_half(const Tensor& x) {
  const std::int64_t half = x.size(-1) / 2;
  Tensor first = slice(x, -1, 0, half);
  Tensor second = slice(x, -1, half, half);
  Tensor negative = neg(second);
  Tensor out = cat(std::move(negative), first, -1);
  drop(first, second);
  return out;
}

}  // namespace

void RotaryEmbedding::build(Model& model, const std::string& name, std::int64_t rotary_dim) {
  Tape& tape = model.tape();
  module = model.intern(name);
  const ModuleScope scope(tape, module);
  const ComponentScope component(tape, Component::weights);
  frequencies = make_frequencies(tape, ceil_div(rotary_dim, 2));
  original_frequencies = clone(frequencies);
  model.register_buffer(frequencies);
  model.register_buffer(original_frequencies);
}

Tensor RotaryEmbedding::initialise(Model& model) const {
  const ModuleScope scope(model.tape(), module);
  return make_frequencies(model.tape(), frequencies.size(0));
}

std::pair<Tensor, Tensor> RotaryEmbedding::operator()(const Tensor& position_ids, DType dtype,
                                                      bool half) const {
  Tape& tape = position_ids.tape();
  const ModuleScope scope(tape, module);
  const GradMode no_grad(tape, false);
  const Autocast full_precision(tape, false);
  Tensor positions;
  Tensor angle = angles(position_ids, positions);
  Tensor both = half ? angle : cat(angle, angle, -1);
  Tensor cos = plain(kCos, DType::fp32, both);
  cos = mul_scalar(std::move(cos));
  Tensor sin = plain(kSin, DType::fp32, both);
  sin = mul_scalar(std::move(sin));
  Tensor cos_out = to(cos, dtype);
  Tensor sin_out = to(sin, dtype);
  drop(positions, angle, both, cos, sin);
  return {std::move(cos_out), std::move(sin_out)};
}

Tensor RotaryEmbedding::angles(const Tensor& position_ids, Tensor& positions) const {
  const std::int64_t rows = position_ids.size(0), half = frequencies.size(0);
  Tensor inverse = expand(unsqueeze(unsqueeze(frequencies, 0), -1), {rows, half, 1});
  positions = to(unsqueeze(position_ids, 1), DType::fp32);
  return transpose(bmm(inverse, positions), 1, 2);
}

Tensor RotaryEmbedding::complex(const Tensor& position_ids) const {
  Tape& tape = position_ids.tape();
  const ModuleScope scope(tape, module);
  const GradMode no_grad(tape, false);
  const Autocast full_precision(tape, false);
  Tensor positions;
  Tensor angle = angles(position_ids, positions);
  Tensor turning;
  {
    const Tensor ones = plain(kPolar, DType::fp32, angle);
    turning = tape.empty({angle.size(0), angle.size(1), angle.size(2), 2}, DType::fp32, kPolar);
  }
  turning = mul_scalar(turning);
  drop(positions, angle);
  return turning;
}

Tensor apply_rotary(const Tensor& x, const Tensor& cos, const Tensor& sin) {
  Tensor straight = mul(x, cos);
  Tensor half = rotate_half(x);
  Tensor turned = mul(std::move(half), sin);
  return add(std::move(straight), std::move(turned));
}

namespace {

/// A head's columns that turn, and the others.
struct Parts {
  Tensor turned, rest;
};

/// Python's slice of a whole dimension is the tensor itself.
Parts parts_of(const Tensor& x, std::int64_t turned) {
  const std::int64_t rest = x.size(-1) - turned;
  return {rest > 0 ? slice(x, -1, 0, turned) : alias(x), slice(x, -1, turned, rest)};
}

void rotate_joined(Tensor& query, Tensor& key, const Tensor& cos, const Tensor& sin) {
  Parts q = parts_of(query, cos.size(-1)), k = parts_of(key, cos.size(-1));
  Tensor new_query = cat(apply_rotary(q.turned, cos, sin), q.rest, -1);
  Tensor new_key = cat(apply_rotary(k.turned, cos, sin), k.rest, -1);
  drop(q.turned, q.rest, k.turned, k.rest);
  query = std::move(new_query);
  key = std::move(new_key);
}

void rotate_held(Tensor& query, Tensor& key, const Tensor& cos, const Tensor& sin,
                 std::vector<Tensor>& held) {
  Parts q = parts_of(query, cos.size(-1)), k = parts_of(key, cos.size(-1));
  Tensor new_query = apply_rotary(q.turned, cos, sin);
  Tensor new_key = apply_rotary(k.turned, cos, sin);
  q.turned = std::move(new_query);
  k.turned = std::move(new_key);
  query = cat(q.turned, q.rest, -1);
  key = cat(k.turned, k.rest, -1);
  held = {std::move(q.turned), std::move(q.rest), std::move(k.turned), std::move(k.rest)};
}

/// Even and odd columns of both, by the first half of the tables.
void rotate_interleaved(Tensor& query, Tensor& key, const Tensor& cos, const Tensor& sin) {
  const std::int64_t half = cos.size(-1) / 2;
  const Tensor c = unsqueeze(slice(cos, -1, 0, half), 1), s = unsqueeze(slice(sin, -1, 0, half), 1);
  const Tensor q1 = every(query, -1, 0, 2), q2 = every(query, -1, 1, 2);
  const Tensor k1 = every(key, -1, 0, 2), k2 = every(key, -1, 1, 2);
  const auto turned = [&](const Tensor& even, const Tensor& odd) {
    Tensor first = mul(even, c);
    first = sub(std::move(first), mul(odd, s));
    Tensor second = mul(odd, c);
    second = add(std::move(second), mul(even, s));
    return cat(std::move(first), std::move(second), -1);
  };
  Tensor new_query = turned(q1, q2), new_key = turned(k1, k2);
  query = std::move(new_query);
  key = std::move(new_key);
}

/// One of queries and keys, its halves by tables [B or 1,1,T,half].
Tensor turned_halves(const Tensor& x, const Tensor& cos, const Tensor& sin) {
  const std::vector<Tensor> halves = split(x, -1, x.size(-1) / 2);
  const Tensor &first = halves[0], &second = halves[1];
  Tensor left = mul(first, cos);
  left = sub(std::move(left), mul(second, sin));
  Tensor right = mul(second, cos);
  right = add(std::move(right), mul(first, sin));
  Tensor out = cat(left, right, -1);
  drop(left, right);
  return out;
}

/// The gradient of a product with complex numbers takes their conjugates, written out.
void complex_backward(Node& node, std::span<Tensor> in, std::span<Tensor> out) {
  const Tensor table = node.unpack(0);
  const Tensor conjugate = plain(node.name, DType::fp32, table);
  out[0] = plain(node.name, DType::fp32, in[0], conjugate);
}

/// One of queries and keys [B,heads,T,2n], pairs as complex numbers, times the table [B or 1,1,T,n,2].
Tensor turned_complex(const Tensor& wide, const Tensor& table) {
  Tape& tape = wide.tape();
  Node* node = nullptr;
  if (tape.records(Arg(wide))) {
    node = tape.node(kMulBackward, complex_backward, {&wide});
    tape.save(node, table);
  }
  Tensor out = elementwise(kMul, DType::fp32, {&wide, &table});
  tape.attach(out, node);
  return out;
}

void rotate_complex(Tensor& query, Tensor& key, const Tensor& table) {
  const DType dtype = query.dtype();
  const auto paired = [](const Tensor& x) {
    return reshape(to(x, DType::fp32), {x.size(0), x.size(1), x.size(2), -1, 2});
  };
  Tensor q = paired(query), k = paired(key);
  const Tensor wide_table = unsqueeze(table, 1);
  const auto turned = [&](const Tensor& x, const Tensor& of) {
    Tensor product = turned_complex(x, wide_table);
    return to(reshape(std::move(product), of.shape().sizes()), dtype);
  };
  Tensor new_query = turned(q, query), new_key = turned(k, key);
  drop(q, k);
  query = std::move(new_query);
  key = std::move(new_key);
}

/// Tables or operands are fp32, both results are cast at the end.
void rotate_wide(RotaryForm form, Tensor& query, Tensor& key, const Tensor& cos, const Tensor& sin) {
  const DType dtype = query.dtype();
  Tensor q = query, k = key;
  if (form == RotaryForm::pairs_fp32) {
    q = to(query, DType::fp32);
    k = to(key, DType::fp32);
  }
  Tensor wide_query = apply_rotary(q, cos, sin);
  Tensor wide_key = apply_rotary(k, cos, sin);
  Tensor new_query = to(wide_query, dtype), new_key = to(wide_key, dtype);
  drop(q, k, wide_query, wide_key);
  query = std::move(new_query);
  key = std::move(new_key);
}

}  // namespace

void apply_partial_rotary(Tensor& query, Tensor& key, const Tensor& cos, const Tensor& sin) {
  const Tensor wide_cos = unsqueeze(cos, 1), wide_sin = unsqueeze(sin, 1);
  Parts q = parts_of(query, cos.size(-1)), k = parts_of(key, cos.size(-1));
  Tensor new_query = apply_rotary(q.turned, wide_cos, wide_sin);
  Tensor new_key = apply_rotary(k.turned, wide_cos, wide_sin);
  new_query = cat(new_query, q.rest, -1);
  new_key = cat(new_key, k.rest, -1);
  drop(q.turned, q.rest, k.turned, k.rest);
  query = std::move(new_query);
  key = std::move(new_key);
}

void rotate(RotaryForm form, Tensor& query, Tensor& key, const Tensor& cos, const Tensor& sin,
            std::vector<Tensor>& held) {
  if (form == RotaryForm::pairs && cos.size(-1) < query.size(-1)) {
    // One half of the tables, each number twice.
    const Tensor twice_cos = clone(cos), twice_sin = clone(sin);
    return apply_partial_rotary(query, key, twice_cos, twice_sin);
  }
  if (form == RotaryForm::leading) return apply_partial_rotary(query, key, cos, sin);
  if (form == RotaryForm::complex) return rotate_complex(query, key, cos);
  if (form == RotaryForm::interleaved) return rotate_interleaved(query, key, cos, sin);
  const Tensor wide_cos = unsqueeze(cos, 1), wide_sin = unsqueeze(sin, 1);
  switch (form) {
    case RotaryForm::partial:
      return rotate_held(query, key, wide_cos, wide_sin, held);
    case RotaryForm::joined:
      return rotate_joined(query, key, wide_cos, wide_sin);
    case RotaryForm::pairs_fp32:
    case RotaryForm::halves_fp32:
      return rotate_wide(form, query, key, wide_cos, wide_sin);
    default:
      break;
  }
  if (form == RotaryForm::half_tables) {
    Tensor new_query = turned_halves(query, wide_cos, wide_sin);
    Tensor new_key = turned_halves(key, wide_cos, wide_sin);
    query = std::move(new_query);
    key = std::move(new_key);
    return;
  }
  Tensor turned_query = apply_rotary(query, wide_cos, wide_sin);
  Tensor turned_key = apply_rotary(key, wide_cos, wide_sin);
  query = std::move(turned_query);
  key = std::move(turned_key);
}

}  // namespace headroom::tape
