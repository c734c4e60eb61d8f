#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <mutex>
#include <string>

#include "planner/cli/streams.h"
#include "simulator/report/executor.h"

namespace headroom::cli {

/// How far a command is: one line on a terminal, written over, from a second on; gone when the command has its answer.
/// Nothing where standard error is no terminal, and with `--quiet`. Callable from several threads.
class ProgressLine {
 public:
  using Clock = std::function<double()>;  ///< seconds, rising
  ProgressLine(const Streams& streams, bool quiet);
  ProgressLine(std::ostream& err, bool on, Clock clock);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  /// `text` is asked for when the line is written: given the seconds so far.
  void tell(const std::function<std::string(double seconds)>& text);
  /// One more configuration was run: "12 configurations run, 3 s".
  void ran();

 private:
  std::mutex mutex_;
  std::ostream& err_;
  bool on_, shown_ = false;
  Clock clock_;
  double start_, last_ = 0;
  std::atomic<std::int64_t> runs_ = 0;
};

/// `executor`, which tells `line` of every run. `line` outlives it.
Executor counted(Executor executor, ProgressLine& line);

}  // namespace headroom::cli
