#include "simulator/replay/recording.h"

#include <fmt/format.h>

#include <array>
#include <limits>
#include <nlohmann/json.hpp>

#include "simulator/replay/text_file.h"

namespace headroom::replay {
namespace {

using Json = nlohmann::json;
using Kind = RecordedEvent::Kind;
using Action = RecordedSegmentEvent::Action;

constexpr std::array<std::string_view, 5> kActions = {"segment_alloc", "segment_free", "segment_map",
                                                      "segment_unmap", "oom"};
constexpr std::int64_t kStreams = 1024;
constexpr Bytes kAddresses = Bytes{1} << 53;

// Where in a file something is, for errors.
struct Place {
  const std::string& file;
  int line;

  tl::unexpected<Error> bad(std::string key, std::string message) const {
    return fail(Error{.message = std::move(message), .file = file, .line = line, .key = std::move(key)});
  }
};

bool integers(const Json& row, std::size_t from, std::size_t to) {
  if (!row.is_array() || row.size() < to) return false;
  for (std::size_t i = from; i < to; ++i) {
    if (!row[i].is_number_integer()) return false;
    if (row[i].is_number_unsigned() && row[i].get<std::uint64_t>() > std::numeric_limits<std::int64_t>::max())
      return false;
  }
  return true;
}

std::optional<RecordedEvent> read_event(const Json& row) {
  if (!row.is_array() || row.empty() || !row[0].is_string()) return std::nullopt;
  const auto& what = row[0].get_ref<const std::string&>();
  const auto number = [&](std::size_t i) { return row[i].get<std::int64_t>(); };
  const auto stream = [&](std::size_t i) { return static_cast<allocator::Stream>(number(i)); };
  const auto is_stream = [&](std::size_t i) { return number(i) >= 0 && number(i) < kStreams; };
  if (what == "a" && row.size() == 4 && integers(row, 1, 4) && is_stream(3))
    return RecordedEvent{.kind = Kind::allocate, .id = number(1), .bytes = number(2), .stream = stream(3)};
  if (what == "f" && row.size() == 2 && integers(row, 1, 2))
    return RecordedEvent{.kind = Kind::free, .id = number(1)};
  if (what == "r" && row.size() == 3 && integers(row, 1, 3) && is_stream(2))
    return RecordedEvent{.kind = Kind::record_stream, .id = number(1), .stream = stream(2)};
  if (what == "s" && row.size() == 1) return RecordedEvent{.kind = Kind::synchronize};
  if (what == "e" && row.size() == 1) return RecordedEvent{.kind = Kind::empty_cache};
  return std::nullopt;
}

std::optional<RecordedRow> read_row(const Json& row, bool allocation) {
  const std::size_t size = allocation ? 6 : 4;
  if (!integers(row, 0, size) || row.size() != size) return std::nullopt;
  const auto number = [&](std::size_t i) { return row[i].get<std::int64_t>(); };
  RecordedRow out{
      .allocated = number(0), .reserved = number(1), .active = number(2), .inactive_split = number(3)};
  if (allocation) {
    out.segment = number(4);
    out.offset = number(5);
  }
  return out;
}

std::optional<RecordedSegmentEvent> read_segment_event(const Json& row) {
  if (!integers(row, 1, 3) || row.size() > 4 || !row[0].is_string()) return std::nullopt;
  if (row.size() == 4 && !integers(row, 3, 4)) return std::nullopt;
  const auto action = std::find(kActions.begin(), kActions.end(), row[0].get_ref<const std::string&>());
  const auto other = row[2].get<std::int64_t>();
  if (action == kActions.end() || (other != 0 && other != 1)) return std::nullopt;
  RecordedSegmentEvent event{.action = static_cast<Action>(action - kActions.begin()),
                             .bytes = row[1].get<std::int64_t>(),
                             .other_stream = other == 1};
  if (row.size() == 4) event.address = row[3].get<std::int64_t>();
  return event;
}

Status read_header(const Json& json, const Place& at, Recording& out) {
  for (const char* key : {"case", "kind", "settings"})
    if (!json.contains(key) || !json[key].is_string()) return at.bad(key, "expected a string");
  for (const char* key : {"seed", "total_memory"})
    if (!json.contains(key) || !json[key].is_number_integer()) return at.bad(key, "expected a whole number");
  if (!json.contains("fraction") || !json["fraction"].is_number())
    return at.bad("fraction", "expected a number");
  out.name = fmt::format("{} {}/{}", json["case"].get<std::string>(), json["kind"].get<std::string>(),
                         json["seed"].get<std::int64_t>());
  out.settings = json["settings"].get<std::string>();
  out.fraction = json["fraction"].get<double>();
  out.total_memory = json["total_memory"].get<std::int64_t>();
  if (out.fraction < 0 || out.fraction > 1) return at.bad("fraction", "expected a number from 0 to 1");
  if (out.total_memory <= 0 || out.total_memory > (Bytes{1} << 45))
    return at.bad("total_memory", "expected the device's bytes, at most 32 TiB");
  for (const char* key : {"events", "results", "segment_events"})
    if (!json.contains(key) || !json[key].is_array()) return at.bad(key, "expected a list");
  if (!json.contains("final") || !json["final"].is_object()) return at.bad("final", "expected a map");
  return {};
}

Result<Recording> read_recording(const Json& json, const Place& at) {
  Recording out;
  out.line = at.line;
  if (!json.is_object()) return at.bad("", "expected a recording as one JSON object");
  if (!json.contains("results"))
    return at.bad("results", "expected what the allocator did on a stream; found a stream alone");
  HEADROOM_TRY(read_header(json, at, out));
  const std::size_t events = json["events"].size(), rows = json["results"].size();
  if (rows != events)
    out.contradiction =
        fmt::format("results: expected one row for each of {} events, found {}", events, rows);
  for (std::size_t i = 0; i < std::min(events, rows); ++i) {
    const auto event = read_event(json["events"][i]);
    if (!event)
      return at.bad(fmt::format("events.{}", i),
                    "expected [a,id,bytes,stream], [f,id], [r,id,stream], [s] or [e]");
    const auto row = read_row(json["results"][i], event->kind == Kind::allocate);
    if (!row)
      return at.bad(fmt::format("results.{}", i),
                    "expected four counters, and segment and offset of an allocation");
    out.events.push_back(*event);
    out.rows.push_back(*row);
  }
  std::optional<Bytes> lowest;
  for (std::size_t i = 0; i < json["segment_events"].size(); ++i) {
    const auto event = read_segment_event(json["segment_events"][i]);
    if (!event)
      return at.bad(fmt::format("segment_events.{}", i),
                    "expected [action, bytes, 0 or 1] and perhaps an address");
    const bool placed = event->address && event->action != Action::oom;
    if (event->address && (*event->address < 0 || *event->address > kAddresses))
      out.contradiction =
          fmt::format("segment event {}: expected an address from 0 to 2^53, found {}", i, *event->address);
    if (!placed && event->address.value_or(0) != 0)
      out.contradiction =
          fmt::format("segment event {}: expected an oom without address, found {}", i, *event->address);
    if (placed) lowest = std::min(*event->address, lowest.value_or(*event->address));
    out.segment_events.push_back(*event);
  }
  if (out.contradiction.empty() && lowest.value_or(0) != 0)
    out.contradiction = fmt::format("segment events: expected addresses above the lowest, found {}", *lowest);
  for (const auto& [key, value] : json["final"].items()) {
    if (!value.is_number_integer()) return at.bad("final." + key, "expected a whole number");
    out.final.emplace_back(key, value.get<std::int64_t>());
  }
  return out;
}

}  // namespace

std::string_view name(Action action) {
  return kActions[static_cast<std::size_t>(action)];
}

Result<std::vector<Recording>> read_recordings(const std::string& path) {
  HEADROOM_ASSIGN(const std::string text, read_text_file(path));
  return parse_recordings(text, path);
}

Result<std::vector<Recording>> parse_recordings(std::string_view text, const std::string& file) {
  std::vector<Recording> out;
  Place at{.file = file, .line = 0};
  while (!text.empty()) {
    ++at.line;
    const std::size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const Json json = Json::parse(line, nullptr, false);
    if (json.is_discarded()) {
      const bool pickle = line.front() == '\x80';
      return at.bad("", fmt::format("expected recordings of the allocator, one JSON object a line{}",
                                    pickle ? "; found a pickle, as memory snapshots are" : ""));
    }
    HEADROOM_ASSIGN(Recording recording, read_recording(json, at));
    out.push_back(std::move(recording));
  }
  if (out.empty()) return Place{file, 0}.bad("", "expected at least one recording, found none");
  return out;
}

}  // namespace headroom::replay
