#include "planner/compare/side.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "models/document/document.h"
#include "planner/compare/training_log.h"
#include "simulator/replay/byte_source.h"
#include "simulator/replay/snapshot_analysis.h"
#include "simulator/replay/snapshot_reader.h"
#include "simulator/replay/stream_file.h"
#include "simulator/replay/stream_snapshot.h"
#include "simulator/replay/text_file.h"

namespace headroom::compare {
namespace {

enum class Kind { other, snapshot, stream, recording, prediction };

constexpr ReadLimits kLimits{.bytes = 64 << 20, .nodes = 4'000'000, .depth = 100};

/// By a file's first bytes, then by the keys that its kind has.
Result<Kind> kind_of(const std::string& path) {
  HEADROOM_ASSIGN(replay::ByteSource source, replay::ByteSource::open(path));
  std::string head(1 << 16, '\0');
  HEADROOM_ASSIGN(const std::size_t n, source.read(head.data(), head.size()));
  head.resize(n);
  if (n > 0 && static_cast<unsigned char>(head[0]) == 0x80) return Kind::snapshot;
  const std::size_t start = head.find_first_not_of(" \t\r\n");
  if (start == std::string::npos || head[start] != '{') return Kind::other;
  const auto has = [&](std::string_view key) { return head.find(key) != std::string::npos; };
  if (has("\"headroom.report/")) return Kind::prediction;
  if (has("\"peak_alloc\"")) return Kind::recording;
  if (has("\"events\"")) return Kind::stream;
  // A long case may come before what was measured.
  const Result<std::string> text = read_text(path, kLimits.bytes);
  return text && is_recording(*text) ? Kind::recording : Kind::other;
}

Measured of_analysis(const replay::DeviceAnalysis& analysis) {
  Measured out;
  for (const replay::PhaseUse& phase : analysis.phases)
    out.phases.push_back({.step = 0,
                          .phase = phase.name,
                          .peak_allocated = phase.peak_allocated,
                          .peak_reserved = phase.peak_reserved,
                          .n_allocs = {}});
  return out;
}

Result<Measured> read_snapshot_side(const std::string& path) {
  HEADROOM_ASSIGN(const replay::Snapshot snapshot, replay::read_snapshot(path));
  std::size_t longest = 0;
  for (std::size_t i = 0; i < snapshot.traces.size(); ++i)
    if (snapshot.traces[i].second > snapshot.traces[longest].second) longest = i;
  if (snapshot.traces.empty())
    return fail(Error{.message = "expected a history of events, found none", .file = path, .key = {}});
  Result<replay::DeviceAnalysis> analysis = replay::analyse_device(snapshot, longest);
  if (!analysis) {
    analysis.error().file = path;
    return fail(std::move(analysis.error()));
  }
  return of_analysis(*analysis);
}

Result<Measured> read_stream_side(const std::string& path) {
  HEADROOM_ASSIGN(const std::string text, replay::read_text_file(path));
  HEADROOM_ASSIGN(const replay::AllocationStream stream, replay::parse_stream(text, path));
  HEADROOM_ASSIGN(const replay::Snapshot snapshot,
                  replay::snapshot_of(stream, {"as recorded", stream.settings, false, false, true}, std::nullopt));
  HEADROOM_ASSIGN(const replay::DeviceAnalysis analysis, replay::analyse_device(snapshot, 0));
  return of_analysis(analysis);
}

Result<Measured> read_prediction(const std::string& path) {
  HEADROOM_ASSIGN(const std::string text, read_text(path, kLimits.bytes));
  HEADROOM_ASSIGN(const Document document, parse_document(text, path, kLimits));
  Measured out;
  const Document* devices = document.find("devices");
  const Document* first = devices != nullptr && devices->is_list() && !devices->items().empty() ? &devices->items().front() : nullptr;
  const Document* phases = first == nullptr ? nullptr : first->find("phases");
  if (phases == nullptr || !phases->is_list()) return out;
  for (const Document& phase : phases->items()) {
    const Document* processes = phase.find("processes");
    if (processes == nullptr || !processes->is_list() || processes->items().empty()) continue;
    const Document& process = processes->items().front();
    const auto number = [](const Document& of, std::string_view key) {
      const Document* found = of.find(key);
      return found == nullptr ? std::nullopt : found->as_int();
    };
    const Document* name = phase.find("phase");
    const auto step = number(phase, "step"), allocated = number(process, "peak_allocated"),
               reserved = number(process, "peak_reserved");
    if (name == nullptr || !step || !allocated || !reserved)
      return fail(Error{.message = "expected a predicted phase with step, phase, and its process's peak_allocated and "
                                   "peak_reserved",
                        .file = path,
                        .line = phase.line(),
                        .key = "devices[0].phases"});
    out.phases.push_back({.step = static_cast<int>(*step),
                          .phase = name->text(),
                          .peak_allocated = *allocated,
                          .peak_reserved = *reserved,
                          .n_allocs = {}});
  }
  return out;
}

Result<Measured> read_kind(Kind kind, const std::string& path) {
  switch (kind) {
    case Kind::snapshot:
      return read_snapshot_side(path);
    case Kind::stream:
      return read_stream_side(path);
    case Kind::prediction:
      return read_prediction(path);
    default:
      return read_measured(path);
  }
}

/// A phase by its name and the number of those of that name before it.
using Occurrence = std::pair<std::string, int>;

std::vector<Occurrence> occurrences(const Measured& run) {
  std::map<std::string, int> counts;
  std::vector<Occurrence> out;
  for (const MeasuredPhase& phase : run.phases) out.emplace_back(phase.phase, counts[phase.phase]++);
  return out;
}

}  // namespace

Result<std::optional<Held>> side_in(const std::string& path) {
  if (path == "-" || path == "--") return std::optional<Held>{};
  HEADROOM_ASSIGN(const Kind kind, kind_of(path));
  if (kind == Kind::other) return std::optional<Held>{};
  Result<Measured> run = read_kind(kind, path);
  if (!run) {
    if (run.error().file.empty()) run.error().file = path;
    return fail(std::move(run.error()));
  }
  if (run->phases.empty() && kind == Kind::recording)
    return fail(Error{.message = "expected measured phases, found none", .file = path, .key = "phases"});
  if (run->phases.empty())
    return fail(Error{.message = "expected phases, found none; a snapshot has those that the program annotated "
                                 "(torch.profiler.record_function)",
                      .file = path,
                      .key = {}});
  return std::optional(Held{std::move(*run), kind == Kind::recording});
}

Measured side_of(const Report& report) {
  Measured out;
  out.name = report.file.empty() ? report.title : report.file;
  if (report.devices.empty()) return out;
  for (const PhaseReport& phase : report.devices.front().phases) {
    if (phase.processes.empty()) continue;
    const ProcessPhase& process = phase.processes.front();
    out.phases.push_back({.step = phase.step,
                          .phase = phase.phase,
                          .peak_allocated = process.peak_allocated,
                          .peak_reserved = process.peak_reserved,
                          .n_allocs = {}});
  }
  return out;
}

std::vector<Row> compare(const Measured& first, const Measured& second) {
  const std::vector<Occurrence> before = occurrences(first), after = occurrences(second);
  std::vector<Row> out;
  for (std::size_t i = 0; i < after.size(); ++i) {
    Row& row = out.emplace_back();
    row.name = second.name;
    row.measured = second.phases[i];
    row.measured.step = after[i].second;
    const auto found = std::find(before.begin(), before.end(), after[i]);
    if (found == before.end()) continue;
    const MeasuredPhase& other = first.phases[static_cast<std::size_t>(found - before.begin())];
    row.predicted = true;
    row.peak_allocated = other.peak_allocated;
    row.peak_reserved = other.peak_reserved;
  }
  return out;
}

}  // namespace headroom::compare
