#include <algorithm>
#include <bit>

#include "simulator/allocator/settings.h"

namespace headroom::allocator {
namespace {

// `bytes` rounded up to one of `divisions` equal steps between the powers of two around it.
Bytes round_up_power2_divisions(Bytes bytes, int divisions) {
  const auto value = static_cast<std::uint64_t>(bytes);
  if (std::has_single_bit(value)) return bytes;
  const std::uint64_t floor = std::bit_floor(value);
  const std::uint64_t step = floor / static_cast<std::uint64_t>(divisions);
  if (step == 0) return static_cast<Bytes>(2 * floor);
  return round_up(bytes, static_cast<Bytes>(step));
}

}  // namespace

Bytes round_request(const AllocatorSettings& settings, Bytes bytes) {
  if (bytes < kMinBlock) return kMinBlock;
  const int log2 = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(bytes))) - 1;
  const int divisions =
      settings.roundup_power2_divisions[static_cast<std::size_t>(std::clamp(log2 - 20, 0, 15))];
  if (divisions > 1 && bytes > kMinBlock * divisions) return round_up_power2_divisions(bytes, divisions);
  return round_up(bytes, kMinBlock);
}

Bytes segment_size(const AllocatorSettings& settings, Bytes rounded) {
  if (rounded <= kSmallMax) return kSmallSegment;
  if (rounded < kMinLarge) return settings.large_segment_size;
  return round_up(rounded, kRoundLarge);
}

Bytes round_pinned(const AllocatorSettings& settings, Bytes bytes) {
  if (bytes > settings.pinned_max_round_threshold) return bytes;
  return static_cast<Bytes>(std::bit_ceil(static_cast<std::uint64_t>(bytes)));
}

}  // namespace headroom::allocator
