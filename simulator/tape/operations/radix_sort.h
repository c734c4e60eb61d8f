#pragma once

#include <cstdint>

#include "models/base/bytes.h"

namespace headroom::tape {

/// CUB's scratch memory for a radix sort of `n` 64-bit keys with 64-bit values of which `bits` differ: 1 byte
/// where a single tile holds them all; else bins of each pass over a digit of 8 bits, a histogram for every
/// tile of keys, counters, and with more than one pass a second buffer of keys and of values. Source:
/// DispatchRadixSort of CUDA 13.0's CUB; checked against recorded embeddings' and indices' gradients.
Bytes radix_sort_scratch(std::int64_t n, int bits = 64);

}  // namespace headroom::tape
