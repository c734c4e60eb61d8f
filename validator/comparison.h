#pragma once

#include <optional>
#include <string>
#include <vector>

#include "models/document/document.h"
#include "simulator/report/report.h"
#include "validator/probe.h"

namespace headroom::gpu {

/// Whether a process of `report` ran out of memory.
bool ran_out(const Report& report);

/// What a recording of a real PyTorch run says about one phase.
struct RecordedPhase {
  int step = 0;
  std::string phase;
  Bytes allocated = 0, reserved = 0;  ///< peaks
};

/// The phases of a recorded run: a list `phases` of maps with `step`, `phase`, `peak_alloc`, `peak_reserved`.
/// Empty when the document has none.
std::vector<RecordedPhase> recorded_phases(const Document& document);

/// Predicted, probe and PyTorch side by side, one phase of one step. Peaks, in bytes.
struct ValidationRow {
  /// What the allocator counts beside its two peaks.
  struct Counters {
    Bytes active = 0, inactive_split = 0;
    std::int64_t segments = 0, retries = 0, allocations = 0;
  };
  int step = 0;
  std::string phase;
  Counters predicted_counters, probe_counters;
  double predicted_seconds = 0;
  Bytes predicted_allocated = 0, predicted_reserved = 0;
  Bytes probe_allocated = 0, probe_reserved = 0;
  std::optional<Bytes> pytorch_allocated, pytorch_reserved;
  /// Of all processes, with what the probe's own took outside its allocator before the first tensor and, of
  /// several ranks, what NCCL is predicted to take after that (buffers of sends and receives).
  Bytes predicted_device = 0;
  Bytes probe_device = 0;  ///< measured: the whole card without what others used before
  PhaseMeasurement measured;
  /// Device: the probe against the prediction. Reserved: PyTorch against the prediction. Relative, signed.
  double probe_error() const;
  std::optional<double> pytorch_error() const;
};

struct ErrorSummary {
  std::size_t phases = 0;
  double mean = 0, worst = 0;  ///< of absolute relative errors
};

/// What one of several ranks found.
struct RankSummary {
  int rank = 0;
  Bytes highest = 0;  ///< device use
  ErrorSummary errors;
  std::optional<std::string> out_of_memory;
};

struct Validation {
  std::string title;
  Probe probe;
  std::vector<RankSummary> ranks;  ///< of several, all
  std::vector<ValidationRow> rows;
  std::vector<std::string> unmatched;        ///< phases that are measured but not predicted
  std::vector<std::string> unmeasured;       ///< phases that are predicted but not measured
  std::optional<std::string> out_of_memory;  ///< the phase and the allocator's message
  std::vector<std::string> notes;
  ErrorSummary probe_errors() const;
  ErrorSummary pytorch_errors() const;
  RankSummary summary() const;
  /// Whether any rank ran out of memory.
  bool ran_out() const;
  /// What is not within `margin` of the probe: phases, phases of one side only, other ranks. Empty: all is.
  std::vector<std::string> beyond(double margin) const;
};

/// A summary as a line of text for other ranks, and back; errors: it is none.
std::string to_text(const RankSummary& summary);
Result<RankSummary> rank_summary(const std::string& text);

/// What the whole says in one line: "within 3 % in every phase", or where it is not.
std::string verdict(const Validation& validation, double margin);

/// Rows by step and phase, of the training process. In phases of other processes alone its allocator's
/// figures are 0. An out-of-memory on one side only leaves its later phases unmatched.
Validation compare(const Report& predicted, Probe probe, const std::vector<RecordedPhase>& recorded);

/// Predicted seconds from a report of the work that the probe ran, by its host (probe_seconds.h).
void time_by(const Report& work, Validation& validation);

std::string validation_table(const Validation& validation, double margin);
/// `headroom.validation/1`; bytes as integers.
std::string validation_json(const Validation& validation, double margin);

}  // namespace headroom::gpu
