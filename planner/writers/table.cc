#include "planner/writers/table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <limits>
#include <cstdlib>

#include "models/base/printable.h"
#include "planner/writers/columns.h"
#include "simulator/device/verdict.h"

namespace headroom::writers {
namespace {

constexpr int kBarWidth = 24;
constexpr double kNear = 0.95;  // of the budget: shown as close

using Align = Columns::Align;

std::string coloured(const std::string& text, const char* code, const TableStyle& style) {
  return style.colour ? fmt::format("\x1b[{}m{}\x1b[0m", code, text) : text;
}

std::string phase_bar(const PhaseReport& phase, Bytes budget, const TableStyle& style) {
  const double used =
      budget > 0 ? static_cast<double>(phase.peak_device + phase.margin) / static_cast<double>(budget) : 0;
  return coloured(bar(used, kBarWidth), used > 1 ? "31" : used > kNear ? "33" : "32", style);
}

/// PyTorch's own counters of the phase, of the process that reserves most: max_memory_allocated and
/// max_memory_reserved. An engine's pool is its own affair and no counter's.
struct TorchPeaks {
  Bytes allocated = 0, reserved = 0;
};
TorchPeaks torch_peaks(const PhaseReport& phase) {
  TorchPeaks peaks;
  for (const ProcessPhase& process : phase.processes)
    if (process.n_allocs > 0 || peaks.reserved == 0)
      if (process.peak_reserved >= peaks.reserved) peaks = {process.peak_allocated, process.peak_reserved};
  return peaks;
}

/// What of a phase's peak is in use; the rest is memory that allocators hold and nobody uses.
Bytes in_use(const PhaseReport& phase) {
  return phase.peak_device - phase.at_peak_device[Component::allocator_slack];
}

/// Whether nothing changes for people from one row to the next: the peaks are equal to a hundredth of the budget.
bool alike(const PhaseReport& a, const PhaseReport& b, Bytes budget) {
  const auto near = [&](Bytes x, Bytes y) { return std::abs(x - y) * 100 <= budget; };
  return near(a.peak_device, b.peak_device) && near(in_use(a), in_use(b)) && runs_out(a) == runs_out(b) &&
         a.bounded == b.bounded && a.within.empty() && b.within.empty();
}

/// Rows that follow each other and are alike, as one: first, last and the highest of them.
struct Row {
  const PhaseReport* first;
  const PhaseReport* last;
  const PhaseReport* shown;
};
std::vector<Row> rows_of(const std::vector<const PhaseReport*>& phases, const DeviceReport& device,
                         const Report& report, bool every_phase) {
  std::vector<Row> rows;
  const Bytes budget = device.budget.value_or(report.budget);
  for (const PhaseReport* phase : phases) {
    if (!every_phase && !rows.empty() && alike(*rows.back().shown, *phase, budget)) {
      Row& row = rows.back();
      row.last = phase;
      if (spare(report, device, *phase) < spare(report, device, *row.shown)) row.shown = phase;
    } else {
      rows.push_back({phase, phase, phase});
    }
  }
  return rows;
}

/// Two columns further for each phase that covers it.
std::string indented(const PhaseReport& phase, const std::vector<const PhaseReport*>& phases) {
  constexpr std::size_t kDeepest = 8;
  std::string out;
  for (std::string around = phase.within; !around.empty() && out.size() < 2 * kDeepest;) {
    out += "  ";
    const auto at = std::find_if(phases.begin(), phases.end(),
                                 [&](const PhaseReport* other) { return other->phase == around; });
    around = at == phases.end() ? "" : (*at)->within;
  }
  return out + printable(phase.phase);
}

std::string row_name(const Row& row, const std::vector<const PhaseReport*>& phases) {
  const std::string first = indented(*row.first, phases);
  return row.first == row.last ? first : first + " … " + printable(row.last->phase);
}

std::string phase_rows(const DeviceReport& device, const Report& report, const TableStyle& style) {
  constexpr int kWithBar = 100;  // characters that the columns beside the bar take
  const std::vector<const PhaseReport*> phases = worst_steps(device);
  const bool bars = style.width == 0 || style.width >= kWithBar;
  const bool expected = std::any_of(phases.begin(), phases.end(), [](const PhaseReport* phase) {
    return phase->expected_device.has_value();
  });
  std::vector<Align> alignment = {Align::left, Align::right};
  std::vector<std::string> head = {"phase", "step"};
  const auto column = [&](const char* title, Align align) {
    head.emplace_back(title);
    alignment.push_back(align);
  };
  if (bars) column("GiB of the budget", Align::left);
  if (expected) column("expected", Align::right);
  for (const char* title : {"device", "in use", "margin", "spare", "reserved", "allocated", "host"})
    column(title, Align::right);
  column("", Align::left);
  Columns columns(std::move(alignment));
  columns.add(std::move(head));
  for (const Row& row : rows_of(phases, device, report, style.every_phase)) {
    const PhaseReport& phase = *row.shown;
    const Bytes left = spare(report, device, phase);
    const TorchPeaks torch = torch_peaks(phase);
    std::vector<std::string> cells = {row_name(row, phases), std::to_string(phase.step)};
    if (bars) cells.push_back(phase_bar(phase, device.budget.value_or(report.budget), style));
    if (expected) cells.push_back(phase.expected_device ? gib(*phase.expected_device) : "");
    for (std::string& cell : std::vector<std::string>{
             (phase.bounded ? "≤ " : "") + gib(phase.peak_device), gib(in_use(phase)), gib(phase.margin),
             gib(left), gib(torch.reserved), gib(torch.allocated), gib(phase.peak_host),
             runs_out(phase) ? "out of memory"
             : left < 0      ? "too much"
                             : ""})
      cells.push_back(std::move(cell));
    columns.add_coloured(std::move(cells));
  }
  static constexpr std::string_view kLeast[] = {"margin", "host", "reserved", "in use", "allocated", "expected", "step"};
  columns.fit(style.width, "  ", kLeast);
  return columns.text("  ");
}

/// The last step's phases: how long each takes and what it waits for.
std::string time_rows(const DeviceReport& device, double other, int width) {
  constexpr double kShown = 5e-4;
  int last = -1;
  for (const PhaseReport& phase : device.phases) last = std::max(last, phase.step);
  std::vector<Align> alignment(2 + kSpentKinds, Align::right);
  alignment.front() = Align::left;
  Columns columns(std::move(alignment));
  std::vector<std::string> head = {fmt::format("seconds of step {}", last), "all"};
  for (std::size_t i = 0; i < kSpentKinds; ++i) head.emplace_back(name(static_cast<Spent>(i)));
  columns.add(std::move(head));
  Seconds sum;
  const auto add = [&](const std::string& what, const Seconds& spent) {
    std::vector<std::string> row = {what, fmt::format("{:.3f}", spent.total())};
    for (const double part : spent.by) row.push_back(part < kShown ? "" : fmt::format("{:.3f}", part));
    columns.add(std::move(row));
  };
  for (const PhaseReport& phase : device.phases) {
    // A row that covers others has what they don't.
    if (phase.step != last || phase.seconds < kShown) continue;
    add(printable(phase.phase), phase.spent);
    sum += phase.spent;
  }
  if (sum.total() < kShown) return "";
  if (other > 0) {
    Seconds given;
    given[Spent::waiting] = other;
    add("other (given)", given);
    sum += given;
  }
  add("the step", sum);
  static constexpr std::string_view kLeast[] = {"waiting", "host", "copies", "network", "memory", "matrix"};
  columns.fit(width, "  ", kLeast);
  return columns.text("  ");
}

/// Where memory that is only held at the highest peak came from: the phase that made the allocator reserve it,
/// and what that phase needed it for.
std::string inherited(const PeakPlace& place) {
  const PhaseReport& peak = *place.phase;
  const Bytes held = peak.at_peak_device[Component::allocator_slack];
  if (held * 20 < peak.peak_device) return "";
  const PhaseReport* maker = nullptr;
  const ProcessPhase* process = nullptr;
  for (const ProcessPhase& now : peak.processes) {
    if (now.peak_reserved > now.reserved_start) continue;  // this phase asked for more itself
    for (const PhaseReport& phase : place.device->phases) {
      if (&phase == &peak) break;
      for (const ProcessPhase& before : phase.processes)
        if (before.process == now.process && before.rank == now.rank &&
            before.peak_reserved >= now.peak_reserved && before.reserved_start < now.peak_reserved)
          if (process == nullptr || before.peak_reserved >= process->peak_reserved) {
            maker = &phase;
            process = &before;
          }
    }
  }
  if (maker == nullptr) return "";
  std::string parts;
  Breakdown rest = process->at_peak_allocated;
  for (int i = 0; i < 3; ++i) {
    std::size_t largest = 0;
    for (std::size_t c = 1; c < kComponents; ++c)
      if (rest.bytes[c] > rest.bytes[largest]) largest = c;
    if (rest.bytes[largest] <= 0) break;
    parts += fmt::format("{}{} {}", parts.empty() ? "" : ", ", name(static_cast<Component>(largest)),
                         gib(rest.bytes[largest]));
    rest.bytes[largest] = 0;
  }
  return fmt::format(
      "{} GiB of it are cached since {} (step {}), which had {} GiB allocated at its peak ({}); {} itself uses {}\n",
      gib(held), printable(maker->phase), maker->step, gib(process->peak_allocated), parts, printable(peak.phase),
      gib(in_use(peak)));
}

std::string understood(const Report& report) {
  std::string out;
  for (const auto& [what, value] : report.understood) out += fmt::format("  {:<12}{}\n", what, printable(value));
  return out;
}

constexpr const char* kLegend =
    "step: the one in which a phase is highest (-1: before the first, 0: the first). device: everything on the "
    "card;\nin use: without what allocators merely hold. reserved, allocated: PyTorch's max_memory_reserved and "
    "_allocated.\n";

std::string legend(int width) {
  std::string text = kLegend;
  if (width == 0) return text;
  std::replace(text.begin(), text.end() - 1, '\n', ' ');
  return wrapped(text, width);
}

std::string components(const Breakdown& breakdown) {
  std::vector<Component> order;
  for (std::size_t i = 0; i < kComponents; ++i)
    if (breakdown.bytes[i] != 0) order.push_back(static_cast<Component>(i));
  std::stable_sort(order.begin(), order.end(),
                   [&](Component a, Component b) { return breakdown[a] > breakdown[b]; });
  const double total = static_cast<double>(std::max<Bytes>(breakdown.total(), 1));
  Columns columns({Align::left, Align::right, Align::right});
  for (const Component component : order)
    columns.add({std::string(name(component)), gib(breakdown[component]),
                 fmt::format("{:.1f} %", 100 * static_cast<double>(breakdown[component]) / total)});
  columns.add({"total", gib(breakdown.total()), ""});
  return columns.text("  ");
}

/// The first row in which a process whose allocations are executed has most allocated.
std::pair<const PhaseReport*, const ProcessPhase*> allocated_peak(const DeviceReport& device) {
  std::pair<const PhaseReport*, const ProcessPhase*> peak;
  for (const PhaseReport& phase : device.phases)
    for (const ProcessPhase& process : phase.processes)
      if (process.n_allocs > 0 &&
          (peak.second == nullptr || process.peak_allocated > peak.second->peak_allocated))
        peak = {&phase, &process};
  return peak;
}

/// What holds most at the trainer's allocated peak, which may be another moment than the device's.
std::string holders(const DeviceReport& device) {
  const bool small = device.holders.front().bytes < kGiB / 10;
  const Bytes unit = small ? kMiB : kGiB;
  const auto in_unit = [&](Bytes bytes) {
    return fmt::format("{:.2f}", static_cast<double>(bytes) / static_cast<double>(unit));
  };
  std::string title = "Largest holders at the trainer's allocated peak";
  if (const auto [phase, process] = allocated_peak(device); process != nullptr)
    title += fmt::format(", {} {} in {} (step {})", in_unit(process->peak_allocated), small ? "MiB" : "GiB",
                         printable(phase->phase), phase->step);
  Columns columns({Align::right, Align::right, Align::left, Align::left});
  columns.add({small ? "MiB" : "GiB", "blocks", "component", "module, operation"});
  for (const Holder& holder : device.holders)
    columns.add({in_unit(holder.bytes), fmt::format("{}", holder.blocks), std::string(name(holder.component)),
                 printable(holder.module + " " + holder.operation)});
  return fmt::format("{}: {}\n", title, device_name(device)) + columns.text("  ");
}

std::string notes(const Report& report) {
  std::string out;
  for (const std::string& line : warning_lines(report)) out += "! " + line + "\n";
  if (!report.assumptions.empty()) {
    out += "Assumed:\n";
    for (const std::string& assumption : report.assumptions) out += "  - " + printable(assumption) + "\n";
  }
  return out;
}

bool stops(const Report& report) {
  return std::any_of(report.devices.begin(), report.devices.end(), [](const DeviceReport& device) {
    return std::any_of(device.phases.begin(), device.phases.end(), runs_out);
  });
}

/// Why a run does not fit whose device peaks do: a process that stops, or host memory.
std::string other_reason(const Report& report) {
  for (const DeviceReport& device : report.devices)
    for (const PhaseReport& phase : device.phases)
      for (const ProcessPhase& process : phase.processes)
        if (process.out_of_memory)
          return fmt::format("{} stops in {} (step {}) on GPU {}: {}", process.process, phase.phase,
                             phase.step, device.device, *process.out_of_memory);
  for (const Warning& warning : report.warnings)
    if (warning.code == "host-memory") return warning.message;
  return "a limit is passed";
}

}  // namespace

std::string gib(Bytes bytes) {
  return fmt::format("{:.2f}", static_cast<double>(bytes) / static_cast<double>(kGiB));
}

std::string device_name(const DeviceReport& device) {
  std::string out = fmt::format("GPU {}", device.device);
  if (!device.pool.empty()) out += " of pool " + printable(device.pool);
  if (device.alike > 1) out += fmt::format(" ({} alike)", device.alike);
  return out;
}

std::vector<std::string> warning_lines(const Report& report) {
  std::vector<std::string> out;
  for (const Warning& warning : report.warnings) {
    if (warning.code == "undetermined") continue;  // the verdict names it
    std::string place = warning.file;
    if (!place.empty() && warning.line > 0) place += ":" + std::to_string(warning.line);
    if (!place.empty()) place += ": ";
    out.push_back(printable(place + (warning.key.empty() ? "" : warning.key + ": ") + warning.message));
  }
  return out;
}

namespace {

/// Of a run that gets on by giving cached memory back: how far what it uses is from the budget.
std::string given_back(const Report& report) {
  Bytes least = std::numeric_limits<Bytes>::max();
  std::string sum;
  for (const DeviceReport& device : report.devices)
    for (const PhaseReport& phase : device.phases) {
      const Bytes left = spare(report, device, phase) + phase.peak_device - in_use(phase);
      if (left >= least) continue;
      least = left;
      sum = fmt::format("{} in use + {} margin of {} in {} (step {}) on GPU {}", gib(in_use(phase)), gib(phase.margin),
                        format_gib(device.budget.value_or(report.budget)), phase.phase, phase.step, device.device);
    }
  return fmt::format("fits, but only by giving cached memory back, which fills the card: {} to spare without it, {}",
                     format_gib(least), sum);
}

std::string verdict_text(const Report& report) {
  const PeakPlace place = highest(report);
  const std::vector<std::string> open = undetermined(report);
  const std::string why = fmt::format("{}", fmt::join(open, "; "));
  if (place.phase == nullptr)
    return report.fits ? "fits" : open.empty() ? "does not fit" : "undetermined: " + why;
  const Bytes left = spare(report);
  const std::string sum =
      fmt::format("{} + {} margin of {}", gib(place.phase->peak_device), gib(place.phase->margin),
                  format_gib(place.device->budget.value_or(report.budget)));
  const std::string where =
      fmt::format("in {} (step {}) on GPU {}", place.phase->phase, place.phase->step, place.device->device);
  if (!open.empty() && left >= 0)
    return fmt::format("undetermined: {} to spare, {} {}, but {}", format_gib(left), sum, where, why);
  if (!open.empty())
    return fmt::format("undetermined: {} over, {} {}, but {}", format_gib(-left), sum, where, why);
  for (const Warning& warning : report.warnings)
    if (warning.code == kRisk && !report.fits && !stops(report)) return "does not fit: " + warning.message;
  // What a run that stops would have needed is not known: the card's end is no figure of its own.
  if (stops(report)) return "does not fit: " + other_reason(report);
  if (report.fits && gives_cache_back(report)) return given_back(report);
  if (left < 0) return fmt::format("does not fit: {} over, {} {}", format_gib(-left), sum, where);
  if (report.fits) return fmt::format("fits: {} to spare, {} {}", format_gib(left), sum, where);
  return fmt::format("does not fit: {}; the highest device peak is {} {}", other_reason(report), sum, where);
}

}  // namespace

std::string verdict(const Report& report) {
  return printable(verdict_text(report));
}

namespace {

/// The table's few characters that are no ASCII, in it.
std::string plain_text(std::string text) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 7> kPlain = {
      {{"█", "#"}, {"░", "."}, {"·", "-"}, {"…", "..."}, {"≤", "<="}, {"×", "x"}, {"−", "-"}}};
  for (const auto& [from, to] : kPlain)
    for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
      text.replace(at, from.size(), to);
  return text;
}

std::string whole_table(const Report& report, const TableStyle& style) {
  std::string out = printable(report.title);
  for (const std::string& part : {report.framework, report.executor})
    if (!part.empty()) out += (out.empty() ? "" : " · ") + part;
  if (!out.empty()) out += "\n";
  out += coloured(verdict(report), report.fits ? "32" : "31", style) + "\n" + understood(report);
  for (const DeviceReport& device : report.devices) {
    out += "\n" + device_name(device) + ", GiB\n" + phase_rows(device, report, style);
    if (&device == &report.devices.front()) out += legend(style.width);
    if (const std::string times = time_rows(device, report.other_seconds, style.width); !times.empty()) out += "\n" + times;
    if (!device.holders.empty()) out += "\n" + holders(device);
  }
  if (const PeakPlace place = highest(report); place.phase != nullptr) {
    out += fmt::format("\nAt the highest peak: {} in {} (step {}), GiB\n", device_name(*place.device),
                       place.phase->phase, place.phase->step);
    out += components(place.phase->at_peak_device) + inherited(place);
  }
  if (const std::string rest = wrapped(notes(report), style.width); !rest.empty()) out += "\n" + rest;
  return out;
}

}  // namespace

std::string table(const Report& report, const TableStyle& style) {
  std::string text = whole_table(report, style);
  return style.plain ? plain_text(std::move(text)) : text;
}

}  // namespace headroom::writers
