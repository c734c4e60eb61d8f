#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "planner/compare/comparison.h"

namespace headroom::compare {

/// Every recording below some folders, against the prediction for its own case.
struct Corpus {
  std::vector<Row> rows;  ///< by path, then as recorded
  std::vector<std::pair<std::string, std::string>> skipped;  ///< runs that no program covers, and why
};

/// Recordings are the *.json files that hold `case` and `phases`. Errors: a folder that can't be read.
Result<Corpus> read_corpus(const std::vector<std::string>& folders);

/// docs/ACCURACY.md: the summary, a line a run, then every phase.
std::string accuracy_document(const Corpus& corpus);

/// Worst absolute errors in percent of one run.
struct RunError {
  double allocated = 0, reserved = 0;
};
std::map<std::string, RunError> run_errors(const std::vector<Row>& rows);
/// {"run": {"allocated": …, "reserved": …}, …}, four decimals.
std::string run_errors_json(const std::vector<Row>& rows);

}  // namespace headroom::compare
