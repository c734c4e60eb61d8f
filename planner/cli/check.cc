#include "planner/cli/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <ostream>
#include <utility>

#include "models/base/parallel.h"
#include "models/base/printable.h"
#include "planner/cli/executors.h"
#include "planner/cli/gate/baseline.h"
#include "planner/cli/gate/blame.h"
#include "planner/cli/gate/paths.h"
#include "planner/cli/gate/policy.h"
#include "planner/cli/gate/remembered.h"
#include "planner/cli/output.h"
#include "planner/cli/prediction.h"
#include "planner/cli/settled.h"
#include "planner/cli/progress.h"
#include "planner/cli/run.h"
#include "planner/frameworks/input.h"
#include "planner/writers/csv.h"
#include "planner/writers/gate.h"
#include "planner/writers/html/html.h"
#include "planner/writers/table.h"

namespace headroom::cli {
namespace {

using writers::GateResult;
using writers::GateStatus;

constexpr const char* kPolicyFile = ".headroom.yaml";
/// From so many configurations on, those that the closed form shows to be far from their limit are not simulated.
constexpr std::size_t kMany = 20;
/// Outputs that hold whole reports.
constexpr std::array kReports = {"--json", "--csv", "--html"};

class Gate {
 public:
  Gate(const Arguments& arguments, Streams& streams, Executor exact, Executor quick)
      : arguments_(arguments),
        common_(arguments.common),
        streams_(streams),
        exact_(remembered(timed() ? std::move(exact) : without_seconds(std::move(exact)))),
        quick_(remembered(timed() ? std::move(quick) : without_seconds(std::move(quick)))) {}

  Status prepare() {
    HEADROOM_ASSIGN(paths_, gate_paths(arguments_.all("CONFIG")));
    std::error_code none;
    const std::optional<std::string> policy = arguments_.find("--policy");
    if (policy || std::filesystem::exists(kPolicyFile, none)) {
      HEADROOM_ASSIGN(policy_, Policy::read(policy.value_or(kPolicyFile)));
    }
    if (const auto file = arguments_.find("--baseline")) {
      HEADROOM_ASSIGN(baseline_, Baseline::read(*file));
    }
    if (const auto growth = arguments_.find("--max-growth")) {
      Result<double> part = parse_growth(*growth);
      if (!part) return fail(Error{.message = part.error().message, .file = {}, .key = "--max-growth"});
      growth_ = *part;
      if (!baseline_)
        return fail(Error{.message = "expected --baseline too: growth over what?", .file = {}, .key = "--max-growth"});
    }
    return {};
  }

  int run() {
    std::vector<std::optional<GateResult>> all(paths_.size());
    codes_.assign(paths_.size(), kDone);
    // Standard input can be read once, by this thread.
    const bool apart = std::none_of(paths_.begin(), paths_.end(), [](const GatePath& p) { return p.path == "-"; });
    {
      ProgressLine line(streams_, common_.quiet);
      std::atomic<std::size_t> done = 0;
      parallel_for(paths_.size(), apart ? 0 : 1, [&](std::size_t i) {
        all[i] = decide(i);
        ++done;
        line.tell([&](double seconds) {
          return fmt::format("{} of {} configurations, {:.0f} s", done.load(), paths_.size(), seconds);
        });
      });
    }
    for (std::size_t i = 0; i < all.size(); ++i)
      if (all[i]) results_.push_back(std::move(*all[i]));
    int code = kDone;
    for (const int one : codes_) code = gravest(code, one);
    say();
    return write().finish(code, streams_);
  }

 private:
  std::optional<GateResult> decide(std::size_t i) {
    const std::string& path = paths_[i].path;
    const Rules rules = policy_ ? policy_->of(path) : Rules{};
    if (rules.skip) return std::nullopt;
    const Common common = with_rules(common_, rules);
    const Result<Run> run = load_run(path, common, streams_);
    if (!run) return not_read(run.error(), i);
    Result<Report> report = verdict_of(*run);
    if (!report) return not_read(report.error(), i);
    return judged(path, *run, std::move(*report), rules, i);
  }

