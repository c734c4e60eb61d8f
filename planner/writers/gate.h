#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/base/error.h"
#include "simulator/report/report.h"

namespace headroom::writers {

/// What the gate says of one configuration.
enum class GateStatus { fits, undetermined, over, grown, failed };

/// `fits`, `undetermined`, `over`, `grown`, `error`: as JSON and baselines name it.
std::string_view name(GateStatus status);

struct GateResult {
  std::string path;
  GateStatus status = GateStatus::failed;
  std::string reason;            ///< the verdict in a sentence, or the error
  std::string file;              ///< where the key to blame stands; may be another file than `path`
  int line = 0;                  ///< 0: unknown
  std::string key;               ///< to blame; may be empty
  std::optional<Bytes> before;   ///< device peak of the baseline
  std::optional<Report> report;  ///< none of an input that could not be read
};

struct GateCounts {
  std::size_t fits = 0, undetermined = 0, over = 0, grown = 0, failed = 0;
  std::size_t all() const { return fits + undetermined + over + grown + failed; }
};
GateCounts counts(std::span<const GateResult> results);

/// `12 configurations: 10 fit, 1 does not fit, 1 could not be read`.
std::string totals(std::span<const GateResult> results);

/// `headroom.check/1`.
std::string gate_json(std::span<const GateResult> results);
const char* gate_schema();

/// JUnit XML: a test case a configuration, named by its path. What does not fit or grows is a failure, what
/// could not be read an error, what is undetermined skipped, with the reason.
std::string gate_junit(std::span<const GateResult> results);

/// SARIF 2.1.0: a result for each configuration that does not fit, grows, is undetermined or could not be read,
/// and for each warning, at the line of the key to blame.
std::string gate_sarif(std::span<const GateResult> results, std::string_view version);

/// Workflow commands that GitHub shows at the lines of a pull request.
std::string gate_github(std::span<const GateResult> results);

/// A table of all configurations in Markdown, for a step summary.
std::string gate_markdown(std::span<const GateResult> results);

}  // namespace headroom::writers
