#pragma once

#include "models/base/bytes.h"

namespace headroom::replay {

/// Whether an archive grows as no recording does: a few hundred bytes of one repeated character expand a
/// thousandfold, what programs record some ten- to fiftyfold. Small contents are read whatever they came from.
/// `compressed` 0: unknown.
constexpr bool expands_too_far(Bytes content, Bytes compressed) {
  constexpr Bytes kHarmless = 64 * kMiB, kMost = 200;
  return content > kHarmless && compressed > 0 && content / kMost > compressed;
}

inline constexpr const char* kExpandsTooFar =
    "expands to more than 200 times its size, as no recording does; unpack it first if it is one";

}  // namespace headroom::replay
