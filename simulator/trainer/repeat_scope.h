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

/// Which of `all` equal runs are made, and for how many each stands: all of them where they are few, else as many as
/// kShownRuns says.
class Runs {
 public:
  struct Run {
    std::int64_t index = 0;  ///< among all
    double times = 1;
  };
  Runs(std::int64_t all, bool few) : all_(all), shown_(few ? all : shown_runs(all)) {}
  std::int64_t shown() const { return shown_; }
  Run at(std::int64_t i) const {
    if (shown_ == all_ || i == 0) return {i, 1};
    return i == 1 ? Run{1, static_cast<double>(all_ - kShownRuns + 1)} : Run{all_ - 1, 1};
  }

 private:
  std::int64_t all_, shown_;
};

/// RoleContext::repeat times `times`, for a scope. Null: nobody counts.
class TimesScope {
 public:
  TimesScope(double* repeat, double times) : repeat_(repeat), before_(repeat == nullptr ? 1 : *repeat) {
    if (repeat_ != nullptr) *repeat_ = before_ * times;
  }
  ~TimesScope() {
    if (repeat_ != nullptr) *repeat_ = before_;
  }
  TimesScope(const TimesScope&) = delete;
  TimesScope& operator=(const TimesScope&) = delete;

 private:
  double* repeat_;
  double before_;
};

}  // namespace headroom::trainer
