#include "planner/cli/study.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <ostream>
#include <memory>

#include "models/base/printable.h"
#include "planner/cli/output.h"
#include "planner/cli/prediction.h"
#include "planner/cli/progress.h"
#include "planner/cli/run.h"
#include "planner/study/run.h"
#include "planner/writers/study/study.h"

namespace headroom::cli {
namespace {

/// Changes with the program: what another one simulated is not taken for this one's.
std::string build_of_this_program() {
  struct stat status {};
  if (stat("/proc/self/exe", &status) != 0) return kVersion;
  return fmt::format("{} {} {}.{}", kVersion, status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec);
}

/// "[####....] 12 of 40 cells, 3 known, 9 s left"
std::string told(const study::Progress& progress, double seconds) {
  constexpr std::size_t kWidth = 24;
  const auto fresh = static_cast<double>(progress.done - progress.known);
  const double left = fresh > 0 ? seconds / fresh * static_cast<double>(progress.all - progress.done) : 0;
  const std::size_t filled = kWidth * progress.done / std::max<std::size_t>(progress.all, 1);
  std::string out = fmt::format("[{}{}] {} of {} cells", std::string(filled, '#'), std::string(kWidth - filled, '.'),
                                progress.done, progress.all);
  if (progress.known > 0) out += fmt::format(", {} known", progress.known);
  if (progress.failed > 0) out += fmt::format(", {} failed", progress.failed);
  return out + fmt::format(", {:.0f} s left", left);
}

struct Output {
  const std::optional<std::string>& place;
  std::string (*text)(const study::Results&);
};

}  // namespace

Command study_command() {
  return {.name = "study",
          .summary = "a matrix of runs × strategies × cache emptying: peaks, fragmentation, whose it is, seconds",
          .options = {{"FILE", "", "the study's file (`headroom: study/1`; docs/STUDY.md)", true},
                      {"--resume", "FILE", "keep finished cells there, and don't run those again that are there"},
                      {"--threads", "N", "cells run at once (default: one a processor)"}},
          .common = kJsonFlag | kReportFlags,
          .run = study};
}

int study(const Arguments& arguments, Streams& streams) {
  const Common& common = arguments.common;
  HEADROOM_CLI_ASSIGN(const auto threads, arguments.integer("--threads", 1, 1024), streams);
  HEADROOM_CLI_ASSIGN(const study::Study study, study::read_study(arguments.text("FILE")), streams);
  std::unique_ptr<study::Finished> finished;
  if (const auto file = arguments.find("--resume")) {
    HEADROOM_CLI_ASSIGN(study::Finished opened, study::Finished::open(*file, build_of_this_program()), streams);
    finished = std::make_unique<study::Finished>(std::move(opened));
  }
  Result<study::Results> run;
  {
    ProgressLine line(streams, common.quiet);
    run = study::run_study(study, finished.get(), static_cast<unsigned>(threads.value_or(0)),
                           [&](const study::Progress& progress) {
                             line.tell([&](double seconds) { return told(progress, seconds); });
                           });
  }
  HEADROOM_CLI_ASSIGN(const study::Results results, std::move(run), streams);
  Written written;
  for (const Output& output : {Output{common.json, writers::study_json}, Output{common.html, writers::study_html},
                               Output{common.csv, writers::study_csv},
                               Output{common.markdown, writers::study_markdown}})
    if (output.place) written.add(write_output(*output.place, output.text(results), streams));
  bool failed = false;
  for (const study::Cell& cell : results.cells)
    if (cell.status == study::Cell::Status::failed) {
      failed = true;
      streams.err << "headroom: " << printable(fmt::format("{} · {} · {}: {}", cell.job, cell.strategy,
                                                           name(cell.empty_cache), cell.message))
                  << "\n";
    }
  if (!takes_standard_output(common) && !common.quiet) streams.out << writers::study_table(results, streams.plain);
  return written.finish(failed ? kBadInput : kDone, streams);
}

}  // namespace headroom::cli
