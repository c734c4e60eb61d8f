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

MeasuredPhase* find(std::vector<MeasuredPhase>& rows, int step, const std::string& phase) {
  const auto same = std::find_if(rows.begin(), rows.end(), [&](const MeasuredPhase& row) {
    return row.step == step && row.phase == phase;
  });
  return same == rows.end() ? nullptr : &*same;
}

/// `row` into the one of its step and name in `out`, or after all.
void merge(MeasuredPhase row, std::vector<MeasuredPhase>& out) {
  MeasuredPhase* same = find(out, row.step, row.phase);
  if (same == nullptr) {
    out.push_back(std::move(row));
    return;
  }
  same->peak_allocated = std::max(same->peak_allocated, row.peak_allocated);
  same->peak_reserved = std::max(same->peak_reserved, row.peak_reserved);
  if (same->n_allocs && row.n_allocs) *same->n_allocs += *row.n_allocs;
}

/// Calls of one name in a step to one row; after a step's rows the update as a whole, unless its forward has
/// a row of its own, as TRL's PPO.
std::vector<MeasuredPhase> by_step(const std::vector<MeasuredPhase>& rows) {
  const bool with_update = !names(rows, "forward_policy_value");
  std::vector<MeasuredPhase> out, updates;
  const auto end_step = [&] {
    for (MeasuredPhase& update : updates) out.push_back(std::move(update));
    updates.clear();
  };
  for (MeasuredPhase row : rows) {
    if (!out.empty() && out.back().step != row.step) end_step();
    if (row.phase == "train_all") row.n_allocs.reset();  // some are between the rows
    if (with_update && is_update(row.phase)) {
      MeasuredPhase update = row;
      update.phase = "train_actor";
      update.depth = 0;
      update.n_allocs.reset();
      merge(std::move(update), updates);
    }
    merge(std::move(row), out);
  }
  end_step();
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
    if (const Document* depth = row.find("depth"))
      phase.depth = static_cast<int>(std::clamp<std::int64_t>(depth->as_int().value_or(0), 0, 16));
    phase.ended_out_of_memory = text(row, "error") == "OutOfMemoryError";
    nested = nested || (row.find("depth") != nullptr && is_update(phase.phase));
    out.phases.push_back(std::move(phase));
  }
  if (nested) out.phases = by_step(out.phases);
  return out;
}

Result<Measured> read_measured(const std::string& path) {
  HEADROOM_ASSIGN(const Document document, read_document(path));
  return measured_of(document, path);
}

}  // namespace headroom::compare
