#include "planner/cli/check.h"

#include <ostream>

#include "models/base/printable.h"
#include "planner/cli/executors.h"
#include "planner/cli/output.h"
#include "planner/cli/prediction.h"
#include "planner/writers/table.h"

namespace headroom::cli {
namespace {

Result<Report> check_one(const std::string& path, const Common& common, Streams& streams,
                         const Executor& executor) {
  HEADROOM_ASSIGN(const Run run, load_run(path, common, streams));
  return predict(run, executor);
}

}  // namespace

Command check_command() {
  return {"check",
          "the gate for CI: one line a configuration, exit code 3 when one does not fit",
          {{"CONFIG", "", "configuration of a framework, or a job file; '-' is standard input", true, true}},
          kJobFlags | kHardwareFlags | kBudgetFlags | kJsonFlag | kReportFlags,
          [](const Arguments& arguments, Streams& streams) { return check(arguments, streams); }};
}

int check(const Arguments& arguments, Streams& streams) {
  return check(arguments, streams, simulating_executor());
}

int check(const Arguments& arguments, Streams& streams, const Executor& executor) {
  const Common& common = arguments.common;
  const bool prints = !common.quiet && !takes_standard_output(common);
  std::vector<Report> reports;
  int code = kDone;
  for (const std::string& path : arguments.all("CONFIG")) {
    Result<Report> report = check_one(path, common, streams, executor);
    if (!report) {
      code = gravest(code, report_error(report.error(), streams));
      continue;
    }
    if (prints) streams.out << printable(path) << ": " << writers::verdict(*report) << "\n";
    if (!common.quiet)
      for (const std::string& line : writers::warning_lines(*report))
        streams.err << "headroom: warning: " << (line.starts_with(printable(path)) ? "" : printable(path) + ": ") << line << "\n";
    if (!report->fits) code = gravest(code, kOver);
    reports.push_back(std::move(*report));
  }
  Written written;
  written.add(write_reports(reports, common, streams));
  return written.finish(code, streams);
}

}  // namespace headroom::cli
