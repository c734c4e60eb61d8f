#pragma once

#include <map>
#include <string>
#include <vector>

#include "models/base/result.h"

namespace headroom::compare {

/// Metrics that a training wrote, by step.
struct LoggedStep {
  std::int64_t step = 0;
  std::map<std::string, double> metrics;  ///< by the framework's own names: `timing_s/gen`
};

struct TrainingLog {
  std::string file;
  std::vector<LoggedStep> steps;  ///< in rising order
};

/// Reads what users have, told apart by form rather than by name:
///
/// * a console: lines with `step:3 - timing_s/gen:18.4 - perf/max_memory_allocated_gb:41.5` (verl), after
///   whatever prefix a launcher puts before them; lines `{'step_time': 3.2, …}` (TRL); below `==== Step 3/20 ====` lists
///   of results and times, `• policy_training: 25.05s (37.6%)` (NeMo RL);
/// * JSON lines: `{"step": 3, "timing_s/gen": 18.4}` or `{"step": 3, "data": {…}}`;
/// * one JSON object from metric to step to value (`{"timing/train/total_step_time": {"1": 97.7}}`, NeMo RL),
///   or a trainer's state with `log_history`;
/// * comma-separated columns with a column of steps (TensorBoard, W&B), where W&B's names may carry the run's
///   name before ` - `.
///
/// Other lines are passed over. Errors: a file that can't be read, or in which no metric of a step is found.
Result<TrainingLog> read_training_log(const std::string& path);
Result<TrainingLog> parse_training_log(const std::string& text, const std::string& file);

/// True where the text is a recording with `phases`, which `read_measured` reads.
bool is_recording(const std::string& text);

}  // namespace headroom::compare
