#pragma once

#include <optional>
#include <string>
#include <vector>

#include "models/base/result.h"

namespace headroom::test {

/// A public report of a verl run that fitted or ran out of memory, as a job's configuration.
///
/// tests/data/reports/verl.json holds what the reports say, in their own words: GPU, nodes, versions, keys
/// (verl's, or a script's variables), what happened and where. The translation is the same for all: a table
/// of the words that scripts use for verl's keys, the model by its name, the dataset by its name. A
/// report that was not whole says nothing of the keys that it lacks; those that decide memory are `missing`.
struct PublicReport {
  std::string id, url;
  std::string what;  ///< model, GPUs and setting in a few words
  std::string gpu;
  std::vector<std::string> overrides;  ///< verl's keys as `++key=value`, versions and hardware included
  std::string outcome;  ///< fits, oom, measured
  std::string phase;    ///< where it ran out, as reported
  std::string caution;  ///< what makes the report itself doubtful
  std::vector<std::string> missing;  ///< keys that decide memory and are not stated
};

/// All reports; one that tried several batch sizes becomes one a size. Two with the same keys and opposite
/// outcomes get a caution. Errors: the file does not look as it should.
Result<std::vector<PublicReport>> read_public_reports(const std::string& path);

}  // namespace headroom::test
