#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "models/base/result.h"

namespace headroom {

/// A number of bytes. Signed 64 bits: differences are bytes too.
using Bytes = std::int64_t;

inline constexpr Bytes kKiB = Bytes{1} << 10;
inline constexpr Bytes kMiB = Bytes{1} << 20;
inline constexpr Bytes kGiB = Bytes{1} << 30;

/// `value` rounded up to a multiple of `step` (> 0).
constexpr Bytes round_up(Bytes value, Bytes step) {
  return (value + step - 1) / step * step;
}

/// `value` / `parts` rounded up; both > 0.
constexpr std::int64_t ceil_div(std::int64_t value, std::int64_t parts) {
  return (value + parts - 1) / parts;
}

/// A size as people write it: `80GiB`, `80 GB`, `512MiB`, `1.5TiB`, `4096B`. GiB is 2^30, GB is 10^9.
/// A bare number is an error (its unit would be a guess), as are negative values and values beyond 63 bits.
Result<Bytes> parse_bytes(std::string_view text);

/// `bytes` in GiB with two decimals and its unit: `76.31 GiB`.
std::string format_gib(Bytes bytes);

/// `bytes` with the largest binary unit that keeps the number at least 1: `512 B`, `20.00 MiB`, `1.50 GiB`.
std::string format_bytes(Bytes bytes);

}  // namespace headroom
