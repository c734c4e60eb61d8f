#include "planner/writers/csv.h"

#include <fmt/format.h>

#include "planner/writers/study/study.h"

namespace headroom::writers {

std::string study_csv(const study::Results& results) {
  std::string out =
      "job,framework,strategy,empty_cache,status,gpu,gpus,peak_reserved,reserved_step,reserved_phase,peak_allocated,"
      "allocated_step,allocated_phase,peak_device,fragmentation,without_fragmentation,kept,retries,seconds,"
      "seconds_lost,saved,segments_got,segments_returned,free_from,message\n";
  for (const study::Cell& cell : results.cells) {
    out += fmt::format("{},{},{},{},{}", csv_field(cell.job), csv_field(cell.framework), csv_field(cell.strategy),
                       name(cell.empty_cache), name(cell.status));
    if (cell.status == study::Cell::Status::failed) {
      out += fmt::format(",,,,,,,,,,,,,,,,,,,,{}\n", csv_field(cell.message));
      continue;
    }
    const auto lost = seconds_lost(results, cell), part = saved(results, cell);
    std::string from;
    for (const FreeOrigin& origin : free_origins(cell.parts))
      from += fmt::format("{}{} {}", from.empty() ? "" : "; ", origin.phase, origin.bytes);
    out += fmt::format(",{},{},{},{},{},{},{},{},{},{},{},{},{},{:.6f},{},{},{},{},{},{}\n", csv_field(cell.gpu),
                       cell.gpus, cell.reserved.bytes, cell.reserved.step, csv_field(cell.reserved.phase), cell.allocated.bytes,
                       cell.allocated.step, csv_field(cell.allocated.phase), cell.device.bytes, cell.fragmentation(),
                       cell.without_fragmentation(), cell.kept, cell.retries, cell.seconds,
                       lost ? fmt::format("{:.6f}", *lost) : "", part ? fmt::format("{:.6f}", *part) : "",
                       cell.gets, cell.returns, csv_field(from), csv_field(cell.message));
  }
  return out;
}

}  // namespace headroom::writers
