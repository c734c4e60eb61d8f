#include "simulator/tape/modules/alibi.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "simulator/tape/operations/copy.h"
#include "simulator/tape/operations/pointwise.h"
#include "simulator/tape/operations/scan.h"
#include "simulator/tape/operations/views.h"

namespace headroom::tape {
namespace {

const std::uint16_t kAlibi = operation_name("build_alibi_tensor"), kMask = operation_name("alibi_mask");

}  // namespace

Tensor build_alibi(const Tensor& mask, std::int64_t heads, DType slope_dtype, DType dtype) {
  Tape& tape = mask.tape();
  const std::int64_t batch = mask.size(0), columns = mask.size(1);
  const auto closest = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(heads)));
  const auto made = [&](const Shape& shape, DType of) { return tape.empty(shape, of, kAlibi); };
  Tensor base = made({}, DType::fp32), powers = made({closest}, DType::int32);
  Tensor slopes = made({closest}, DType::fp32);
  Tensor extra_base, extra_powers;
  if (closest != heads) {
    const std::int64_t rest = std::min(closest, heads - closest);
    extra_base = made({}, DType::fp32);
    extra_powers = made({rest}, DType::int32);
    Tensor extra = made({rest}, DType::fp32);
    slopes = cat(slopes, std::move(extra), 0);
  }
  Tensor places;
  {
    Tensor before = plain(kAlibi, DType::int64, cumsum(mask));
    places = plain(kAlibi, DType::int64, before, mask);
  }
  Tensor narrow = to(unsqueeze(slopes, -1), slope_dtype);
  Tensor alibi = made({batch, heads, columns}, slope_dtype);
  narrow.reset();
  Tensor out = to(view(alibi, {batch * heads, 1, columns}), dtype);
  drop(base, powers, slopes, extra_base, extra_powers, places, alibi);
  return out;
}

Tensor alibi_mask(Tensor visible, const Tensor& alibi) {
  Tape& tape = alibi.tape();
  const DType dtype = alibi.dtype();
  const std::int64_t batch = visible.size(0), heads = alibi.size(0) / batch;
  {
    Tensor zero = tape.empty({}, dtype, kMask), lowest = tape.empty({}, dtype, kMask);
    Tensor numbers = tape.empty(Shape::contiguous(visible.shape().sizes()), dtype, kMask);
    drop(lowest, zero);
    visible = std::move(numbers);
  }
  Tensor scaled = plain(kMask, dtype, view(alibi, {batch, heads, 1, alibi.size(2)}));
  Tensor hidden = plain(kMask, DType::boolean, visible);
  Tensor out = tape.empty({batch, heads, visible.size(2), visible.size(3)}, dtype, kMask);
  drop(scaled, hidden, visible);
  return out;
}

}  // namespace headroom::tape
