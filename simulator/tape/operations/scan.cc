#include "simulator/tape/operations/scan.h"

#include "simulator/tape/operations/copy.h"

namespace headroom::tape {
namespace {

const std::uint16_t kCumsum = operation_name("aten::cumsum");
/// Tile descriptors of CUB's scan, a flag and two numbers each.
constexpr Bytes kScanScratch = 1279, kNarrowScanScratch = 1023;

}  // namespace

Tensor cumsum(Arg self) {
  Tape& tape = self->tape();
  Tensor out = tape.empty(Shape::contiguous(self->shape().sizes()), DType::int64, kCumsum);
  {
    const Tensor wide = to(*self, DType::int64);
    const Tensor scratch = single_row_scratch(wide);
  }
  done(self);
  return out;
}

Tensor single_row_scratch(const Tensor& self) {
  if (self.elements() != self.size(-1)) return {};
  const bool wide = element_size(self.dtype()) == 8;
  return self.tape().empty({wide ? kScanScratch : kNarrowScanScratch}, DType::uint8, kCumsum);
}

}  // namespace headroom::tape
