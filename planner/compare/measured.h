#pragma once

#include <optional>
#include <string>
#include <vector>

#include "models/base/bytes.h"
#include "models/base/result.h"
#include "models/document/document.h"

namespace headroom::compare {

/// What a recorded run measured in one phase; bytes as torch.cuda.memory_stats() counts them.
struct MeasuredPhase {
  int step = 0;
  std::string phase;
  Bytes peak_allocated = 0, peak_reserved = 0;
  std::optional<std::int64_t> n_allocs;
  std::optional<double> seconds = {};
  int depth = 0;  ///< calls that it stood within
  bool emptied = false;  ///< the cache was emptied at its end
  bool ended_out_of_memory = false;
};

struct Measured {
  std::string name;
  std::string process;  ///< of a job of several: the one recorded (`case.process`); empty: the first
  std::vector<MeasuredPhase> phases;  ///< in order
};

/// The `phases` of a recording. Where a trainer's calls within calls were recorded (train_step, backward and
/// optimizer_step with a `depth`), calls of one name in a step are one row, and after GRPO's a row
/// train_actor is the largest of those three. Errors name FILE:LINE and key
/// (phases[3].peak_alloc), what was expected there and what was found.
Result<Measured> measured_of(const Document& recording, const std::string& file);
Result<Measured> read_measured(const std::string& path);

}  // namespace headroom::compare
