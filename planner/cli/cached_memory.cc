#include "planner/cli/cached_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace headroom::cli {
namespace {

/// What the budget leaves of a card to the run, by the phases that pass it; nothing where none does, or where
/// other reasons than device memory decide.
std::optional<Bytes> room_of(const Report& report, const Limits& limits) {
  std::optional<Bytes> room;
  for (const DeviceReport& device : report.devices)
    for (const PhaseReport& phase : device.phases) {
      if (runs_out(phase) || (limits.host_budget > 0 && phase.peak_host > limits.host_budget)) return {};
      if (spare(report, device, phase) >= 0) continue;
      const Bytes left = budget_of(device, limits) - phase.margin;
      room = std::min(room.value_or(left), left);
    }
  return room && *room > 0 ? room : std::nullopt;
}

/// The run with sequences of two tokens: what is left is what its states and units take.
Job without_sequences(const Job& job) {
  Job out = job;
  out.batch.prompt_length = out.batch.response_length = 1;
  out.lengths = {};
  return out;
}

}  // namespace

bool only_cached_memory_passes(const Report& report, const Limits& limits) {
  if (report.fits || !room_of(report, limits)) return false;
  for (const DeviceReport& device : report.devices)
    for (const PhaseReport& phase : device.phases)
      if (spare(report, device, phase) + phase.at_peak_device[Component::allocator_slack] < 0) return false;
  return true;
}

Status settle_cached_memory(Report& report, const Job& job, const Hardware& hardware, const Limits& limits,
                            const Executor& exact) {
  if (report.fits || report.executor != "simulator") return {};
  const std::optional<Bytes> room = room_of(report, limits);
  if (!room) return {};
  Job smaller = job;
  smaller.device_memory = std::min(*room, job.device_memory > 0 ? job.device_memory : *room);
  HEADROOM_ASSIGN(Report again, exact(smaller, hardware));
  judge(again, limits);
  if (!again.fits) return {};
  HEADROOM_ASSIGN(Report bare, exact(without_sequences(job), hardware));
  judge(bare, limits);
  if (room_of(bare, limits)) {
    report.devices = std::move(again.devices);
    report.fits = true;
    Warning warning;
    warning.code = kGivesBack;
    warning.message = fmt::format(
        "its states and what is cached beside them fill the card whatever the lengths: shown is how it gets on within "
        "{}, giving cached memory back",
        format_gib(*room));
    report.warnings.push_back(std::move(warning));
    return {};
  }
  leave_open(report, fmt::format("within {} it gets on by giving cached memory back, unless micro-batches "
                                 "of different lengths leave that in pieces",
                                 format_gib(*room)));
  return {};
}

}  // namespace headroom::cli
