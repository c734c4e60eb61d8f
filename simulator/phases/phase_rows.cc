#include "simulator/phases/phase_rows.h"

#include <algorithm>

namespace headroom {

double fragmentation(const ProcessPhase& row) {
  if (row.peak_reserved <= 0) return 0;
  return static_cast<double>(row.peak_reserved - row.peak_allocated) / static_cast<double>(row.peak_reserved);
}

namespace {

/// `last` with the beginning and the higher peaks of the same process's earlier piece.
void join(const ProcessPhase& first, ProcessPhase& last) {
  last.allocated_start = first.allocated_start;
  last.reserved_start = first.reserved_start;
  last.n_allocs += first.n_allocs;
  last.peak_active = std::max(first.peak_active, last.peak_active);
  for (const std::string& role : first.roles)
    if (std::find(last.roles.begin(), last.roles.end(), role) == last.roles.end()) last.roles.push_back(role);
  if (first.peak_allocated >= last.peak_allocated) {
    last.peak_allocated = first.peak_allocated;
    last.at_peak_allocated = first.at_peak_allocated;
  }
  last.peak_reserved = std::max(first.peak_reserved, last.peak_reserved);
  last.fragmentation_at_peak = fragmentation(last);
  if (!last.out_of_memory) last.out_of_memory = first.out_of_memory;
}

PhaseReport joined(PhaseReport first, PhaseReport last) {
  for (ProcessPhase& process : first.processes) {
    const auto same = std::find_if(last.processes.begin(), last.processes.end(),
                                   [&](const ProcessPhase& p) { return p.process == process.process; });
    if (same == last.processes.end())
      last.processes.push_back(std::move(process));
    else
      join(process, *same);
  }
  if (first.peak_device >= last.peak_device) {
    last.peak_device = first.peak_device;
    last.at_peak_device = first.at_peak_device;
  }
  if (first.peak_host >= last.peak_host) {
    last.peak_host = first.peak_host;
    last.at_peak_host = first.at_peak_host;
  }
  last.spent += first.spent;
  last.seconds += first.seconds;
  return last;
}

}  // namespace

PhaseReport* PhaseRows::add(const PhaseSpec& phase, PhaseReport row, bool shown) {
  if (shown)
    if (auto covered = covered_.extract({row.step, row.phase}))
      row = joined(std::move(covered.mapped()), std::move(row));
  if (!phase.within.empty()) {
    PhaseReport inner = row;
    inner.phase = phase.within;
    if (shown) {  // they are the inner row's
      inner.seconds = 0;
      inner.spent = {};
    }
    const auto [at, fresh] = covered_.try_emplace({row.step, phase.within});
    at->second = fresh ? std::move(inner) : joined(std::move(at->second), std::move(inner));
  }
  if (!shown) return nullptr;
  row.within = phase.within;
  for (PhaseReport& earlier : rows_)
    if (earlier.step == row.step && earlier.phase == row.phase) {
      earlier = joined(std::move(earlier), std::move(row));
      return &earlier;
    }
  rows_.push_back(std::move(row));
  return &rows_.back();
}

}  // namespace headroom
