#pragma once

#include <optional>
#include <string>
#include <vector>

#include "simulator/report/report.h"
#include "tests/support/public_report.h"

namespace headroom::test {

/// What Headroom says about a public report's run, beside what happened.
struct ReportVerdict {
  enum class Kind { right, wrong, undetermined };
  Kind kind = Kind::undetermined;
  bool fits = false;                 ///< of a determined one
  std::vector<std::string> reasons;  ///< why it is undetermined, or what the prediction warns of
  struct Peak {
    Bytes device = 0, spare = 0;
    std::string phase;
    std::string failure;  ///< the allocator's or engine's message; empty: none
    std::string open;     ///< why nobody knows whether it fits; empty: it is known
    bool fits = false, gives_back = false;  ///< fits by giving cached memory back
  };
  std::optional<Peak> expected;  ///< at the dataset's lengths; decides when there is one
  std::optional<Peak> worst;     ///< every sequence at the cap
  Bytes budget = 0;
};

/// Simulates the report's run. Undetermined: keys are missing, the report is doubtful, what it uses has no
/// program yet, only lengths that are not stated could tell, or it gets on by giving cached memory back.
Result<ReportVerdict> judge_report(const PublicReport& report);

std::string verdict_word(const ReportVerdict& verdict);  ///< right, wrong, undetermined

/// docs/REPORTS.md.
Result<std::string> reports_document(const std::vector<PublicReport>& reports);
/// tests/data/reports/verdicts.json: {"id": "right" …}.
Result<std::string> verdicts_json(const std::vector<PublicReport>& reports);

}  // namespace headroom::test
