#include "simulator/replay/what_if_advice.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

namespace headroom::replay {
namespace {

constexpr double kNoise = 0.02;
constexpr Bytes kWorthwhile = 64 * kMiB;

bool fits(const WhatIfOutcome& row) {
  return row.skipped.empty() && !row.out_of_memory;
}

/// Less is better. Retries count as their existence: how many there are depends on the length of the
/// recording.
auto rank(const WhatIfOutcome& row, Bytes best_peak) {
  const auto near = static_cast<Bytes>(static_cast<double>(best_peak) * (1 + kNoise));
  const bool close = row.peak_reserved <= near;
  return std::tuple(row.retries > 0, close ? 0 : row.peak_reserved, row.setting.empty_at_phase_ends,
                    row.device_allocs);
}

/// What to do, as the beginning of a sentence.
std::string instruction(const WhatIfSetting& setting) {
  const std::string emptying = "all torch.cuda.empty_cache() at the end of every phase";
  if (setting.conf.empty())
    return setting.empty_at_phase_ends ? "C" + emptying : "Unset PYTORCH_CUDA_ALLOC_CONF";
  const std::string conf = fmt::format("Use `export PYTORCH_CUDA_ALLOC_CONF={}`", setting.conf);
  return setting.empty_at_phase_ends ? conf + " and c" + emptying : conf;
}

std::string reserved(const WhatIfOutcome& row) {
  return format_gib(row.peak_reserved);
}

std::string failing_advice(const WhatIf& table) {
  if (!table.limit)
    return table.baseline.out_of_memory ? "The run asks for more than any device has."
                                        : "No setting was tried: those given work only under a limit (--limit).";
  const std::string none = fmt::format("No setting tried fits in {}", format_gib(*table.limit));
  if (!table.needed) return none + ".";
  if (*table.needed > *table.limit)
    return fmt::format("{}: the run allocates {} at one moment, so it has to shrink.", none,
                       format_gib(*table.needed));
  return fmt::format(
      "{}, though the run never allocates more than {}: free memory lies in pieces that are too small. Give "
      "it "
      "more, or empty the cache where the failing phase begins.",
      none, format_gib(*table.needed));
}

}  // namespace

void advise(WhatIf& table) {
  const WhatIfOutcome& now = table.baseline;
  const WhatIfOutcome* best = nullptr;
  Bytes best_peak = 0;
  for (const WhatIfOutcome& row : table.outcomes)
    if (fits(row) && (best == nullptr || row.peak_reserved < best_peak)) {
      best = &row;
      best_peak = row.peak_reserved;
    }
  if (best == nullptr) {
    table.advice =
        fits(now) ? fmt::format("Keep the recorded settings: they reserve {} and nothing else tried fits.",
                                reserved(now))
                  : failing_advice(table);
    return;
  }
  for (const WhatIfOutcome& row : table.outcomes)
    if (fits(row) && rank(row, best_peak) < rank(*best, best_peak)) best = &row;
  const Bytes saved = now.peak_reserved - best->peak_reserved;
  const bool saves =
      saved >= kWorthwhile && static_cast<double>(saved) >= kNoise * static_cast<double>(now.peak_reserved);
  const std::string todo = instruction(best->setting);
  if (!fits(now)) {
    table.advice = fmt::format(
        "{}: the run then fits in {} with a reserved peak of {}{}, while the recorded settings run out of "
        "memory.",
        todo, format_gib(*table.limit), reserved(*best),
        best->retries > 0 ? fmt::format(" and {} retries", best->retries) : "");
  } else if (now.retries > 0 && best->retries == 0) {
    table.advice = fmt::format("{}: the run then needs none of its {} retries, with a reserved peak of {}.",
                               todo, now.retries, reserved(*best));
  } else if (saves) {
    table.advice =
        fmt::format("{}: the reserved peak falls from {} to {} ({:.1f} %), of which {} are allocated.", todo,
                    reserved(now), reserved(*best),
                    100.0 * static_cast<double>(saved) / static_cast<double>(now.peak_reserved),
                    format_gib(best->peak_allocated));
  } else {
    table.advice = fmt::format(
        "Keep the recorded settings: they reserve {} for {} allocated, and no setting tried saves 2 % and "
        "{}.",
        reserved(now), format_gib(now.peak_allocated), format_bytes(kWorthwhile));
    return;
  }
  table.export_conf = best->setting.conf;
  table.export_emptying = best->setting.empty_at_phase_ends;
}

}  // namespace headroom::replay
