#include "simulator/tape/modules/rotary.h"

#include "simulator/tape/core/autocast.h"
#include "simulator/tape/operations/copy.h"
#include "simulator/tape/operations/linear.h"
#include "simulator/tape/operations/pointwise.h"
#include "simulator/tape/operations/views.h"

namespace headroom::tape {
namespace {

const std::uint16_t kFrequencies = operation_name("compute_default_rope_parameters");
const std::uint16_t kCos = operation_name("aten::cos"), kSin = operation_name("aten::sin");

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

/// One of queries and keys, whole heads, by a form that treats them apart.
Tensor rotate_one(RotaryForm form, const Tensor& x, const Tensor& cos, const Tensor& sin) {
  const DType dtype = x.dtype();
  switch (form) {
    case RotaryForm::deinterleaved: {
      const std::int64_t half = x.size(3) / 2;
      Tensor apart = transpose(view(x, {x.size(0), x.size(1), x.size(2), half, 2}), 3, 4);
      apart = reshape(std::move(apart), {x.size(0), x.size(1), x.size(2), x.size(3)});
      return apply_rotary(apart, cos, sin);
    }
    case RotaryForm::complex: {
      Tensor wide = to(x, DType::fp32);
      return to(mul(std::move(wide), cos), dtype);
    }
    default:
      return apply_rotary(x, cos, sin);
  }
}

}  // namespace

void RotaryEmbedding::build(Model& model, const std::string& name, std::int64_t rotary_dim) {
  Tape& tape = model.tape();
  module = model.intern(name);
  const ModuleScope scope(tape, module);
  const ComponentScope component(tape, Component::weights);
  frequencies = make_frequencies(tape, rotary_dim / 2);
  original_frequencies = clone(frequencies);
  model.buffers().push_back(&frequencies);
  model.buffers().push_back(&original_frequencies);
}

void RotaryEmbedding::initialise(Model& model) const {
  const ModuleScope scope(model.tape(), module);
  make_frequencies(model.tape(), frequencies.size(0));
}

std::pair<Tensor, Tensor> RotaryEmbedding::operator()(const Tensor& position_ids, DType dtype) const {
  Tape& tape = position_ids.tape();
  const ModuleScope scope(tape, module);
  const GradMode no_grad(tape, false);
  const Autocast full_precision(tape, false);
  const std::int64_t rows = position_ids.size(0), half = frequencies.size(0);
  Tensor inverse = unsqueeze(frequencies, 0);
  inverse = unsqueeze(std::move(inverse), -1);
  inverse = expand(std::move(inverse), {rows, half, 1});
  Tensor positions = unsqueeze(position_ids, 1);
  positions = to(std::move(positions), DType::fp32);
  Tensor product = bmm(inverse, positions);
  Tensor angles = transpose(std::move(product), 1, 2);
  Tensor both = cat(angles, angles, -1);
  Tensor cos = plain(kCos, DType::fp32, both);
  cos = mul_scalar(std::move(cos));
  Tensor sin = plain(kSin, DType::fp32, both);
  sin = mul_scalar(std::move(sin));
  Tensor cos_out = to(cos, dtype);
  Tensor sin_out = to(sin, dtype);
  drop(inverse, positions, angles, both, cos, sin);
  return {std::move(cos_out), std::move(sin_out)};
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

Parts parts_of(const Tensor& x, std::int64_t turned) {
  return {slice(x, -1, 0, turned), slice(x, -1, turned, x.size(-1) - turned)};
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
  Tensor turned_query = rotate_one(form, query, wide_cos, wide_sin);
  Tensor turned_key = rotate_one(form, key, wide_cos, wide_sin);
  query = std::move(turned_query);
  key = std::move(turned_key);
}

}  // namespace headroom::tape
