#include "simulator/tape/operations/radix_sort.h"

namespace headroom::tape {
namespace {

constexpr std::int64_t kAlignment = 256, kHistogram = 256 * 4, kBins = 256 * 8, kDigitBits = 8;
constexpr std::int64_t kSingleTile = 256 * 9, kTile = 4224;

Bytes aligned(Bytes bytes) {
  return ceil_div(bytes, kAlignment) * kAlignment;
}

}  // namespace

Bytes radix_sort_scratch(std::int64_t n, int bits) {
  if (n <= kSingleTile) return 1;
  const std::int64_t passes = ceil_div(bits, kDigitBits);
  const Bytes buffers = passes > 1 ? 2 * aligned(n * 8) : 0;
  return buffers + passes * kBins + ceil_div(n, kTile) * kHistogram + aligned(passes * 4) + kAlignment - 1;
}

}  // namespace headroom::tape