  static std::string shown(const std::string& path) { return path == kCommandLine ? "command line" : path; }

  std::optional<GateResult> not_read(const Error& error, std::size_t i) {
    const bool may_be_other = paths_[i].found || arguments_.has("--skip-others");
    if (may_be_other && is_no_run(error)) return std::nullopt;
    codes_[i] = error.kind == Error::Kind::input ? kBadInput : kIncomplete;
    return GateResult{.path = shown(paths_[i].path),
                      .status = GateStatus::failed,
                      .reason = error.text(),
                      .file = error.file.empty() ? shown(paths_[i].path) : error.file,
                      .line = error.line,
                      .key = error.key,
                      .before = {},
                      .report = {}};
  }

  Result<Report> verdict_of(const Run& run) const {
    // Peaks to compare are the simulator's, however many were looked at together.
    const bool compared = baseline_ || arguments_.has("--write-baseline");
    if ((paths_.size() >= kMany || generates_long(run.read.job)) && !compared && !arguments_.has("--exact"))
      return predict_settled(run, quick_, exact_);
    return predict(run, exact_, exact_);
  }

  GateResult judged(const std::string& path, const Run& run, Report report, const Rules& rules, std::size_t i) {
    GateResult out;
    out.path = out.file = shown(path);
    out.status = GateStatus::fits;
    out.reason = writers::verdict(report);
    if (!report.fits) out.status = undetermined(report).empty() ? GateStatus::over : GateStatus::undetermined;
    if (out.status == GateStatus::undetermined) {
      const Undetermined as = rules.undetermined.value_or(Undetermined::undetermined);
      if (as == Undetermined::fits) out.status = GateStatus::fits;
      if (as == Undetermined::over) out.status = GateStatus::over;
    }
    if (rules.allowed_warnings)
      for (const Warning& warning : report.warnings)
        if (warning.code != "undetermined" && !rules.allowed_warnings->contains(warning.code)) {
          out.status = GateStatus::over;
          out.reason += fmt::format("; the policy does not allow the warning {}: {}", warning.code,
                                    printable(warning.message));
        }
    grown(path, report, rules, out);
    codes_[i] = out.status == GateStatus::fits           ? kDone
                : out.status == GateStatus::undetermined ? kUndetermined
                                                         : kOver;
    if (out.status != GateStatus::fits) {
      const KeyPlace place = key_to_blame(run.read, report);
      out.file = place.file.empty() ? path : place.file;
      out.line = place.line;
      out.key = place.key;
    }
    out.report = std::move(report);
    return out;
  }

  void grown(const std::string& path, const Report& report, const Rules& rules, GateResult& out) const {
    const std::optional<double> most = growth_ ? growth_ : rules.max_growth;
    const PeakPlace place = highest(report);
    if (!baseline_ || place.phase == nullptr) return;
    const Bytes before = baseline_->peak_of(path);
    if (before <= 0) return;
    out.before = before;
    Bytes now = 0;
    for (const DeviceReport& device : report.devices)
      for (const PhaseReport& phase : device.phases) now = std::max(now, phase.peak_device);
    if (!most || static_cast<double>(now) <= static_cast<double>(before) * (1 + *most)) return;
    if (out.status == GateStatus::fits) out.status = GateStatus::grown;
    out.reason += fmt::format("; the peak grows from {} to {}, by {:.1f} % where {:.1f} % are allowed",
                              format_gib(before), format_gib(now),
                              100 * (static_cast<double>(now) / static_cast<double>(before) - 1), 100 * *most);
  }

  /// Whether an output shows seconds. They decide nothing, and working them out takes a third of the time.
  bool timed() const {
    return std::any_of(kReports.begin(), kReports.end(), [&](const char* flag) { return arguments_.has(flag); });
  }

  bool takes_output() const {
    for (const char* flag : {"--json", "--csv", "--html", "--markdown", "--junit", "--sarif", "--write-baseline"})
      if (arguments_.text(flag) == "-") return true;
    return false;
  }

