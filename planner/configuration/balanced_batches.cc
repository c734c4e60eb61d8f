#include "planner/configuration/balanced_batches.h"

#include <algorithm>
#include <numeric>
#include <queue>
#include <utility>

#include "models/base/bytes.h"

namespace headroom {
namespace {

struct Group {
  std::int64_t sum = 0;
  std::vector<std::size_t> items;
  bool operator<(const Group& other) const {
    if (sum != other.sum) return sum < other.sum;
    if (items.size() != other.items.size()) return items.size() < other.items.size();
    return items < other.items;
  }
};

/// Some of the items in all groups, the largest group first.
struct Partial {
  std::vector<Group> groups;
  std::int64_t spread() const { return groups.front().sum - groups.back().sum; }
  /// Of two, the one that is joined later.
  bool operator<(const Partial& other) const {
    if (spread() != other.spread()) return spread() < other.spread();
    return groups.front() < other.groups.front();
  }
  void join(const Partial& other) {
    for (std::size_t i = 0; i < groups.size(); ++i) {
      const Group& added = other.groups[groups.size() - 1 - i];
      groups[i].sum += added.sum;
      groups[i].items.insert(groups[i].items.end(), added.items.begin(), added.items.end());
    }
    sort();
  }
  void sort() {
    std::sort(groups.begin(), groups.end(), [](const Group& a, const Group& b) { return b < a; });
  }
};

std::int64_t workload(std::int64_t tokens) {
  return 24576 * tokens + tokens * tokens;
}

}  // namespace

std::vector<std::vector<std::size_t>> balanced_parts(std::span<const std::int64_t> workloads,
                                                     std::size_t parts) {
  std::priority_queue<Partial> open;
  for (std::size_t i = 0; i < workloads.size(); ++i) {
    Partial one;
    one.groups.resize(parts);
    one.groups.front() = {workloads[i], {i}};
    open.push(std::move(one));
  }
  while (open.size() > 1) {
    Partial widest = open.top();
    open.pop();
    widest.join(open.top());
    open.pop();
    open.push(std::move(widest));
  }
  std::vector<std::vector<std::size_t>> out;
  for (const Group& group : open.top().groups) {
    out.push_back(group.items);
    std::sort(out.back().begin(), out.back().end());
  }
  return out;
}

std::vector<std::vector<std::int64_t>> budgeted_batches(std::span<const std::int64_t> lengths,
                                                        std::int64_t budget) {
  std::vector<std::int64_t> work;
  for (const std::int64_t tokens : lengths) work.push_back(workload(tokens));
  const std::int64_t all = std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
  const auto count =
      std::clamp<std::int64_t>(ceil_div(all, budget), 1, static_cast<std::int64_t>(lengths.size()));
  std::vector<std::vector<std::size_t>> parts = balanced_parts(work, static_cast<std::size_t>(count));
  const auto heavier = [&](const std::vector<std::size_t>& a, const std::vector<std::size_t>& b) {
    const auto sum = [&](const std::vector<std::size_t>& part) {
      std::int64_t total = 0;
      for (const std::size_t i : part) total += work[i];
      return total;
    };
    return std::pair(sum(a), a.front()) > std::pair(sum(b), b.front());
  };
  std::sort(parts.begin(), parts.end(), heavier);
  std::vector<std::vector<std::int64_t>> out;
  const auto take = [&](std::size_t part) {
    std::vector<std::int64_t>& batch = out.emplace_back();
    for (const std::size_t i : parts[part]) batch.push_back(lengths[i]);
  };
  for (std::size_t i = (parts.size() + 1) / 2; i-- > 0;) take(2 * i);
  for (std::size_t i = 1; i < parts.size(); i += 2) take(i);
  return out;
}

}  // namespace headroom
