#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "models/base/embedded.h"
#include "planner/writers/html/page.h"
#include "planner/writers/study/rows.h"
#include "planner/writers/study/study.h"

namespace headroom {

std::span<const EmbeddedFile> embedded_study_page();

}  // namespace headroom

namespace headroom::writers {
namespace {

using Json = nlohmann::ordered_json;
using study::Cell;

constexpr std::size_t kMostParts = 12;

Json phase_json(const study::CellPhase& phase) {
  Json points = Json::array();  // MiB: a page of hundreds of cells stays small
  for (const MemoryPoint& point : phase.memory.points)
    points.push_back({point.allocated / kMiB, point.reserved / kMiB});
  return {{"phase", phase.memory.phase},
          {"seconds", phase.seconds},
          {"reserved", phase.memory.reserved},
          {"allocated", phase.memory.allocated},
          {"points", std::move(points)}};
}

Json parts_json(const std::vector<FreePart>& parts) {
  Json out = Json::array();
  for (std::size_t i = 0; i < std::min(parts.size(), kMostParts); ++i) {
    const FreePart& part = parts[i];
    out.push_back({{"phase", part.phase},
                   {"step", part.step},
                   {"kind", kind_of(part)},
                   {"bytes", part.bytes},
                   {"kept_by", part.kept() ? std::string(name(part.kept_by)) : ""}});
  }
  return out;
}

Json cell_json(const study::Results& results, const Cell& cell) {
  Json out = {{"strategy", cell.strategy},
              {"empty_cache", name(cell.empty_cache)},
              {"status", name(cell.status)},
              {"message", cell.message},
              {"row", study_row(results, cell)}};
  if (cell.status == Cell::Status::failed) return out;
  out["reserved"] = cell.reserved.bytes;
  out["reserved_phase"] = cell.reserved.phase;
  out["reserved_step"] = cell.reserved.step;
  out["allocated"] = cell.allocated.bytes;
  out["without"] = cell.without_fragmentation();
  out["kept"] = cell.kept;
  out["phases"] = Json::array();
  for (const study::CellPhase& phase : cell.step) out["phases"].push_back(phase_json(phase));
  out["parts"] = parts_json(cell.parts);
  return out;
}

}  // namespace

std::string study_html(const study::Results& results) {
  Json jobs = Json::array();
  for (const JobCells& job : by_job(results)) {
    Json one = {{"title", job_title(job)}, {"cells", Json::array()}};
    for (const Cell* cell : job.cells) one["cells"].push_back(cell_json(results, *cell));
    jobs.push_back(std::move(one));
  }
  const Json data = {
      {"name", results.name}, {"totals", study_totals(results)}, {"heads", study_heads()}, {"jobs", std::move(jobs)}};
  return page_with(embedded_study_page().front().text, data.dump(-1, ' ', false, Json::error_handler_t::replace));
}

}  // namespace headroom::writers
