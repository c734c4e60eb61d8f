#include "planner/writers/study/rows.h"

#include <fmt/format.h>

#include <algorithm>

#include "planner/writers/study/study.h"
#include "planner/writers/table.h"

namespace headroom::writers {

using study::Cell;

std::vector<FreeOrigin> free_origins(const std::vector<FreePart>& parts) {
  std::vector<FreeOrigin> out;
  for (const FreePart& part : parts) {
    auto at = std::find_if(out.begin(), out.end(), [&](const FreeOrigin& one) { return one.phase == part.phase; });
    if (at == out.end()) at = out.insert(out.end(), {part.phase, 0, 0});
    at->bytes += part.bytes;
    if (part.kept()) at->kept += part.bytes;
  }
  std::stable_sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  return out;
}

std::string kind_of(const FreePart& part) {
  std::string out(name(part.component));
  if (part.component == Component::temporaries && !part.operation.empty()) out += " (" + part.operation + ")";
  return out;
}

std::vector<std::string> study_heads() {
  return {"strategy", "emptied", "reserved",  "allocated", "fragments", "kept", "without",
          "peak in",  "saved",   "s a step", "lost",      "free memory came from"};
}

std::vector<std::string> study_row(const study::Results& results, const Cell& cell) {
  std::vector<std::string> out = {cell.strategy, std::string(name(cell.empty_cache))};
  if (cell.status == Cell::Status::failed) {
    out.push_back("failed");
    out.resize(study_heads().size() - 1);
    out.push_back(cell.message);
    return out;
  }
  const bool stops = cell.status == Cell::Status::out_of_memory;
  for (const Bytes bytes : {cell.reserved.bytes, cell.allocated.bytes, cell.fragmentation(), cell.kept,
                            cell.without_fragmentation()})
    out.push_back(gib(bytes));
  out.push_back(stops ? "out of memory" : fmt::format("{} {}", cell.reserved.phase, cell.reserved.step));
  const auto part = saved(results, cell);
  out.push_back(part ? fmt::format("{:.1f} %", 100 * *part) : "");
  out.push_back(stops ? "" : fmt::format("{:.2f}", cell.seconds));
  const auto lost = seconds_lost(results, cell);
  const Cell* never = never_emptied(results, cell);
  out.push_back(lost && never->seconds > 0 ? fmt::format("{:.1f} %", 100 * *lost / never->seconds) : "");
  std::string from;
  const std::vector<FreeOrigin> origins = free_origins(cell.parts);
  for (std::size_t i = 0; i < std::min<std::size_t>(origins.size(), 2); ++i)
    from += fmt::format("{}{} {}", from.empty() ? "" : ", ", origins[i].phase, gib(origins[i].bytes));
  out.push_back(stops ? cell.message : from);
  return out;
}

std::vector<JobCells> by_job(const study::Results& results) {
  std::vector<JobCells> out;
  for (const Cell& cell : results.cells) {
    if (out.empty() || out.back().job != cell.job) out.push_back({cell.job, {}});
    out.back().cells.push_back(&cell);
  }
  return out;
}

std::string job_title(const JobCells& job) {
  for (const Cell* cell : job.cells)
    if (cell->status != Cell::Status::failed)
      return fmt::format("{} · {} · {} × {}", job.job, cell->framework, cell->gpus, cell->gpu);
  return job.job;
}

std::string study_totals(const study::Results& results) {
  std::size_t out_of_memory = 0, failed = 0;
  for (const Cell& cell : results.cells) {
    out_of_memory += cell.status == Cell::Status::out_of_memory ? 1 : 0;
    failed += cell.status == Cell::Status::failed ? 1 : 0;
  }
  std::string out = fmt::format("{} cell{}: {} done", results.cells.size(), results.cells.size() == 1 ? "" : "s",
                                results.cells.size() - out_of_memory - failed);
  if (out_of_memory > 0) out += fmt::format(", {} out of memory", out_of_memory);
  if (failed > 0) out += fmt::format(", {} failed", failed);
  return out;
}

}  // namespace headroom::writers
