#include "tests/support/report_verdict.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "planner/cli/cached_memory.h"
#include "planner/cli/dataset_lengths.h"
#include "planner/cli/lengths.h"
#include "planner/cli/prediction.h"
#include "planner/frameworks/registry.h"
#include "simulator/device/verdict.h"
#include "simulator/hardware/library.h"
#include "simulator/phases/device_run.h"

namespace headroom::test {
namespace {

using Kind = ReportVerdict::Kind;

Result<ReadJob> read(const PublicReport& report) {
  JobInput input;
  JobInput::File& file = input.files.emplace_back();
  file.path = report.id;
  for (const std::string& line : report.overrides) file.text += line + "\n";
  HEADROOM_ASSIGN(file.document, parse_document(file.text, file.path));
  JobOptions options;
  options.framework = "verl";
  return read_job(input, options);
}

const std::string* failure_of(const PhaseReport& phase) {
  for (const ProcessPhase& process : phase.processes)
    if (process.out_of_memory) return &*process.out_of_memory;
  return nullptr;
}

ReportVerdict::Peak peak_of(const Report& report) {
  ReportVerdict::Peak out;
  out.fits = report.fits;
  out.open = fmt::format("{}", fmt::join(undetermined(report), ", "));
  out.spare = spare(report);
  out.gives_back = gives_cache_back(report);
  if (const PeakPlace place = highest(report); place.phase != nullptr) {
    out.device = place.phase->peak_device;
    out.phase = place.phase->phase;
  }
  for (const DeviceReport& device : report.devices)
    for (const PhaseReport& phase : device.phases)
      if (const std::string* failure = failure_of(phase)) {
        out.failure = *failure;
        out.phase = phase.phase;
        return out;
      }
  return out;
}

Result<ReportVerdict::Peak> simulate(const cli::Run& run, const Job& job) {
  HEADROOM_ASSIGN(Report report, run_on_device(job, run.hardware, Fidelity::every_allocation));
  judge(report, run.limits);
  HEADROOM_TRY(cli::settle_cached_memory(report, job, run.hardware, run.limits, cli::simulating_executor()));
  return peak_of(report);
}

/// The job with no sequence longer than `tokens`, prompts and responses cut in proportion.
Job shortened(const Job& job, std::int64_t tokens) {
  Job out = job;
  const std::int64_t cap = job.batch.sequence_length();
  out.batch.prompt_length = std::max<std::int64_t>(1, job.batch.prompt_length * tokens / cap);
  out.batch.response_length = std::max<std::int64_t>(1, tokens - out.batch.prompt_length);
  out.lengths.max_total = tokens;
  return out;
}

/// The longest mean length at which the run fits, to an eighth of the cap; 0: none.
Result<std::int64_t> longest_that_fits(const cli::Run& run) {
  constexpr std::int64_t kSteps = 8;
  const std::int64_t cap = run.read.job.batch.sequence_length();
  for (std::int64_t part = kSteps - 1; part > 0; --part) {
    HEADROOM_ASSIGN(const ReportVerdict::Peak peak,
                    simulate(run, shortened(run.read.job, cap * part / kSteps)));
    if (peak.fits) return cap * part / kSteps;
  }
  HEADROOM_ASSIGN(const ReportVerdict::Peak shortest, simulate(run, shortened(run.read.job, 2)));
  return shortest.failure.empty() ? 2 : 0;
}

std::string short_text(std::string text) {
  const std::size_t end = text.find(';');
  text = text.substr(0, end);
  std::replace(text.begin(), text.end(), '|', '/');
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

std::string peak_text(const std::optional<ReportVerdict::Peak>& peak) {
  if (!peak) return "";
  if (!peak->failure.empty()) return fmt::format("fails in {}", peak->phase);
  const char* word = peak->fits ? "fits," : peak->open.empty() ? "too much," : "open,";
  return fmt::format("{} {} in {}", word, format_gib(peak->device), peak->phase);
}

std::string happened(const PublicReport& report) {
  if (report.outcome == "fits") return "ran";
  if (report.outcome != "oom") return report.outcome;
  const bool named = !report.phase.empty() && report.phase.rfind("not ", 0) != 0;
  return "ran out of memory" + (named ? " in " + report.phase : "");
}

std::string why(const PublicReport& report, const ReportVerdict& verdict) {
  if (verdict.kind == Kind::undetermined)
    return short_text(fmt::format("{}", fmt::join(verdict.reasons, ", ")));
  const ReportVerdict::Peak& peak = verdict.expected ? *verdict.expected : *verdict.worst;
  if (!peak.failure.empty()) return short_text(peak.failure);
  std::string text = peak.gives_back ? "gets on by giving cached memory back, whatever the lengths" :
                     fmt::format("{} {}", format_gib(peak.spare < 0 ? -peak.spare : peak.spare),
                                 peak.spare < 0 ? "over, margin counted" : "to spare, margin counted");
  if (verdict.kind == Kind::wrong && report.outcome != "oom" && peak.device <= verdict.budget)
    text += "; within the margin";
  if (verdict.kind == Kind::right && report.outcome == "oom") text += "; right by caution";
  if (verdict.expected && verdict.worst && verdict.worst->fits != verdict.expected->fits)
    text += "; at the caps it would not fit";
  return text;
}

}  // namespace

std::string verdict_word(const ReportVerdict& verdict) {
  return verdict.kind == Kind::right ? "right" : verdict.kind == Kind::wrong ? "wrong" : "undetermined";
}

Result<ReportVerdict> judge_report(const PublicReport& report) {
  ReportVerdict out;
  if (!report.missing.empty()) {
    out.reasons.push_back(fmt::format("not stated: {}", fmt::join(report.missing, ", ")));
    return out;
  }
  if (!report.caution.empty()) {
    out.reasons.push_back(report.caution);
    return out;
  }
  cli::Run run;
  HEADROOM_ASSIGN(run.read, read(report));
  if (!run.read.job.not_modelled.empty()) {
    out.reasons.push_back(fmt::format("not modelled: {}", fmt::join(run.read.job.not_modelled, ", ")));
    return out;
  }
  HEADROOM_ASSIGN(run.hardware, load_hardware(report.gpu));
  run.limits = cli::limits_of({}, run.hardware);
  out.budget = run.limits.budget;
  HEADROOM_ASSIGN(out.worst, simulate(run, run.read.job));
  if (const std::optional<Lengths> lengths = cli::lengths_of_data(run.read)) {
    HEADROOM_ASSIGN(out.expected, simulate(run, cli::at_expected_lengths(run.read.job, *lengths)));
  }
  if (!out.expected && !out.worst->fits) {
    // Real sequences are shorter than the caps, nobody says by how much: only what fails at any length is
    // known.
    HEADROOM_ASSIGN(const std::int64_t longest, longest_that_fits(run));
    if (longest > 0) {
      out.reasons.push_back(
          fmt::format("lengths not stated: fits up to about {} tokens a sequence on average "
                      "(cap {})",
                      longest, run.read.job.batch.sequence_length()));
      return out;
    }
  }
  if (out.expected && !out.expected->open.empty()) {
    out.reasons.push_back(out.expected->open);
    return out;
  }
  out.fits = out.expected ? out.expected->fits : out.worst->fits;
  // What was measured ran.
  out.kind = out.fits == (report.outcome != "oom") ? Kind::right : Kind::wrong;
  return out;
}

Result<std::string> reports_document(const std::vector<PublicReport>& reports) {
  std::string rows;
  int right = 0, determined = 0, false_fits = 0, open = 0, open_failed = 0;
  for (const PublicReport& report : reports) {
    HEADROOM_ASSIGN(const ReportVerdict verdict, judge_report(report));
    determined += verdict.kind != Kind::undetermined;
    right += verdict.kind == Kind::right;
    if (verdict.expected && !verdict.expected->open.empty()) {
      ++open;
      open_failed += report.outcome == "oom";
    }
    false_fits += verdict.kind == Kind::wrong && verdict.fits;
    const std::string said = verdict.kind == Kind::undetermined ? "undetermined"
                             : verdict.fits                     ? "fits"
                                                                : "does not fit";
    rows += fmt::format("| [{}]({}) | {} | {} | {} | {} | {} | {} | {} |\n", report.id, report.url,
                        report.what, happened(report), said, verdict_word(verdict),
                        peak_text(verdict.expected), peak_text(verdict.worst), why(report, verdict));
  }
  std::string out =
      "# Public reports\n\n"
      "What public reports say happened to verl runs, and what Headroom says of the same configurations. "
      "Made by "
      "`docs/regenerate_reports.sh` from `tests/data/reports/verl.json`; nothing in the predictions knows of "
      "a "
      "report.\n\n"
      "A report is *undetermined* when it leaves out keys that decide memory, contradicts itself, or uses "
      "what has "
      "no program. Where the dataset is known, its lengths (`configs/lengths`) decide, with the worst case "
      "beside "
      "it; elsewhere a run that fits at the caps fits, one that fails at any length fails, and between the "
      "two nothing "
      "is known. A run that was measured ran. A report that names a public script ran with its keys, changed by what it says. A verdict "
      "counts the margin: what only just fits is said not to. What passes the card by cached memory alone is "
      "undetermined (*open*). Sizes of the tuning scripts (`@58`) are the sequences a GPU that "
      "their authors marked as running or failing. All rows are judged by the same rules: such marks count "
      "wherever a script has them, whether or not it ships one of the sizes; and what a run's states fill, "
      "whatever its lengths, is decided by whether it gets on when cached memory is given back.\n\n";
  out += fmt::format(
      "**{} of {} determined reports are right ({:.1f} %), {} false \"fits\"**; {} of {} are undetermined "
      "({:.1f} %).\n\n",
      right, determined, 100.0 * right / std::max(determined, 1), false_fits,
      static_cast<int>(reports.size()) - determined, reports.size(),
      100.0 * (static_cast<double>(reports.size()) - determined) / static_cast<double>(std::max<std::size_t>(reports.size(), 1)));
  out += fmt::format(
      "Runs that fill the card with cached memory get on where PyTorch can give enough of it back, which "
      "depends on how far lengths vary between micro-batches (docs/VERL.md). Those that would fail on a card "
      "smaller by the margin do not fit; the others are left open. Of "
      "these {}, {} ran and {} ran out of memory; taken as not fitting, as the gate's exit code does, {} of "
      "{} "
      "would be right.\n\n",
      open, open - open_failed, open_failed, right + open_failed, determined + open);
  out +=
      "| report | run | happened | Headroom | | expected | worst case | why |\n"
      "| --- | --- | --- | --- | --- | --- | --- | --- |\n" +
      rows;
  return out;
}

Result<std::string> verdicts_json(const std::vector<PublicReport>& reports) {
  nlohmann::ordered_json out;
  for (const PublicReport& report : reports) {
    HEADROOM_ASSIGN(const ReportVerdict verdict, judge_report(report));
    out[report.id] = verdict_word(verdict);
  }
  return out.dump(1) + "\n";
}

}  // namespace headroom::test
