#include "planner/cli/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <ostream>

#include "models/base/printable.h"
#include "planner/cli/executors.h"
#include "planner/cli/expected_lengths.h"
#include "planner/cli/output.h"
#include "planner/cli/prediction.h"
#include "planner/frameworks/engines/evidence.h"
#include "planner/search/changes.h"
#include "planner/writers/columns.h"
#include "planner/writers/explanation.h"
#include "planner/writers/html/html.h"
#include "planner/writers/reasons.h"
#include "planner/writers/table.h"

namespace headroom::cli {
namespace {

using writers::Columns;
using writers::gib;

constexpr std::size_t kChangesShown = 8;

/// Those that decided the verdict: none where the caps did.
Lengths deciding_lengths(const Run& run, const Report& report) {
  const bool of_data = std::any_of(report.warnings.begin(), report.warnings.end(),
                                   [](const Warning& warning) { return warning.code == "lengths"; });
  return of_data && run.data_lengths ? *run.data_lengths : run.read.job.lengths;
}

std::string why(const Report& report) {
  const PeakPlace place = highest(report);
  if (place.phase == nullptr) return "";
  Columns columns({Columns::Align::left, Columns::Align::right, Columns::Align::left});
  for (const Component component : writers::main_components(*place.phase))
    columns.add({std::string(name(component)), gib(place.phase->at_peak_device[component]),
                 std::string(writers::reason(component))});
  return fmt::format("\nWhy {} peaks, GiB\n", place.phase->phase) + columns.text("  ");
}

/// What each figure of the engines rests on.
std::string engine_evidence(const Job& job, const Report& report) {
  if (report.devices.empty()) return "";
  std::string out;
  for (const EngineReport& start : report.devices.front().engines) {
    const Engine* engine = job.engine(start.engine);
    if (engine == nullptr) continue;
    Columns columns({Columns::Align::left, Columns::Align::right, Columns::Align::left, Columns::Align::left});
    for (const engines::Evidence& row : engines::evidence(*engine, start))
      columns.add({row.component, gib(row.bytes), std::string(engines::word(row.standing)), row.because});
    out += fmt::format("\nWhat {} takes when it starts ({} {}: {} KV tokens), and how that is known, GiB\n",
                       start.engine, engine->kind == EngineKind::sglang ? "SGLang" : "vLLM", start.release,
                       start.kv_tokens) +
           columns.text("  ");
  }
  return out;
}

std::string settings_text(const search::Change& change) {
  std::string text;
  for (const Setting& setting : change.settings)
    text += (text.empty() ? "" : " ") + setting.key + "=" + setting.value;
  return printable(text.empty() ? change.choice.knob + "=" + change.choice.value : text);
}

std::string change_rows(std::span<const search::Change> changes, double seconds_now, bool fitting) {
  Columns columns({Columns::Align::right, Columns::Align::right, Columns::Align::left, Columns::Align::left});
  columns.add({"spare", "step time", "limited by", "change"});
  std::size_t shown = 0;
  for (const search::Change& change : changes) {
    if (change.outcome.fits != fitting || shown == kChangesShown) continue;
    ++shown;
    const std::string time = seconds_now > 0 && change.outcome.seconds > 0
                                 ? fmt::format("{:+.1f} %", 100 * (change.outcome.seconds / seconds_now - 1))
                                 : "";
    columns.add({gib(change.outcome.spare), time, change.outcome.limiting_phase, settings_text(change)});
  }
  return shown == 0 ? "" : columns.text("  ");
}

std::string changes_text(const std::vector<search::Change>& changes, const search::Outcome& now) {
  if (const std::string fitting = change_rows(changes, now.seconds, true); !fitting.empty())
    return (now.fits ? "\nSingle changes that still fit, fastest first, GiB\n"
                     : "\nSingle changes that make it fit, cheapest first, GiB\n") +
           fitting;
  if (changes.empty()) return "";
  return "\nNo single change makes it fit; these come closest (`headroom plan` combines them), GiB\n" +
         change_rows(changes, now.seconds, false);
}

const char* text(KeyUse::State state) {
  switch (state) {
    case KeyUse::State::used:
      return "used";
    case KeyUse::State::defaulted:
      return "default";
    case KeyUse::State::ignored:
      return "no effect";
    case KeyUse::State::not_modelled:
      return "not modelled";
    case KeyUse::State::unknown:
      return "unknown";
  }
  return "";
}

std::string keys(const ReadJob& read) {
  if (read.keys.empty()) return "Every key is used; one that is not known is an error.\n";
  Columns columns({Columns::Align::left, Columns::Align::left, Columns::Align::left, Columns::Align::left});
  for (const KeyUse& use : read.keys)
    columns.add({text(use.state), printable(use.key), printable(use.value),
                 use.file.empty() ? ""
                 : use.line > 0   ? fmt::format("{}:{}", printable(use.file), use.line)
                                  : printable(use.file)});
  return columns.text();
}

}  // namespace

Command explain_command() {
  return {"explain",
          "says what peaks and why, and the cheapest changes that help",
          {{"CONFIG", "", "configuration of a framework, or a job file; '-' is standard input", true},
           {"--keys", "", "list what became of each key, and nothing else"}},
          kJobFlags | kHardwareFlags | kBudgetFlags | kJsonFlag | kReportFlags,
          [](const Arguments& arguments, Streams& streams) { return explain(arguments, streams); }};
}

int explain(const Arguments& arguments, Streams& streams) {
  return explain(arguments, streams, searching_executor(), simulating_executor());
}

int explain(const Arguments& arguments, Streams& streams, const Executor& fast, const Executor& executor) {
  const Common& common = arguments.common;
  HEADROOM_CLI_ASSIGN(const Run run, load_run(arguments.text("CONFIG"), common, streams), streams);
  if (arguments.has("--keys")) {
    streams.out << keys(run.read);
    return kDone;
  }
  HEADROOM_CLI_ASSIGN(const Report report, predict(run, executor), streams);
  const bool prints = !common.quiet && !takes_standard_output(common);
  std::vector<search::Change> changes;
  if ((prints || common.json) && run.framework != nullptr && run.framework->knobs != nullptr) {
    const std::vector<Knob> knobs = run.framework->knobs(run.read);
    HEADROOM_CLI_ASSIGN(const search::Space space, search::make_space(knobs, {}, {}), streams);
    const search::Setup setup = run.setup();
    const Lengths lengths = deciding_lengths(run, report);
    changes = search::confirmed(setup, search::single_changes(setup, space, at_lengths(fast, lengths)), kChangesShown,
                                at_lengths(executor, lengths));
  }
  Common others = common;
  others.json.reset();
  Written written;
  if (common.json) written.add(write_output(*common.json, writers::explanation_json(report, changes), streams));
  if (common.html) {
    written.add(
        write_output(*common.html, writers::html_page(writers::explanation_json(report, changes)), streams));
    others.html.reset();
  }
  written.add(write_reports(std::span(&report, 1), others, streams));
  if (common.quiet && !takes_standard_output(common)) streams.out << writers::verdict(report) << "\n";
  if (prints) {
    const search::Outcome now = search::outcome_of(report);
    // What would come after the place where a run breaks is unknown, and no peak.
    streams.out << writers::table(report, table_style(common, streams)) << (now.breaks ? "" : why(report))
                << engine_evidence(run.read.job, report) << changes_text(changes, now);
  }
  return written.finish(verdict_code(report), streams);
}

}  // namespace headroom::cli
