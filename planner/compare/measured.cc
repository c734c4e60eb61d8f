#include "planner/compare/measured.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <limits>

namespace headroom::compare {
namespace {

std::string found(const Document* value) {
  if (value == nullptr) return "no such key";
  if (value->is_null()) return "null";
  if (value->is_list()) return "a list";
  if (value->is_map()) return "a map";
  return value->quoted() ? fmt::format("\"{}\"", value->text()) : value->text();
}

/// One of a recording's phases, its values checked as they are read.
struct RecordedRow {
  const Document& row;
  std::size_t index;  ///< recordings are often of one line, which tells no phase from another
  const std::string& file;

  auto bad(const char* expected, const char* key) const {
    const Document* value = row.find(key);
    return fail(Error{.message = fmt::format("expected {}, found {}", expected, found(value)),
                      .file = file,
                      .line = value != nullptr ? value->line() : row.line(),
                      .key = fmt::format("phases[{}].{}", index, key)});
  }

  Result<std::int64_t> whole(const char* key, const char* expected, std::int64_t least,
                             std::int64_t most = std::numeric_limits<std::int64_t>::max()) const {
    const Document* value = row.find(key);
    const std::optional<std::int64_t> number = value != nullptr ? value->as_int() : std::nullopt;
    if (!number || *number < least || *number > most) return bad(expected, key);
    return *number;
  }

  /// Nothing where there is no such key, or null.
  Result<std::optional<std::int64_t>> whole_if_any(const char* key, const char* expected) const {
    const Document* value = row.find(key);
    if (value == nullptr || value->is_null()) return std::nullopt;
    HEADROOM_ASSIGN(const std::int64_t number, whole(key, expected, 0));
    return number;
  }

  Result<std::string> name() const {
    const Document* value = row.find("phase");
    if (value == nullptr || !value->is_scalar() || value->text().empty())
      return bad("the name of a phase, such as train_actor", "phase");
    return value->text();
  }
};

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
  same->emptied = same->emptied || row.emptied;
  if (same->n_allocs && row.n_allocs) *same->n_allocs += *row.n_allocs;
  if (same->seconds && row.seconds) *same->seconds += *row.seconds;
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

Result<MeasuredPhase> phase_of(const RecordedRow& recorded) {
  constexpr const char* kBytes = "a number of bytes, 0 or more";
  if (!recorded.row.is_map())
    return fail(
        Error{.message = "expected a measured phase with step, phase, peak_alloc and peak_reserved, found " +
                         found(&recorded.row),
              .file = recorded.file,
              .line = recorded.row.line(),
              .key = fmt::format("phases[{}]", recorded.index)});
  MeasuredPhase out;
  HEADROOM_ASSIGN(const std::int64_t step,
                  recorded.whole("step", "the number of a step (0 for the first, -1 before it)", -1,
                                 std::numeric_limits<int>::max()));
  out.step = static_cast<int>(step);
  HEADROOM_ASSIGN(out.phase, recorded.name());
  HEADROOM_ASSIGN(out.peak_allocated, recorded.whole("peak_alloc", kBytes, 0));
  HEADROOM_ASSIGN(out.peak_reserved, recorded.whole("peak_reserved", kBytes, 0));
  if (const Document* seconds = recorded.row.find("seconds")) out.seconds = seconds->as_double();
  HEADROOM_ASSIGN(out.n_allocs, recorded.whole_if_any("n_allocs", "a number of allocations, 0 or more"));
  HEADROOM_ASSIGN(const std::optional<std::int64_t> depth,
                  recorded.whole_if_any("depth", "the number of phases around this one, 0 or more"));
  out.depth = static_cast<int>(std::min<std::int64_t>(depth.value_or(0), 16));
  out.emptied = recorded.row.find("reserved_after_empty") != nullptr;
  out.ended_out_of_memory = text(recorded.row, "error") == "OutOfMemoryError";
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
  if (const Document* job = recording.find("case")) {
    out.name = text(*job, "name");
    out.process = text(*job, "process");
  }
  if (out.name.empty()) out.name = std::filesystem::path(file).stem().string();
  bool nested = false;
  std::size_t index = 0;
  for (const Document& row : phases->items()) {
    HEADROOM_ASSIGN(MeasuredPhase phase, phase_of({row, index++, file}));
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
