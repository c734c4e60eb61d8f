/// docs/regenerate_reports.sh: writes docs/REPORTS.md (argument 1) and the verdicts that tests hold
/// (argument 2).
#include <fstream>
#include <iostream>

#include "tests/support/data.h"
#include "tests/support/report_verdict.h"

int main(int count, char** arguments) {
  using namespace headroom;
  if (count != 3) {
    std::cerr << "usage: public_reports DOCUMENT VERDICTS\n";
    return 2;
  }
  const auto reports = test::read_public_reports(test::data("reports/verl.json"));
  const auto document = reports ? test::reports_document(*reports) : tl::unexpected(reports.error());
  const auto verdicts = reports ? test::verdicts_json(*reports) : tl::unexpected(reports.error());
  if (!document || !verdicts) {
    std::cerr << (document ? verdicts : document).error().text() << "\n";
    return 1;
  }
  std::ofstream(arguments[1]) << *document;
  std::ofstream(arguments[2]) << *verdicts;
  return 0;
}
