#include "planner/compare/comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "models/base/printable.h"
#include "planner/writers/columns.h"
#include "planner/writers/markdown.h"

namespace headroom::compare {
namespace {

double percent(Bytes predicted, Bytes measured) {
  if (measured == 0) return predicted == 0 ? 0 : 100;
  return 100.0 * static_cast<double>(predicted - measured) / static_cast<double>(measured);
}

std::string signed_percent(double error) {
  return error == 0 ? "0" : fmt::format("{:+.4f}", error);
}

std::string counts(const Row& row) {
  if (!row.measured.n_allocs) return "";
  const std::int64_t difference = row.n_allocs - *row.measured.n_allocs;
  return difference == 0 ? "0" : fmt::format("{:+}", difference);
}

std::string share(std::int64_t part, std::int64_t whole) {
  return whole == 0 ? "none" : fmt::format("{} of {}", part, whole);
}

std::string summary_text(const Summary& s) {
  return fmt::format(
      "allocated peaks: {} exact, mean error {:.4f} %, worst {:.4f} %\n"
      "reserved peaks: {} exact, mean error {:.4f} %, worst {:.4f} %\n"
      "numbers of allocations: {}\n",
      share(s.allocated_exact, s.phases), s.allocated_mean, s.allocated_worst,
      share(s.reserved_exact, s.phases), s.reserved_mean, s.reserved_worst,
      s.counted == 0 ? "not recorded" : share(s.counts_equal, s.counted) + " equal");
}

/// What `process` took of the phase; empty: the first one. Null: it had no part in it.
const ProcessPhase* part_of(const PhaseReport& phase, const std::string& process) {
  for (const ProcessPhase& one : phase.processes)
    if (process.empty() || one.process == process) return &one;
  return nullptr;
}

/// Of the same step; for a step after the predicted ones, which repeat themselves, of the last one that has
/// the phase.
const PhaseReport* prediction(const Report& report, const MeasuredPhase& measured,
                              const std::string& process) {
  int last = -1;
  for (const DeviceReport& device : report.devices)
    for (const PhaseReport& phase : device.phases) last = std::max(last, phase.step);
  const PhaseReport* best = nullptr;
  for (const DeviceReport& device : report.devices)
    for (const PhaseReport& phase : device.phases) {
      if (phase.phase != measured.phase || part_of(phase, process) == nullptr) continue;
      if (phase.step == measured.step) return &phase;
      if (measured.step > last && last >= 0 && phase.step >= 0) best = &phase;
    }
  return best;
}

/// All steps as one: what a trainer's call around them took at most.
ProcessPhase whole_run(const Report& report) {
  ProcessPhase out;
  for (const DeviceReport& device : report.devices)
    for (const PhaseReport& phase : device.phases) {
      if (phase.step < 0 || phase.processes.empty()) continue;
      out.peak_allocated = std::max(out.peak_allocated, phase.processes.front().peak_allocated);
      out.peak_reserved = std::max(out.peak_reserved, phase.processes.front().peak_reserved);
    }
  return out;
}

std::string indented(const MeasuredPhase& phase) {
  return std::string(2 * static_cast<std::size_t>(phase.depth), ' ') + phase.phase;
}

}  // namespace

double Row::allocated_error() const {
  return percent(peak_allocated, measured.peak_allocated);
}
double Row::reserved_error() const {
  return percent(peak_reserved, measured.peak_reserved);
}

std::vector<Row> compare(const Report& report, const Measured& measured) {
  std::vector<Row> rows;
  const ProcessPhase whole = whole_run(report);
  for (const MeasuredPhase& phase : measured.phases) {
    Row row;
    row.name = measured.name;
    row.measured = phase;
    const PhaseReport* predicted = prediction(report, phase, measured.process);
    if (predicted != nullptr) row.spent = predicted->spent;
    const ProcessPhase* process = phase.phase == "train_all" ? &whole
                                  : predicted != nullptr     ? part_of(*predicted, measured.process)
                                                             : nullptr;
    if (process != nullptr) {
      row.peak_allocated = process->peak_allocated;
      row.peak_reserved = process->peak_reserved;
      row.n_allocs = process->n_allocs;
      row.predicted = true;
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

Summary summarise(const std::vector<Row>& rows) {
  Summary out;
  for (const Row& row : rows) {
    const double allocated = std::abs(row.allocated_error()), reserved = std::abs(row.reserved_error());
    ++out.phases;
    out.allocated_exact += row.peak_allocated == row.measured.peak_allocated;
    out.reserved_exact += row.peak_reserved == row.measured.peak_reserved;
    out.allocated_close += allocated <= kCloseLimit;
    out.allocated_mean += allocated;
    out.reserved_mean += reserved;
    out.allocated_worst = std::max(out.allocated_worst, allocated);
    out.reserved_worst = std::max(out.reserved_worst, reserved);
    if (!row.measured.n_allocs) continue;
    ++out.counted;
    out.counts_equal += row.n_allocs == *row.measured.n_allocs;
  }
  if (out.phases > 0) {
    out.allocated_mean /= static_cast<double>(out.phases);
    out.reserved_mean /= static_cast<double>(out.phases);
  }
  return out;
}

bool agrees(const Summary& summary) {
  return summary.allocated_worst <= kAllocatedLimit && summary.reserved_worst <= kReservedLimit;
}

std::vector<PhaseTrend> trends(const std::vector<Row>& rows) {
  std::vector<StepFigure> figures;
  for (const Row& row : rows) {
    if (row.measured.ended_out_of_memory) continue;  // stopped before its peak
    figures.push_back(
        {row.measured.step, row.measured.phase, row.measured.peak_allocated, row.measured.peak_reserved});
  }
  return phase_trends(figures);
}

std::string table(const std::vector<Row>& rows, const Sides& sides) {
  using writers::Columns;
  constexpr auto kLeft = Columns::Align::left, kRight = Columns::Align::right;
  Columns columns({kRight, kLeft, kRight, kRight, kRight, kRight, kRight, kRight, kRight});
  const std::string of = sides.files ? ", first" : "", second = sides.files ? "second" : sides.second,
                    error = sides.files ? "over second %" : "error %";
  columns.add({sides.files ? "time" : "step", "phase", "allocated" + of, second, error, "reserved" + of, second, error,
               "allocations"});
  for (const Row& row : rows)
    columns.add({fmt::format("{}", row.measured.step), indented(row.measured),
                 row.predicted ? fmt::format("{}", row.peak_allocated) : "none",
                 fmt::format("{}", row.measured.peak_allocated), signed_percent(row.allocated_error()),
                 row.predicted ? fmt::format("{}", row.peak_reserved) : "none",
                 fmt::format("{}", row.measured.peak_reserved), signed_percent(row.reserved_error()),
                 counts(row)});
  const std::string who = sides.files ? fmt::format("first:  {}\nsecond: {}\n\n", printable(sides.first), printable(sides.second)) : "";
  return who + columns.text() + "\n" + summary_text(summarise(rows));
}

std::string verdict(const std::vector<Row>& rows) {
  const Summary s = summarise(rows);
  return fmt::format("{}: {} phases, allocated peaks within {:.4f} %, reserved peaks within {:.4f} %",
                     agrees(s) ? "agrees" : "differs", s.phases, s.allocated_worst, s.reserved_worst);
}

std::string markdown(const std::vector<Row>& rows, const Sides& sides) {
  std::string out, name;
  for (const Row& row : rows) {
    if (row.name != name) {
      name = row.name;
      out += fmt::format(
          "\n## {0}\n\n| step | phase | allocated, {1} | {2} | error % | reserved, {1} | {2} | error % | allocations |\n"
          "| ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n",
          writers::markdown_text(name), writers::markdown_text(sides.first), writers::markdown_text(sides.second));
    }
    out += fmt::format("| {} | {} | {} | {} | {} | {} | {} | {} | {} |\n", row.measured.step,
                       writers::markdown_text(row.measured.phase), row.peak_allocated, row.measured.peak_allocated,
                       signed_percent(row.allocated_error()), row.peak_reserved, row.measured.peak_reserved,
                       signed_percent(row.reserved_error()), counts(row));
  }
  return out;
}

std::string json(const std::vector<Row>& rows, const Sides& sides) {
  nlohmann::ordered_json out;
  out["schema"] = "headroom.compare/1";
  out["first"] = sides.first;
  out["second"] = sides.second;
  out["rows"] = nlohmann::ordered_json::array();
  for (const Row& row : rows)
    out["rows"].push_back({{"name", row.name},
                           {"step", row.measured.step},
                           {"phase", row.measured.phase},
                           {"predicted_peak_allocated", row.peak_allocated},
                           {"measured_peak_allocated", row.measured.peak_allocated},
                           {"predicted_peak_reserved", row.peak_reserved},
                           {"measured_peak_reserved", row.measured.peak_reserved}});
  out["trends"] = nlohmann::ordered_json::array();
  for (const PhaseTrend& trend : trends(rows))
    out["trends"].push_back({{"phase", trend.phase},
                             {"steps", trend.steps},
                             {"allocated_grows", trend.allocated.grows},
                             {"allocated_bytes_a_step", static_cast<Bytes>(trend.allocated.slope)},
                             {"reserved_grows", trend.reserved.grows},
                             {"reserved_bytes_a_step", static_cast<Bytes>(trend.reserved.slope)},
                             {"fragmentation_accumulates", trend.fragments()}});
  return out.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace headroom::compare
