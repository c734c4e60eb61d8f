#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace headroom::tape {

/// How parameters are packed into chunks of one size. Sizes in elements.
struct ChunkSearch {
  std::int64_t ranks = 1;
  std::int64_t smallest = 32 << 20;  ///< of a chunk; a model below it is one chunk that stays whole
  std::int64_t range = 32 << 20;     ///< sizes beyond the first candidate that are tried …
  std::int64_t interval = 1024;      ///< … in such steps
};

/// One chunk: the parameters in it, in order, and what it wastes at its end.
struct ChunkPlan {
  std::int64_t elements = 0;            ///< padded to equal parts
  std::int64_t used = 0;
  bool whole = false;                   ///< never spread over ranks
  std::vector<std::size_t> parameters;  ///< places in the list given
};

/// The size that wastes least for parameters of these sizes: those beyond the mean and three standard deviations
/// are left out, the first candidate holds the largest of the others, the first of equals wins. O(candidates x
/// parameters). Follows colossalai/zero/gemini/chunk/search_utils.py.
std::int64_t chunk_elements(std::span<const std::int64_t> sizes, const ChunkSearch& search);

/// The chunks of such parameters: each goes into the last chunk, or opens a new one where it has no room; one
/// larger than a chunk has a chunk of its own size, and the chunk before it stays partly empty.
std::vector<ChunkPlan> plan_chunks(std::span<const std::int64_t> sizes, const ChunkSearch& search);

}  // namespace headroom::tape
