#include "simulator/tape/operations/scan.h"

#include "simulator/tape/operations/copy.h"

namespace headroom::tape {
namespace {

const std::uint16_t kCumsum = operation_name("aten::cumsum");
/// Tile descriptors of CUB's scan.
constexpr Bytes kScanScratch = 1279;

}  // namespace

Tensor cumsum(Arg self) {
  Tape& tape = self->tape();
  Tensor out = tape.empty(Shape::contiguous(self->shape().sizes()), DType::int64, kCumsum);
  {
    const Tensor wide = to(*self, DType::int64);
    Tensor scratch;
    if (self->elements() == self->size(-1)) scratch = tape.empty({kScanScratch}, DType::uint8, kCumsum);
  }
  done(self);
  return out;
}

}  // namespace headroom::tape
