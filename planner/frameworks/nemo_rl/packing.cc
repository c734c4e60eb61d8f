#include "planner/frameworks/nemo_rl/packing.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "models/base/bytes.h"

namespace headroom::nemo_rl {
namespace {

using Row = std::vector<std::int64_t>;

/// Half, a third and a sixth of a row part sequences into large, medium, small and tiny ones.
class Packer {
 public:
  Packer(std::span<const std::int64_t> lengths, std::int64_t capacity) : capacity_(capacity) {
    for (const std::int64_t length : lengths) {
      if (2 * length > capacity)
        rows_.push_back({length});
      else if (3 * length > capacity)
        medium_.push_back(length);
      else
        (6 * length > capacity ? small_ : tiny_).push_back(length);
    }
    std::stable_sort(rows_.begin(), rows_.end(), std::greater<>());
    std::stable_sort(medium_.begin(), medium_.end(), std::greater<>());
    std::stable_sort(small_.begin(), small_.end());
  }

  std::vector<Row> pack() {
    add_medium();
    add_pairs();
    Row rest = small_;
    rest.insert(rest.end(), medium_.begin(), medium_.end());
    rest.insert(rest.end(), tiny_.begin(), tiny_.end());
    std::stable_sort(rest.begin(), rest.end(), std::greater<>());
    for (Row& row : rows_) fill(row, rest);
    open_rows(rest);
    return std::move(rows_);
  }

 private:
  std::int64_t room(const Row& row) const {
    return capacity_ - std::accumulate(row.begin(), row.end(), std::int64_t{0});
  }

  /// Each row of a large sequence gets the largest medium one that it has room for.
  void add_medium() {
    for (Row& row : rows_) take_largest(row, medium_);
  }

  /// From the last row back: two small ones, the smallest and the largest that fits beside it, where no medium one is.
  void add_pairs() {
    for (auto row = rows_.rbegin(); row != rows_.rend(); ++row) {
      if (row->size() > 1 || small_.size() < 2) continue;
      const std::int64_t left = room(*row);
      if (small_[0] + small_[1] > left) continue;
      row->push_back(small_.front());
      small_.erase(small_.begin());
      auto second = small_.end() - 1;
      while (*second > left - row->back()) --second;  // the next smallest fits
      row->push_back(*second);
      small_.erase(second);
    }
  }

  /// Of lengths in descending order the first that fits.
  bool take_largest(Row& row, Row& from) const {
    const std::int64_t left = room(row);
    const auto found = std::find_if(from.begin(), from.end(), [&](std::int64_t length) { return length <= left; });
    if (found == from.end()) return false;
    row.push_back(*found);
    from.erase(found);
    return true;
  }

  void fill(Row& row, Row& rest) const {
    while (take_largest(row, rest)) continue;
  }

  /// What fits nowhere opens rows of its own, each length going to the first of them with room.
  void open_rows(const Row& rest) {
    const auto first = static_cast<std::ptrdiff_t>(rows_.size());
    for (const std::int64_t length : rest) {
      const auto found = std::find_if(rows_.begin() + first, rows_.end(),
                                      [&](const Row& row) { return length <= room(row); });
      if (found == rows_.end())
        rows_.push_back({length});
      else
        found->push_back(length);
    }
  }

  std::int64_t capacity_;
  std::vector<Row> rows_;
  Row medium_, small_, tiny_;
};

}  // namespace

std::vector<std::vector<std::int64_t>> packed_rows(std::span<const std::int64_t> lengths, std::int64_t capacity) {
  return Packer(lengths, capacity).pack();
}

std::vector<std::vector<std::int64_t>> dynamic_rows(std::span<const std::int64_t> lengths, std::int64_t capacity,
                                                    std::int64_t round) {
  Row sorted(lengths.begin(), lengths.end());
  std::stable_sort(sorted.begin(), sorted.end());
  std::vector<Row> rows;
  for (const std::int64_t length : sorted) {
    const std::int64_t padded = std::min(ceil_div(length, round) * round, sorted.back());
    if (rows.empty() || padded * static_cast<std::int64_t>(rows.back().size() + 1) > capacity) rows.emplace_back();
    rows.back().assign(rows.back().size() + 1, padded);
  }
  return rows;
}

}  // namespace headroom::nemo_rl
