#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/compare/training_log.h"
#include "simulator/job/job.h"
#include "simulator/report/report.h"

namespace headroom::compare {

/// One logged figure beside its prediction.
struct LogRow {
  std::string metric;  ///< as logged
  std::string what;    ///< phases joined by +, or the memory that it counts
  bool bytes = false;  ///< else seconds
  double predicted = 0, measured = 0;
  std::size_t steps = 0;  ///< that the measured median is of; memory: its highest

  double error() const { return measured > 0 ? 100 * (predicted / measured - 1) : 0; }
};

struct LogComparison {
  std::vector<LogRow> rows;
  std::vector<std::string> unpredicted;  ///< logged times that no phase of the prediction is
};

/// Mean lengths of prompts and responses as the log tells them: medians over all steps but the first; the longest
/// sequence where the longest of both are logged. Nothing where it tells no response's.
std::optional<Lengths> logged_lengths(const TrainingLog& log);

/// Times: the median over all steps but the first, beside the phases of the prediction's last step that the
/// framework's timer encloses. Memory: verl's perf/max_memory_*_gb are GiB of PyTorch's counters in the
/// trainer's process over the whole run, never reset; an engine that lives in that process counts, awake or
/// asleep, even beyond the card. perf/cpu_memory_used_gb is the node's.
LogComparison compare_log(const Job& job, const Report& report, const TrainingLog& log);

std::string table(const LogComparison& comparison);
/// One line: how many metrics, and how far off the farthest is. Ends the line.
std::string verdict(const LogComparison& comparison);
std::string markdown(const LogComparison& comparison);
std::string json(const LogComparison& comparison);

}  // namespace headroom::compare
