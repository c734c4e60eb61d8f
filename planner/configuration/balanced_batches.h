#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace headroom {

/// Indices of `workloads` in `parts` groups whose sums differ little: the differencing method of Karmarkar and
/// Karp for several groups. The two partial solutions that are spread widest are joined, largest group with
/// smallest, until one is left. Each group's indices ascend. 1 ≤ parts ≤ workloads. O(n log n · parts).
std::vector<std::vector<std::size_t>> balanced_parts(std::span<const std::int64_t> workloads, std::size_t parts);

/// Sequences of these token lengths in as few micro-batches as their tokens need at `budget` each, balanced by
/// what they compute (24576 · tokens + tokens²), so that one can hold more than the budget. The heaviest stand
/// in the middle.
std::vector<std::vector<std::int64_t>> budgeted_batches(std::span<const std::int64_t> lengths,
                                                        std::int64_t budget);

}  // namespace headroom