  void say() const {
    const bool prints = !takes_output();
    for (const GateResult& result : results_) {
      if (result.status == GateStatus::failed) {
        streams_.err << "headroom: " << result.reason << "\n";
        continue;
      }
      if (prints) streams_.out << printable(result.path) << ": " << result.reason << "\n";
      if (common_.quiet || !result.report) continue;
      for (const std::string& line : writers::warning_lines(*result.report))
        streams_.err << "headroom: warning: "
                     << (line.starts_with(printable(result.path)) ? "" : printable(result.path) + ": ") << line
                     << "\n";
    }
    if (prints && results_.size() > 1) streams_.out << writers::totals(results_) << "\n";
    if (prints && results_.empty()) streams_.out << "no configuration of a known framework was found\n";
    if (arguments_.has("--github") && prints) streams_.out << writers::gate_github(results_);
  }

  Written write() const {
    Written written;
    std::vector<Report> reports;
    if (common_.csv || common_.html)
      for (const GateResult& result : results_)
        if (result.report) reports.push_back(*result.report);
    const auto file = [&](const char* flag, const auto& text) {
      if (const auto name = arguments_.find(flag)) written.add(write_output(*name, text(), streams_));
    };
    file("--json", [&] { return writers::gate_json(results_); });
    file("--markdown", [&] { return writers::gate_markdown(results_); });
    file("--csv", [&] { return writers::csv(reports); });
    file("--html", [&] { return writers::html(reports); });
    file("--junit", [&] { return writers::gate_junit(results_); });
    file("--sarif", [&] { return writers::gate_sarif(results_, kVersion); });
    file("--write-baseline", [&] { return baseline_text(results_); });
    if (const char* summary = std::getenv("GITHUB_STEP_SUMMARY"); summary != nullptr && arguments_.has("--github")) {
      std::ofstream out(summary, std::ios::app);
      out << writers::gate_markdown(results_);
      if (!out.flush())
        written.add(fail(Error{.message = "could not be written",
                               .file = summary,
                               .key = "GITHUB_STEP_SUMMARY",
                               .kind = Error::Kind::incomplete}));
    }
    return written;
  }

  const Arguments& arguments_;
  const Common& common_;
  Streams& streams_;
  Executor exact_, quick_;
  std::vector<GatePath> paths_;
  std::optional<Policy> policy_;
  std::optional<Baseline> baseline_;
  std::optional<double> growth_;
  std::vector<GateResult> results_;
  std::vector<int> codes_;
};

}  // namespace

Command check_command() {
  return {"check",
          "the gate for CI: one line a configuration, exit code 3 when one does not fit, 5 when nobody knows",
          {{"CONFIG", "",
            "configurations, directories of them, or patterns (\"configs/**/*.yaml\"); '-' is standard input", true,
            true},
           output_file("--junit", "JUnit XML, a test case a configuration"),
           output_file("--sarif", "SARIF 2.1.0, at the line of the key to blame"),
           {"--github", "", "annotations and a step summary, as GitHub's workflows show them"},
           {"--policy", "FILE", "budgets and rules by path (default: .headroom.yaml, where there is one)"},
           {"--baseline", "FILE", "peaks to hold against: of --write-baseline, or of --json"},
           {"--max-growth", "PART", "by how much a peak may exceed its baseline: 2% or 0.02"},
           output_file("--write-baseline", "write the peaks for later runs"),
           {"--skip-others", "", "pass over files that are no run's, also where they are named (as hooks name them)"},
           {"--exact", "", "simulate every one of many configurations, also those far from their limit"}},
          kJobFlags | kHardwareFlags | kBudgetFlags | kJsonFlag | kReportFlags,
          [](const Arguments& arguments, Streams& streams) { return check(arguments, streams); }};
}

int check(const Arguments& arguments, Streams& streams) {
  return check(arguments, streams, simulating_executor(), searching_executor());
}

int check(const Arguments& arguments, Streams& streams, const Executor& exact, const Executor& quick) {
  Gate gate(arguments, streams, exact, quick);
  HEADROOM_CLI_TRY(gate.prepare(), streams);
  return gate.run();
}

}  // namespace headroom::cli
