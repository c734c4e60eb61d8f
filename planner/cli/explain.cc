#include "planner/cli/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <ostream>

#include "models/base/printable.h"
#include "planner/cli/executors.h"
#include "planner/cli/expected_lengths.h"
#include "planner/cli/output.h"
#include "planner/cli/prediction.h"
#include "planner/cli/progress.h"
#include "planner/cli/would_fit.h"
#include "planner/cli/role_evidence.h"
#include "planner/frameworks/engines/evidence.h"
#include "planner/search/explanation.h"
#include "planner/writers/columns.h"
#include "planner/writers/explanation.h"
#include "planner/writers/html/html.h"
#include "planner/writers/reasons.h"
#include "planner/writers/table.h"
#include "simulator/phases/simulate.h"

namespace headroom::cli {
namespace {

using writers::Columns;
using writers::gib;

constexpr std::size_t kChangesShown = 8;
constexpr int kStepsOfChanges = 3;
constexpr std::int64_t kHoldersShown = 5;

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

/// What is known, under its heading.
struct Heading {
  std::string title;
  std::vector<writers::Known> rows;
};

writers::Known known(const std::string& of, const RoleEvidence& row) {
  return {of, row.component, {}, std::string(engines::word(row.standing)), row.because};
}

/// What each figure of the engines rests on, what the processes' memory beside the allocator does, and each role's parts
/// of Megatron-Core.
std::vector<Heading> evidence(const Job& job, const Hardware& hardware, const Report& report) {
  std::vector<Heading> out;
  if (!report.devices.empty())
    for (const EngineReport& start : report.devices.front().engines) {
      const Engine* engine = job.engine(start.engine);
      if (engine == nullptr) continue;
      Heading& heading = out.emplace_back();
      heading.title = fmt::format("What {} takes when it starts ({} {}: {} KV tokens), and how that is known, GiB",
                                  start.engine, engine->kind == EngineKind::sglang ? "SGLang" : "vLLM",
                                  start.release, start.kv_tokens);
      for (const engines::Evidence& row : engines::evidence(*engine, start))
        heading.rows.push_back(
            {start.engine, row.component, row.bytes, std::string(engines::word(row.standing)), row.because});
    }
  Heading& process = out.emplace_back();
  process.title =
      fmt::format("What a process on {} holds beside its allocator, and how that is known", hardware.name);
  for (const RoleEvidence& row : process_evidence(hardware)) process.rows.push_back(known("process", row));
  for (const Role& role : job.roles) {
    Heading& heading = out.emplace_back();
    heading.title = fmt::format("What {} takes under Megatron-Core, and how that is known", role.name);
    for (const RoleEvidence& row : role_evidence(role)) heading.rows.push_back(known(role.name, row));
  }
  return out;
}

std::string evidence_text(const std::vector<Heading>& headings) {
  std::string out;
  for (const Heading& heading : headings) out += writers::known_text(heading.title, heading.rows);
  return out;
}

/// With why it peaks, what would help, and how all of it is known.
std::string explained_json(const Report& report, const search::Explanation& explanation,
                           const std::vector<Heading>& headings) {
  std::vector<writers::Known> rows;
  for (const Heading& heading : headings) rows.insert(rows.end(), heading.rows.begin(), heading.rows.end());
  return writers::explanation_json(report, explanation, rows);
}

/// Steps after which memory and time repeat: those of changes are run no longer.
Executor few_steps(const Executor& executor) {
  return [executor](const Job& job, const Hardware& hardware) {
    Job shorter = job;
    shorter.steps = std::min(job.steps, kStepsOfChanges);
    return executor(shorter, hardware);
  };
}

/// Every technique that keeps the training's numbers.
std::vector<Choice> all_that_saves(const search::Explanation& e) {
  std::vector<Choice> choices;
  for (const search::Technique& one : e.techniques)
    if (!one.changes_numerics) choices.push_back(one.change.choices.back());
  return choices;
}

/// All of them at once.
search::Outcome all_together(const search::Setup& setup, std::span<const Choice> choices, const Executor& quick,
                             const Executor& exact) {
  search::Outcome out;
  for (const Executor* executor : {&quick, &exact}) {
    const Result<Report> report = search::evaluate(setup, choices, *executor);
    if (!report) return out;
    out = executor == &quick ? search::outcome_of(*report) : search::with_shortfall(search::outcome_of(*report), out);
    if (!out.fits) return out;
  }
  return out;
}

/// The simulator, and which operations' tensors hold most at the peak.
Executor looking_executor() {
  return [](const Job& job, const Hardware& hardware) -> Result<Report> {
    SimulateOptions options;
    options.holders = true;
    options.holder_count = kHoldersShown;
    Result<Report> looked = simulate(job, hardware, options);
    return looked ? std::move(looked) : simulating_executor()(job, hardware);  // nothing trains: nothing to look at
  };
}

Result<search::Explanation> explained(const Run& run, const Common& common, const Report& report,
                                      const Executor& fast, const Executor& executor) {
  search::Explanation e;
  e.now = search::outcome_of(report);
  if (run.framework == nullptr) return e;
  const Lengths lengths = deciding_lengths(run, report);
  const Executor quick = at_lengths(few_steps(fast), lengths), exact = at_lengths(few_steps(executor), lengths);
  const search::Setup setup = run.setup();
  Result<Report> now = quick(run.read.job, run.hardware);
  search::Outcome quick_now;
  std::vector<Choice> frugal;
  if (now) {
    judge(*now, run.limits);
    quick_now = search::outcome_of(*now);
    if (e.now.breaks) e.quick = quick_now;
  }
  if (run.framework->knobs != nullptr) {
    const std::vector<Knob> knobs = run.framework->knobs(run.read);
    HEADROOM_ASSIGN(const search::Space space, search::make_space(knobs, {}, {}));
    const std::vector<search::Change> singles = search::single_changes(setup, space, quick);
    e.singles = search::confirmed(setup, singles, kChangesShown, exact);
    // What misses by no less than the run itself is no help.
    const Bytes now_spare = search::with_shortfall(e.now, quick_now).spare;
    std::erase_if(e.singles, [&](const search::Change& change) {
      return !change.outcome.fits && change.outcome.spare <= now_spare;
    });
    e.techniques = search::techniques(space, singles, quick_now);
    if (e.nothing_fits()) {
      e.pairs = search::confirmed(setup, search::pairs_of(setup, space, quick, singles), kChangesShown, exact);
      std::erase_if(e.pairs, [](const search::Change& pair) { return !pair.outcome.fits; });
    }
    if (e.nothing_fits()) {
      frugal = all_that_saves(e);
      e.together = all_together(setup, frugal, quick, exact);
    }
  }
  for (search::Technique& one : numeric_techniques(run, quick_now, quick)) e.techniques.push_back(std::move(one));
  if (e.nothing_fits()) e.would = would_fit(run, common, quick, exact, frugal);
  return e;
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
  return explain(arguments, streams, searching_executor(), simulating_executor(), looking_executor());
}

int explain(const Arguments& arguments, Streams& streams, const Executor& fast, const Executor& executor,
            const Executor& looking) {
  const Common& common = arguments.common;
  HEADROOM_CLI_ASSIGN(const Run run, load_run(arguments.text("CONFIG"), common, streams), streams);
  if (arguments.has("--keys")) {
    streams.out << keys(run.read);
    return kDone;
  }
  HEADROOM_CLI_ASSIGN(const Report report, predict(run, looking), streams);
  const bool prints = !common.quiet && !takes_standard_output(common);
  search::Explanation explanation;
  if (prints || common.json || common.html) {
    ProgressLine line(streams, common.quiet);
    HEADROOM_CLI_ASSIGN(explanation, explained(run, common, report, counted(fast, line), counted(executor, line)),
                        streams);
  }
  Common others = common;
  others.json.reset();
  Written written;
  const std::vector<Heading> headings = evidence(run.read.job, run.hardware, report);
  if (common.json) written.add(write_output(*common.json, explained_json(report, explanation, headings), streams));
  if (common.html) {
    written.add(
        write_output(*common.html, writers::html_page(explained_json(report, explanation, headings)), streams));
    others.html.reset();
  }
  written.add(write_reports(std::span(&report, 1), others, streams));
  if (common.quiet && !takes_standard_output(common)) streams.out << writers::verdict(report) << "\n";
  if (prints) {
    // What would come after the place where a run breaks is unknown, and no peak.
    streams.out << writers::table(report, table_style(common, streams)) << (explanation.now.breaks ? "" : why(report))
                << evidence_text(headings)
                << writers::explanation_text(explanation);
  }
  return written.finish(verdict_code(report), streams);
}

}  // namespace headroom::cli
