#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "planner/cli/arguments.h"
#include "planner/cli/executors.h"
#include "planner/cli/streams.h"
#include "planner/frameworks/registry.h"
#include "planner/search/evaluator.h"
#include "planner/writers/table.h"
#include "simulator/hardware/hardware.h"
#include "simulator/report/executor.h"

namespace headroom::cli {

/// A configuration understood, with where it runs and what it may use.
struct Run {
  ReadJob read;
  const Framework* framework = nullptr;
  Hardware hardware;
  Limits limits;
  JobOptions options;                 ///< with which it was read
  double other_seconds = 0;           ///< of every step, as the command line gives them
  std::optional<Lengths> data_lengths;  ///< known of what it trains on, where no `--lengths` is given
  std::vector<ReadJob> alternatives;  ///< the run as other releases of its framework would make it

  search::Setup setup() const { return {framework, &read, hardware, limits}; }
};

/// Reads one CONFIG (`-`: standard input) with the shared flags. The GPU is `--gpu`, else what the
/// configuration names; neither is an error that says what to give.
Result<Run> load_run(const std::string& path, const Common& common, Streams& streams);

/// The run read again with a size of it set to `value`. Errors: what its framework refuses, and a cluster that the
/// configuration states itself.
Result<ReadJob> with_size(const Run& run, const Size& size, const std::string& value);

/// Adds the reader's warnings and assumptions, the framework and the library versions to a report of the run.
void describe(Report& report, const Run& run);

/// The judged report, with the reader's warnings, assumptions and library versions.
///
/// The caps decide where a run fits with every sequence as long as they let it. Where it does not, what is known of its
/// lengths decides, from `--lengths` or of the data that it trains on (dataset_lengths.h): the report is then that of
/// these lengths, and the warning `lengths` says so and what the caps would need. Of lengths from `--lengths`, and where
/// usual ones leave it open, a hundred steps with drawn lengths decide (drawn_steps.h), as the warning `risk` tells.
///
/// `exact` simulates what `executor` can't decide.
Result<Report> predict(const Run& run, const Executor& executor, const Executor& exact = simulating_executor());

/// Budgets, host budget and margin out of the flags and the card.
Limits limits_of(const Common& common, const Hardware& hardware);

/// Writes the outputs that the flags ask for. Reports of several configurations become a JSON array, and
/// follow each other in the other forms.
Status write_reports(std::span<const Report> reports, const Common& common, Streams& streams);

/// Whether one of the outputs takes standard output, so that nothing else may be written there.
bool takes_standard_output(const Common& common);

/// How tables are shown on `streams`.
writers::TableStyle table_style(const Common& common, const Streams& streams);

/// Exit code of a verdict: fits, does not fit, undetermined.
int verdict_code(const Report& report);

/// Exit code of several parts: the gravest (could not complete, bad input, disagrees, does not fit, undetermined,
/// done).
int gravest(int a, int b);

}  // namespace headroom::cli
