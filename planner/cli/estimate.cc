#include "planner/cli/estimate.h"

#include <ostream>

#include "models/base/printable.h"
#include "planner/cli/executors.h"
#include "planner/cli/output.h"
#include "planner/cli/prediction.h"
#include "planner/cli/settled.h"
#include "planner/cli/suggestion.h"
#include "planner/writers/table.h"

namespace headroom::cli {

Command estimate_command() {
  return {"estimate",
          "predicts memory of every phase: in closed form, near the limit by the simulator; instant",
          {{"CONFIG", "", "configuration of a framework, or a job file; '-' is standard input", true, true}},
          kJobFlags | kHardwareFlags | kBudgetFlags | kJsonFlag | kReportFlags,
          [](const Arguments& arguments, Streams& streams) { return estimate(arguments, streams); }};
}

int estimate(const Arguments& arguments, Streams& streams) {
  return estimate(arguments, streams, closed_form_executor(), simulating_executor());
}

int estimate(const Arguments& arguments, Streams& streams, const Executor& executor, const Executor& exact) {
  const Common& common = arguments.common;
  std::vector<Report> reports;
  std::vector<Run> runs;
  int code = kDone;
  for (const std::string& path : arguments.all("CONFIG")) {
    HEADROOM_CLI_ASSIGN(Run run, load_run(path, common, streams), streams);
    HEADROOM_CLI_ASSIGN(Report report, predict_settled(run, executor, exact), streams);
    code = gravest(code, verdict_code(report));
    reports.push_back(std::move(report));
    runs.push_back(std::move(run));
  }
  Written written;
  written.add(write_reports(reports, common, streams));
  if (!takes_standard_output(common))
    for (std::size_t i = 0; i < reports.size(); ++i) {
      if (common.quiet) {
        streams.out << (reports.size() > 1 ? printable(reports[i].file) + ": " : "") << writers::verdict(reports[i])
                    << "\n";
      } else {
        streams.out << (i == 0 ? "" : "\n") << writers::table(reports[i], table_style(common, streams))
                    << suggestion(runs[i], reports[i]);
      }
    }
  return written.finish(code, streams);
}

}  // namespace headroom::cli
