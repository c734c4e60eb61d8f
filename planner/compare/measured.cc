#include "planner/compare/measured.h"

#include <algorithm>
#include <filesystem>
#include <map>

namespace headroom::compare {
namespace {

Result<std::int64_t> whole(const Document& row, const char* key, const std::string& file) {
  const Document* value = row.find(key);
  const std::optional<std::int64_t> number = value != nullptr ? value->as_int() : std::nullopt;
  if (!number)
    return fail(Error{.message = "expected a number of bytes in every phase, found none",
                      .file = file,
                      .line = value != nullptr ? value->line() : row.line(),
                      .key = std::string("phases.") + key});
  return *number;
}

std::string text(const Document& row, const char* key) {
  const Document* value = row.find(key);
  return value != nullptr && value->is_scalar() ? value->text() : std::string();
}

/// Calls that a trainer's wrapper records inside one update.
bool is_update(const std::string& phase) {
  return phase == "train_step" || phase == "backward" || phase == "optimizer_step";
}

bool names(const std::vector<MeasuredPhase>& rows, const std::string& phase) {
  return std::any_of(rows.begin(), rows.end(), [&](const MeasuredPhase& row) { return row.phase == phase; });
}

/// Nested rows to the phases of predictions, by step in order of appearance. Where the update's forward has a
/// row of its own, so have its other calls.
std::vector<MeasuredPhase> flatten(const std::vector<MeasuredPhase>& rows) {
  const bool by_call = names(rows, "forward_policy_value");
  std::vector<MeasuredPhase> out;
  const auto merge = [&](MeasuredPhase row, std::string name) {
    row.phase = std::move(name);
    row.n_allocs.reset();
    const auto same = std::find_if(out.begin(), out.end(), [&](const MeasuredPhase& other) {
      return other.step == row.step && other.phase == row.phase;
    });
    if (same == out.end()) {
      out.push_back(std::move(row));
      return;
    }
    same->peak_allocated = std::max(same->peak_allocated, row.peak_allocated);
    same->peak_reserved = std::max(same->peak_reserved, row.peak_reserved);
  };
  for (const MeasuredPhase& row : rows) {
    if (by_call) {
      if (row.step >= 0 || row.phase == "init") merge(row, row.phase);
      continue;
    }
    if (is_update(row.phase)) merge(row, "train_actor");
    if (row.phase == "generate" || row.phase == "ref_logprob") merge(row, row.phase);
  }
  return out;
}

}  // namespace

Result<Measured> measured_of(const Document& recording, const std::string& file) {
  const Document* phases = recording.find("phases");
  if (phases == nullptr || !phases->is_list())
    return fail(Error{.message = "expected a list of measured phases",
                      .file = file,
                      .line = recording.line(),
                      .key = "phases"});
  Measured out;
  if (const Document* job = recording.find("case")) out.name = text(*job, "name");
  if (out.name.empty()) out.name = std::filesystem::path(file).stem().string();
  bool nested = false;
  for (const Document& row : phases->items()) {
    MeasuredPhase phase;
    HEADROOM_ASSIGN(const std::int64_t step, whole(row, "step", file));
    phase.step = static_cast<int>(step);
    phase.phase = text(row, "phase");
    HEADROOM_ASSIGN(phase.peak_allocated, whole(row, "peak_alloc", file));
    HEADROOM_ASSIGN(phase.peak_reserved, whole(row, "peak_reserved", file));
    if (const Document* count = row.find("n_allocs")) phase.n_allocs = count->as_int();
    phase.ended_out_of_memory = text(row, "error") == "OutOfMemoryError";
    nested = nested || (row.find("depth") != nullptr && is_update(phase.phase));
    out.phases.push_back(std::move(phase));
  }
  if (nested) out.phases = flatten(out.phases);
  return out;
}

Result<Measured> read_measured(const std::string& path) {
  HEADROOM_ASSIGN(const Document document, read_document(path));
  return measured_of(document, path);
}

}  // namespace headroom::compare
