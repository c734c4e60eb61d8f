#include "planner/cli/estimate.h"

#include <ostream>

#include "planner/cli/executors.h"
#include "planner/cli/output.h"
#include "planner/cli/prediction.h"
#include "planner/writers/table.h"

namespace headroom::cli {

Command estimate_command() {
  return {"estimate",
          "predicts memory of every phase in closed form; instant",
          {{"CONFIG", "", "configuration of a framework, or a job file; '-' is standard input", true, true}},
          kJobFlags | kHardwareFlags | kBudgetFlags | kJsonFlag | kReportFlags,
          [](const Arguments& arguments, Streams& streams) { return estimate(arguments, streams); }};
}

int estimate(const Arguments& arguments, Streams& streams) {
  return estimate(arguments, streams, closed_form_executor());
}

int estimate(const Arguments& arguments, Streams& streams, const Executor& executor) {
  const Common& common = arguments.common;
  std::vector<Report> reports;
  int code = kDone;
  for (const std::string& path : arguments.all("CONFIG")) {
    HEADROOM_CLI_ASSIGN(const Run run, load_run(path, common, streams), streams);
    HEADROOM_CLI_ASSIGN(Report report, predict(run, executor), streams);
    if (!report.fits) code = kOver;
    reports.push_back(std::move(report));
  }
  Written written;
  written.add(write_reports(reports, common, streams));
  if (!common.quiet && !takes_standard_output(common))
    for (const Report& report : reports)
      streams.out << (&report == &reports.front() ? "" : "\n") << writers::table(report, {streams.colour});
  return written.finish(code, streams);
}

}  // namespace headroom::cli
