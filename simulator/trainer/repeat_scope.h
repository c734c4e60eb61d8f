#pragma once

#include <algorithm>
#include <cstdint>

namespace headroom::trainer {

/// Of runs that are alike so many are made: the first, one in between that stands for the others, and the last.
inline constexpr std::int64_t kShownRuns = 3;

/// How many of `all` are made.
inline std::int64_t shown_runs(std::int64_t all) {
  return std::min(kShownRuns, all);
}

/// Sets RoleContext::repeat for a scope in which run `running` (from 1) of those that are made of `all` goes on: the
/// second stands for all between the first and the last. Null: nobody counts.
class RepeatScope {
 public:
  RepeatScope(double* repeat, std::int64_t running, std::int64_t all) : repeat_(repeat) {
    if (repeat_ != nullptr && all > kShownRuns && running == 2) *repeat_ = static_cast<double>(all - kShownRuns + 1);
  }
  ~RepeatScope() {
    if (repeat_ != nullptr) *repeat_ = 1;
  }
  RepeatScope(const RepeatScope&) = delete;
  RepeatScope& operator=(const RepeatScope&) = delete;

 private:
  double* repeat_;
};

}  // namespace headroom::trainer
