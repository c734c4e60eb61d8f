#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace headroom::nemo_rl {

/// Rows of packed sequences as NeMo RL's default packer (`modified_first_fit_decreasing`) forms them: Johnson and
/// Garey's modified first fit decreasing ("A 71/60 theorem for bin packing", 1985) with rows of `capacity` tokens.
/// `lengths` in the order of the batch, each at least 1 and at most `capacity`; each row holds lengths in the order in
/// which they were put there.
std::vector<std::vector<std::int64_t>> packed_rows(std::span<const std::int64_t> lengths, std::int64_t capacity);

/// Rectangles of NeMo RL's dynamic batching: sequences sorted by length, as many at a time as stay within `capacity`
/// tokens when each is as long as the longest of them, rounded up to `round` but no longer than the batch's longest. Each
/// row holds the lengths to which its sequences are padded.
std::vector<std::vector<std::int64_t>> dynamic_rows(std::span<const std::int64_t> lengths, std::int64_t capacity,
                                                    std::int64_t round);

}  // namespace headroom::nemo_rl
