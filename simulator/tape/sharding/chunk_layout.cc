#include "simulator/tape/sharding/chunk_layout.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "models/base/bytes.h"

namespace headroom::tape {
namespace {

std::int64_t padded(std::int64_t elements, std::int64_t to) {
  return ceil_div(elements, to) * to;
}

/// Those that are not far larger than the rest.
std::vector<std::int64_t> usual(std::span<const std::int64_t> sizes) {
  constexpr double kDeviations = 3;
  const double count = static_cast<double>(sizes.size());
  const double mean = std::accumulate(sizes.begin(), sizes.end(), 0.0) / count;
  double squares = 0;
  for (const std::int64_t size : sizes) squares += (static_cast<double>(size) - mean) * (static_cast<double>(size) - mean);
  const double limit = mean + kDeviations * std::sqrt(squares / count);
  std::vector<std::int64_t> out;
  for (const std::int64_t size : sizes)
    if (static_cast<double>(size) <= limit) out.push_back(size);
  return out;
}

/// Once it is `enough` the rest does not matter.
std::int64_t waste(std::span<const std::int64_t> sizes, std::int64_t chunk, std::int64_t enough) {
  std::int64_t left = 0, out = 0;
  for (const std::int64_t size : sizes) {
    if (size > left) {
      out += left;
      left = chunk;
      if (out >= enough) return out;
    }
    left -= size;
  }
  return out + left;
}

}  // namespace

std::int64_t chunk_elements(std::span<const std::int64_t> sizes, const ChunkSearch& search) {
  const std::vector<std::int64_t> counted = usual(sizes);
  std::int64_t largest = search.smallest;
  for (const std::int64_t size : counted) largest = std::max(largest, size);
  const std::int64_t first = padded(largest, search.interval);
  std::int64_t best = first, least = std::numeric_limits<std::int64_t>::max();
  for (std::int64_t chunk = first; chunk <= first + search.range; chunk += search.interval) {
    const std::int64_t lost = waste(counted, chunk, least);
    if (lost >= least) continue;
    least = lost;
    best = chunk;
  }
  return padded(best, search.ranks);
}

std::vector<ChunkPlan> plan_chunks(std::span<const std::int64_t> sizes, const ChunkSearch& search) {
  std::vector<ChunkPlan> out;
  if (sizes.empty()) return out;
  const std::int64_t total = std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
  const bool whole = total < search.smallest;
  const std::int64_t usual_size = whole ? total : chunk_elements(sizes, search);
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (out.empty() || out.back().used + sizes[i] > out.back().elements) {
      ChunkPlan& chunk = out.emplace_back();
      chunk.whole = whole;
      chunk.elements = sizes[i] > usual_size ? padded(sizes[i], search.ranks) : usual_size;
    }
    out.back().used += sizes[i];
    out.back().parameters.push_back(i);
  }
  return out;
}

}  // namespace headroom::tape
