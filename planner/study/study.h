#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "models/base/bytes.h"
#include "models/base/result.h"
#include "planner/frameworks/read_job.h"
#include "planner/study/change.h"
#include "planner/study/emptying.h"
#include "simulator/phases/fragmentation.h"

namespace headroom::study {

/// One run of a study, as the file names it.
struct StudyJob {
  std::string name;
  std::string file;      ///< of any framework; relative names are relative to the study's file
  JobOptions options;    ///< framework, overrides (`set`), GPU, nodes, words of a script, environment
  int line = 0;          ///< of the study's file
  std::vector<std::string> strategies;  ///< names of those that it is run with; empty: all
  std::vector<Emptying> empty_cache;    ///< empty: the study's
};

/// A named set of changes.
struct Strategy {
  std::string name;
  std::map<std::string, std::vector<std::string>> set;  ///< by framework: overrides in its own keys
  std::vector<Change> changes;                          ///< of the Job itself, whatever its framework
  int line = 0;
};

/// A study's file, `headroom: study/1`: jobs × strategies × when the cache is emptied.
struct Study {
  std::string file, name;
  int steps = 3;
  std::vector<StudyJob> jobs;
  std::vector<Strategy> strategies;
  std::vector<Emptying> empty_cache;
};

/// Reads the file:
///
///     headroom: study/1
///     name: what is shown                  # default: the file's name
///     steps: 3                             # simulated; seconds are those of the last
///     gpu: rtx-3090                        # of jobs that name none
///     empty_cache: [never, generation, inference, training, phases, micro_batches]   # or own; default: never, phases
///     strategies:                          # default: one, `none`
///       - {name: none}
///       - {name: ZeRO-3, set: {deepspeed-chat: {zero_stage: 3}, verl: {KEY: VALUE}}}
///       - {name: expandable, change: {allocator: "expandable_segments:True"}}
///     jobs:
///       - name: opt
///         file: jobs/opt.yaml
///         set: {world: 4}                  # in the framework's own keys
///         gpu: h100                        # also framework, model, nodes, gpus_per_node, words, environment
///         strategies: [none, ZeRO-3]       # default: all that say something for its framework
///         empty_cache: [never, phases]     # default: the study's
///
/// A strategy that only has `set`, and none for a job's framework, is not run with that job. Errors name
/// FILE:LINE and key: unknown keys and words with the nearest known ones, names given twice, files that are not
/// there, an empty matrix.
Result<Study> read_study(const std::string& file);

/// A place in the matrix.
struct Place {
  std::size_t job = 0, strategy = 0;
  Emptying empty_cache = Emptying::never;
};
/// All places, jobs outermost.
std::vector<Place> places(const Study& study);

/// The highest value and where it was.
struct Peak {
  Bytes bytes = 0;
  int step = 0;
  std::string phase;
};

/// One phase of the step that holds the peak.
struct CellPhase {
  PhaseFragmentation memory;
  double seconds = 0;
};

/// What a place gives, of the training process that reserves most.
struct Cell {
  enum class Status {
    done,
    out_of_memory,  ///< it stops in `message`'s phase; peaks are those until there
    failed,         ///< nothing could be simulated: `message` says why
  };
  std::string job, framework, strategy, gpu;
  std::int64_t gpus = 0;
  Emptying empty_cache = Emptying::never;
  Status status = Status::done;
  std::string message;
  Peak reserved, allocated, device;
  Bytes allocated_there = 0;    ///< at the reserved peak's first moment
  Bytes kept = 0;             ///< of the fragmentation there, what emptying could not give back
  std::int64_t retries = 0;     ///< of allocations that first gave all cached memory back
  double seconds = 0;           ///< of the last step
  std::int64_t gets = 0, returns = 0;  ///< calls of the driver (cudaMalloc, cudaFree) in that step
  std::vector<CellPhase> step;  ///< the peak's, in order
  std::vector<FreePart> parts;  ///< of the fragmentation at the peak, largest first

  Bytes fragmentation() const { return reserved.bytes - allocated_there; }
  Bytes without_fragmentation() const { return allocated_there; }
};

/// `done`, `out_of_memory`, `failed`.
std::string_view name(Cell::Status status);

/// A study's cells in the order of places().
struct Results {
  std::string name;
  std::vector<Cell> cells;
};

/// The cell of the same job and strategy without emptying; null when the study has none that is done.
const Cell* never_emptied(const Results& results, const Cell& cell);
/// Seconds that emptying takes of a step, against never; nothing where that is not known.
std::optional<double> seconds_lost(const Results& results, const Cell& cell);
/// What emptying saves of the reserved peak, as a part of the one that is never emptied.
std::optional<double> saved(const Results& results, const Cell& cell);

}  // namespace headroom::study
