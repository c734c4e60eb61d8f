#include "planner/compare/corpus.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>

#include "planner/frameworks/registry.h"
#include "simulator/hardware/library.h"
#include "simulator/phases/simulate.h"

namespace headroom::compare {
namespace {

namespace fs = std::filesystem;

Result<std::vector<std::string>> recordings(const std::vector<std::string>& folders) {
  std::vector<std::string> out;
  for (const std::string& folder : folders) {
    std::error_code error;
    fs::recursive_directory_iterator at(folder, error), end;
    if (error) return fail(Error{.message = "can't be read: " + error.message(), .file = folder, .key = {}});
    for (; at != end; at.increment(error))
      if (at->is_regular_file() && at->path().extension() == ".json") out.push_back(at->path().string());
  }
  std::sort(out.begin(), out.end());
  return out;
}

Result<Report> predict(const std::string& path) {
  HEADROOM_ASSIGN(const ReadJob read, read_job(std::array{path}, {}));
  HEADROOM_ASSIGN(const Hardware hardware, load_hardware(read.job.gpu));
  return simulate(read.job, hardware);
}

std::string run_line(const std::string& name, const Summary& s) {
  return fmt::format("| {} | {} | {} | {} | {:.4f} | {:.4f} | {} | {:.4f} | {:.4f} | {} |\n", name, s.phases,
                     s.allocated_exact, s.allocated_close, s.allocated_mean, s.allocated_worst,
                     s.reserved_exact, s.reserved_mean, s.reserved_worst,
                     s.counted > 0 ? fmt::format("{} of {}", s.counts_equal, s.counted) : "");
}

/// A row of the first table.
std::string group_line(const std::string& name, const std::vector<Row>& rows) {
  const Summary s = summarise(rows);
  return fmt::format("| {} | {} of {} | {:.1f} | {:.4f} | {:.4f} | {} of {} | {:.4f} | {:.4f} | {} |\n", name,
                     s.allocated_exact, s.phases,
                     100.0 * static_cast<double>(s.allocated_close) /
                         static_cast<double>(std::max<std::int64_t>(1, s.phases)),
                     s.allocated_mean, s.allocated_worst, s.reserved_exact, s.phases, s.reserved_mean,
                     s.reserved_worst,
                     s.counted > 0 ? fmt::format("{} of {}", s.counts_equal, s.counted) : "");
}

}  // namespace

std::vector<Row> Corpus::rows() const {
  std::vector<Row> out;
  for (const RecordedRun& run : runs) out.insert(out.end(), run.rows.begin(), run.rows.end());
  return out;
}

Result<Corpus> read_corpus(const std::vector<std::string>& folders) {
  Corpus out;
  HEADROOM_ASSIGN(const std::vector<std::string> paths, recordings(folders));
  for (const std::string& path : paths) {
    const Result<Document> document = read_document(path);
    // What cannot be read may be a recording: nobody is told that all agree while one was left out.
    if (!document) return fail(document.error());
    if (document->find("case") == nullptr || document->find("phases") == nullptr) continue;
    HEADROOM_ASSIGN(const Measured measured, measured_of(*document, path));
    if (measured.phases.empty()) {
      out.skipped.push_back({fs::path(path).stem().string(), "expected measured phases, found none"});
      continue;
    }
    const Result<Report> report = predict(path);
    if (!report) {
      out.skipped.push_back({fs::path(path).stem().string(), report.error().text()});
      continue;
    }
    RecordedRun run{.name = fs::path(path).stem().string(),
                    .group = fs::path(path).parent_path().filename().string(),
                    .rows = compare(*report, measured)};
    for (Row& row : run.rows) row.name = run.name;
    out.runs.push_back(std::move(run));
  }
  if (out.runs.empty() && out.skipped.empty())
    return fail(Error{.message = "expected recordings (JSON with `case` and `phases`), found none",
                      .file = folders.empty() ? "" : folders.front(),
                      .key = "--corpus"});
  return out;
}

std::string run_errors_json(const Corpus& corpus) {
  std::string out = "{";
  for (const RecordedRun& run : corpus.runs) {
    const Summary s = summarise(run.rows);
    out += fmt::format(
        "{}\n  \"{}\": {{\"allocated\": {:.4f}, \"reserved\": {:.4f}, \"allocated_exact\": {}, "
        "\"reserved_exact\": {}, \"counts_equal\": {}}}",
        out.size() > 1 ? "," : "", run.name, s.allocated_worst, s.reserved_worst, s.allocated_exact,
        s.reserved_exact, s.counts_equal);
  }
  return out + "\n}\n";
}

std::string accuracy_document(const Corpus& corpus) {
  std::map<std::string, std::vector<Row>> groups;
  for (const RecordedRun& run : corpus.runs)
    groups[run.group].insert(groups[run.group].end(), run.rows.begin(), run.rows.end());
  std::string out = "# Accuracy";
  if (groups.size() == 1) out += ": " + groups.begin()->first;
  out +=
      "\n\nPredicted against measured, every recorded run and phase. Made by `headroom compare --corpus` (see "
      "`docs/regenerate_*.sh`); bytes as torch.cuda.memory_stats() counts them, errors signed, in percent of "
      "what was measured; the last column is the difference in the number of allocations.\n\n"
      "| recordings below `tests/data` | allocated exact | within 0.1 %, % | mean error % | worst % | reserved "
      "exact | mean error % | worst % | allocations equal |\n"
      "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n";
  for (const auto& [name, rows] : groups) out += group_line(name, rows);
  out += group_line("all", corpus.rows());
  out +=
      "\n| run | phases | allocated exact | within 0.1 % | mean error % | worst % | reserved exact | mean error "
      "% | worst % | allocations equal |\n"
      "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n";
  for (const RecordedRun& run : corpus.runs) out += run_line(run.name, summarise(run.rows));
  if (!corpus.skipped.empty()) {
    out += "\nNot predicted:\n\n";
    for (const auto& [name, why] : corpus.skipped) out += fmt::format("* {}: {}\n", name, why);
  }
  return out + markdown(corpus.rows());
}

}  // namespace headroom::compare
