#include "planner/search/outcome.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "simulator/device/verdict.h"

namespace headroom::search {
namespace {

constexpr double kSameTime = 1e-4;  // relative: below what a time model tells apart

double step_seconds(const DeviceReport& device) {
  if (device.phases.empty()) return 0;
  const int last = device.phases.back().step;
  double seconds = 0;
  for (const PhaseReport& phase : device.phases)
    if (phase.step == last) seconds += phase.seconds;
  return seconds;
}

PhaseOutcome& of_phase(std::vector<PhaseOutcome>& phases, const std::string& name) {
  const auto known = std::find_if(phases.begin(), phases.end(),
                                  [&](const PhaseOutcome& phase) { return phase.phase == name; });
  if (known != phases.end()) return *known;
  return phases.emplace_back(PhaseOutcome{name, std::numeric_limits<Bytes>::max(), 0, 0, 0, false, false});
}

/// Of what is reserved and not in use at the peak, as much as had been found cached: with nothing there the phase alone
/// would have taken so much less at best. Where the card was full, all that could be given back was.
Bytes idle_cache(const PhaseReport& phase, bool gave_back) {
  if (gave_back) return 0;
  Bytes found = 0;
  for (const ProcessPhase& process : phase.processes)
    found += std::max<Bytes>(0, process.reserved_start - process.allocated_start);
  return std::clamp<Bytes>(phase.at_peak_device[Component::allocator_slack], 0, found);
}

bool grew(const PhaseReport& phase) {
  return std::any_of(phase.processes.begin(), phase.processes.end(),
                     [](const ProcessPhase& process) { return process.peak_reserved > process.reserved_start; });
}

/// Adds what a device's phases did. Seconds count where no earlier device had the phase.
void note(const Report& report, const DeviceReport& device, std::vector<PhaseOutcome>& phases) {
  const std::vector<PhaseOutcome> others = phases;
  const int last = device.phases.empty() ? 0 : device.phases.back().step;
  std::map<std::string, std::int64_t> retries;  // of each process so far
  for (const PhaseReport& phase : device.phases) {
    PhaseOutcome& out = of_phase(phases, phase.phase);
    bool gave_back = false;
    for (const ProcessPhase& process : phase.processes) {
      std::int64_t& before = retries[process.process];
      gave_back = gave_back || process.retries > before;
      before = std::max(before, process.retries);
    }
    if (const Bytes left = spare(report, device, phase); left < out.spare) {
      out.spare = left;
      out.idle = idle_cache(phase, gave_back);
    }
    out.runs_out = out.runs_out || runs_out(phase);
    out.grew = out.grew || grew(phase);
    if (runs_out(phase)) {
      out.spare = std::min<Bytes>(out.spare, -1);
      out.idle = 0;
    }
    out.host = std::max(out.host, phase.peak_host);
    const bool known = std::any_of(others.begin(), others.end(),
                                   [&](const PhaseOutcome& other) { return other.phase == phase.phase; });
    if (!known && phase.step == last) out.seconds += phase.seconds;
  }
}

int compare_seconds(double a, double b) {
  if (std::abs(a - b) <= kSameTime * std::max(std::abs(a), std::abs(b))) return 0;
  return a < b ? -1 : 1;
}

}  // namespace

Outcome outcome_of(const Report& report) {
  Outcome out;
  out.valid = true;
  out.fits = report.fits;
  out.spare = spare(report);
  if (const PeakPlace place = highest(report); place.phase != nullptr) {
    out.peak_device = place.phase->peak_device;
    out.limiting_phase = place.phase->phase;
    out.budget = place.device->budget.value_or(report.budget);
  }
  for (const DeviceReport& device : report.devices) {
    out.seconds = std::max(out.seconds, step_seconds(device));
    note(report, device, out.phases);
    for (const PhaseReport& phase : device.phases) {
      out.peak_host = std::max(out.peak_host, phase.peak_host);
      out.breaks = out.breaks || runs_out(phase);
    }
  }
  if (out.breaks) out.seconds = 0;
  out.host_short = report.host_budget > 0 && out.peak_host > report.host_budget;
  out.device_spare = out.breaks ? std::min<Bytes>(out.spare, -1) : out.spare;
  if (!out.fits) {
    if (report.host_budget > 0) out.spare = std::min(out.spare, report.host_budget - out.peak_host);
    out.spare = std::min<Bytes>(out.spare, -1);
  }
  return out;
}

bool better(const Outcome& a, const Outcome& b, Objective objective) {
  if (a.valid != b.valid) return a.valid;
  if (a.fits != b.fits) return a.fits;
  if (a.breaks != b.breaks) return b.breaks;
  if (!a.fits && a.spare != b.spare) return a.spare > b.spare;
  const int time = compare_seconds(a.seconds, b.seconds);
  if (objective == Objective::time) return time != 0 ? time < 0 : a.spare > b.spare;
  return a.spare != b.spare ? a.spare > b.spare : time < 0;
}

}  // namespace headroom::search
