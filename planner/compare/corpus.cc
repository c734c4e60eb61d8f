#include "planner/compare/corpus.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>

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

std::string run_line(const std::string& name, const std::vector<Row>& rows) {
  const Summary s = summarise(rows);
  return fmt::format("| {} | {} | {} | {:.4f} | {} | {:.4f} | {} |\n", name, s.phases, s.allocated_exact,
                     s.allocated_worst, s.reserved_exact, s.reserved_worst,
                     s.counted > 0 ? fmt::format("{} of {}", s.counts_equal, s.counted) : "");
}

}  // namespace

Result<Corpus> read_corpus(const std::vector<std::string>& folders) {
  Corpus out;
  HEADROOM_ASSIGN(const std::vector<std::string> paths, recordings(folders));
  for (const std::string& path : paths) {
    Result<Document> document = read_document(path);
    if (!document || document->find("case") == nullptr || document->find("phases") == nullptr) continue;
    HEADROOM_ASSIGN(const Measured measured, measured_of(*document, path));
    const Result<Report> report = predict(path);
    if (!report) {
      out.skipped.push_back({fs::path(path).stem().string(), report.error().text()});
      continue;
    }
    std::vector<Row> rows = compare(*report, measured);
    for (Row& row : rows) row.name = fs::path(path).stem().string();
    out.rows.insert(out.rows.end(), rows.begin(), rows.end());
  }
  if (out.rows.empty() && out.skipped.empty())
    return fail(Error{.message = "expected recordings (JSON with `case` and `phases`), found none",
                      .file = folders.empty() ? "" : folders.front(),
                      .key = "--corpus"});
  return out;
}

std::map<std::string, RunError> run_errors(const std::vector<Row>& rows) {
  std::map<std::string, RunError> out;
  for (const Row& row : rows) {
    RunError& error = out[row.name];
    error.allocated = std::max(error.allocated, std::abs(row.allocated_error()));
    error.reserved = std::max(error.reserved, std::abs(row.reserved_error()));
  }
  return out;
}

std::string run_errors_json(const std::vector<Row>& rows) {
  std::string out = "{";
  for (const auto& [name, error] : run_errors(rows))
    out += fmt::format("{}\n  \"{}\": {{\"allocated\": {:.4f}, \"reserved\": {:.4f}}}",
                       out.size() > 1 ? "," : "", name, error.allocated, error.reserved);
  return out + "\n}\n";
}

std::string accuracy_document(const Corpus& corpus) {
  const Summary s = summarise(corpus.rows);
  std::string out = fmt::format(
      "# Accuracy\n\nPredicted against measured, every recorded run and phase. Made by "
      "`docs/regenerate_accuracy.sh`; bytes as torch.cuda.memory_stats() counts them, errors signed, in "
      "percent "
      "of what was measured; the last column is the difference in the number of allocations.\n\n"
      "| | exact | mean error % | worst error % |\n| --- | ---: | ---: | ---: |\n"
      "| allocated peaks | {} of {} | {:.4f} | {:.4f} |\n| reserved peaks | {} of {} | {:.4f} | {:.4f} |\n"
      "| numbers of allocations | {} of {} | | |\n\n"
      "| run | phases | allocated exact | worst % | reserved exact | worst % | allocations equal |\n"
      "| --- | ---: | ---: | ---: | ---: | ---: | ---: |\n",
      s.allocated_exact, s.phases, s.allocated_mean, s.allocated_worst, s.reserved_exact, s.phases,
      s.reserved_mean, s.reserved_worst, s.counts_equal, s.counted);
  std::vector<Row> run;
  for (std::size_t i = 0; i < corpus.rows.size(); ++i) {
    run.push_back(corpus.rows[i]);
    if (i + 1 < corpus.rows.size() && corpus.rows[i + 1].name == run.front().name) continue;
    out += run_line(run.front().name, run);
    run.clear();
  }
  if (!corpus.skipped.empty()) {
    out += "\nNot predicted:\n\n";
    for (const auto& [name, why] : corpus.skipped) out += fmt::format("* {}: {}\n", name, why);
  }
  return out + markdown(corpus.rows);
}

}  // namespace headroom::compare
