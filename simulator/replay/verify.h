#pragma once

#include <string>
#include <vector>

#include "simulator/replay/recording.h"

namespace headroom::replay {

/// How a recording is held against the simulated allocator.
enum class Comparison {
  /// What the program text does not decide comes from the recording: segment addresses where recorded, else
  /// the
  /// choice among equal free blocks of different segments (only if legal and free of contradictions), and the
  /// order of streams. Everything else is computed.
  verify,
  /// Nothing comes from the recording but the events, the settings and the limit; the driver model places
  /// segments. Only the order of raw stream handles and event queues, heap addresses and hash values in the
  /// recorded process, may be either one.
  predict,
};

/// One case, compared event by event: four counters after each, the place of each allocation, every segment
/// event and the final statistics.
struct CaseResult {
  std::string name;
  bool matched = false;
  std::string difference;          ///< the first one; empty when matched
  std::size_t events = 0;          ///< of the recording
  std::size_t events_matched = 0;  ///< before the first difference
};

/// Replays one recording. Never an error: what makes replay impossible (unknown settings, a tensor freed
/// twice) is a difference too.
CaseResult compare(const Recording& recording, Comparison comparison);

std::vector<CaseResult> compare(const std::vector<Recording>& recordings, Comparison comparison);

}  // namespace headroom::replay
