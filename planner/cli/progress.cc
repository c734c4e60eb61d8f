#include "planner/cli/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <iostream>
#include <utility>

namespace headroom::cli {
namespace {

constexpr double kFirst = 1, kBetween = 0.2;  // seconds

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

ProgressLine::ProgressLine(const Streams& streams, bool quiet)
    : ProgressLine(streams.err, !quiet && &streams.err == &std::cerr && isatty(STDERR_FILENO) != 0, steady_seconds) {}

ProgressLine::ProgressLine(std::ostream& err, bool on, Clock clock)
    : err_(err), on_(on), clock_(std::move(clock)), start_(clock_()) {}

ProgressLine::~ProgressLine() {
  if (shown_) err_ << "\r\x1b[K" << std::flush;
}

void ProgressLine::tell(const std::function<std::string(double seconds)>& text) {
  if (!on_) return;
  const std::lock_guard lock(mutex_);
  const double now = clock_();
  if (now - start_ < kFirst || (shown_ && now - last_ < kBetween)) return;
  last_ = now;
  shown_ = true;
  err_ << "\r\x1b[K" << text(now - start_) << std::flush;
}

void ProgressLine::ran() {
  const std::int64_t runs = ++runs_;
  tell([runs](double seconds) { return fmt::format("{} configurations run, {:.0f} s", runs, seconds); });
}

Executor counted(Executor executor, ProgressLine& line) {
  return [executor = std::move(executor), &line](const Job& job, const Hardware& hardware) {
    Result<Report> report = executor(job, hardware);
    line.ran();
    return report;
  };
}

}  // namespace headroom::cli
