#pragma once

#include <string>
#include <utility>
#include <vector>

#include "planner/compare/comparison.h"

namespace headroom::compare {

/// One recording against the prediction for its own case.
struct RecordedRun {
  std::string name, group;  ///< of the file, of the folder it lies in
  std::vector<Row> rows;    ///< as recorded
};

/// Every recording below some folders.
struct Corpus {
  std::vector<RecordedRun> runs;                             ///< by path
  std::vector<std::pair<std::string, std::string>> skipped;  ///< runs that no program covers, and why

  std::vector<Row> rows() const;  ///< of all runs
};

/// Recordings are the *.json files that hold `case` and `phases`. Errors: a folder that can't be read, a
/// *.json file that can't.
Result<Corpus> read_corpus(const std::vector<std::string>& folders);

/// docs/ACCURACY.md: a summary a group, a line a run, then every phase.
std::string accuracy_document(const Corpus& corpus);

/// {"run": {"allocated": worst error in percent, "reserved": …, "allocated_exact": phases, "reserved_exact":
/// …, "counts_equal": …}, …}, percent with four decimals: what later versions are held to.
std::string run_errors_json(const Corpus& corpus);

}  // namespace headroom::compare
