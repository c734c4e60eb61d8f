#include "simulator/device/verdict.h"

#include <fmt/format.h>

#include <algorithm>

namespace headroom {
namespace {

constexpr double kThin = 0.01;  // of the budget

bool engine_awake(const PhaseReport& phase) {
  return phase.at_peak_device[Component::engine_weights] > 0;
}

/// Whether no trainer ever stands on a card that an engine uses.
bool engines_alone(const DeviceReport& device) {
  constexpr Component kEngines[] = {Component::context,    Component::communicators, Component::engine_weights,
                                    Component::engine_kv, Component::engine_graphs, Component::engine_other};
  bool awake = false;
  for (const PhaseReport& phase : device.phases) {
    awake = awake || engine_awake(phase);
    Bytes theirs = 0;
    for (const Component component : kEngines) theirs += phase.at_peak_device[component];
    if (theirs != phase.at_peak_device.total()) return false;
  }
  return awake;
}

void warn(Report& report, std::string code, std::string message) {
  Warning warning;
  warning.code = std::move(code);
  warning.message = std::move(message);
  report.warnings.push_back(std::move(warning));
}

}  // namespace

Bytes budget_of(const DeviceReport& device, const Limits& limits) {
  for (const auto& [pool, budget] : limits.pools)
    if (pool == device.pool) return budget;
  return limits.budget;
}

void judge(Report& report, const Limits& limits, const Margins& margins) {
  report.budget = limits.budget;
  report.host_budget = limits.host_budget;
  report.margin = 0;
  report.fits = true;
  Bytes least_spare = limits.budget, highest_host = 0;
  for (DeviceReport& device : report.devices) {
    const Bytes budget = budget_of(device, limits);
    if (budget != limits.budget) device.budget = budget;
    const bool alone = engines_alone(device);
    for (PhaseReport& phase : device.phases) {
      phase.margin = limits.margin.value_or(alone ? margins.of_engines_alone()
                                                  : margins.of(phase.phase, engine_awake(phase), limits.card));
      report.margin = std::max(report.margin, phase.margin);
      least_spare = std::min(least_spare, budget - phase.peak_device - phase.margin);
      highest_host = std::max(highest_host, phase.peak_host);
      if (runs_out(phase)) report.fits = false;
    }
  }
  if (least_spare < 0) report.fits = false;
  if (limits.host_budget > 0 && highest_host > limits.host_budget) {
    report.fits = false;
    warn(report, "host-memory",
         fmt::format("host memory of a node reaches {}, {} are allowed", format_gib(highest_host),
                     format_gib(limits.host_budget)));
  }
  if (limits.host_budget == 0 && highest_host > 0)
    warn(report, "host-unchecked",
         fmt::format("host memory of a node reaches {}; give --host-budget to check it",
                     format_gib(highest_host)));
  if (report.fits && static_cast<double>(least_spare) < kThin * static_cast<double>(limits.budget))
    warn(report, "thin-margin", fmt::format("only {} to spare", format_gib(least_spare)));
}

void leave_undetermined(Report& report, const std::vector<std::string>& not_modelled) {
  for (const std::string& missing : not_modelled) leave_open(report, "not modelled: " + missing);
}

void leave_open(Report& report, std::string why) {
  report.fits = false;
  warn(report, kUndetermined, std::move(why));
}

bool runs_out(const PhaseReport& phase) {
  return std::any_of(phase.processes.begin(), phase.processes.end(),
                     [](const ProcessPhase& process) { return process.out_of_memory.has_value(); });
}

std::vector<std::string> undetermined(const Report& report) {
  std::vector<std::string> out;
  for (const Warning& warning : report.warnings)
    if (warning.code == kUndetermined) out.push_back(warning.message);
  return out;
}

bool gives_cache_back(const Report& report) {
  return std::any_of(report.warnings.begin(), report.warnings.end(),
                     [](const Warning& warning) { return warning.code == kGivesBack; });
}

}  // namespace headroom
