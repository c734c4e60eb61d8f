#include "planner/cli/replay_snapshot.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "planner/cli/output.h"
#include "planner/writers/html/html.h"
#include "planner/writers/html/timeline.h"
#include "simulator/allocator/simulated_settings.h"
#include "simulator/replay/byte_source.h"
#include "simulator/replay/snapshot_reader.h"
#include "simulator/replay/snapshot_writer.h"
#include "simulator/replay/stream_file.h"
#include "simulator/replay/stream_snapshot.h"
#include "simulator/replay/text_file.h"

namespace headroom::cli {
namespace {

/// What a file holds, by its first bytes; what can be neither is not read on. Errors: as parse_stream's.
Result<bool> is_pickle(const std::string& path) {
  std::error_code error;
  if (path == "-" || std::filesystem::is_fifo(path, error))
    return fail(
        Error{.message = "expected a file, which is read twice, found a stream; write it to one first",
              .file = path,
              .key = {}});
  HEADROOM_ASSIGN(replay::ByteSource source, replay::ByteSource::open(path));
  std::string head(4096, '\0');
  HEADROOM_ASSIGN(const std::size_t n, source.read(head.data(), head.size()));
  head.resize(n);
  if (n > 0 && (static_cast<unsigned char>(head[0]) == 0x80 || head[0] == 'P')) return true;
  const std::size_t start = head.find_first_not_of(" \t\r\n");
  if (start != std::string::npos && head[start] == '{') return false;
  return fail(replay::parse_stream(head, path).error());
}

/// One line on a terminal that says how much has been read; nothing elsewhere.
class Progress {
 public:
  Progress(const Arguments& arguments, Streams& streams)
      : shown_(!arguments.common.quiet && &streams.err == &std::cerr && isatty(STDERR_FILENO) != 0),
        err_(streams.err) {}
  ~Progress() {
    if (percent_ >= 0) err_ << "\r\033[K" << std::flush;
  }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void operator()(double share) {
    const int percent = static_cast<int>(share * 100);
    if (!shown_ || share < 0 || percent == percent_) return;
    percent_ = percent;
    err_ << fmt::format("\rreading {:3} % [{:<40}]", percent,
                        std::string(static_cast<std::size_t>(percent) * 2 / 5, '#'))
         << std::flush;
  }

 private:
  bool shown_;
  std::ostream& err_;
  int percent_ = -1;
};

Result<std::optional<Bytes>> limit_of(const Arguments& arguments) {
  constexpr Bytes kMost = Bytes{1} << 50;
  HEADROOM_ASSIGN(const std::optional<Bytes> limit, arguments.bytes("--limit"));
  if (limit && (*limit <= 0 || *limit > kMost))
    return fail(Error{.message = fmt::format("expected more than nothing and at most 1024 TiB, found '{}'",
                                             arguments.text("--limit")),
                      .file = {},
                      .key = "--limit"});
  return limit;
}

std::vector<replay::WhatIfSetting> settings_of(const Arguments& arguments) {
  const auto given = arguments.all("--setting");
  std::vector<replay::WhatIfSetting> settings;
  for (const std::string& conf : given)
    settings.push_back({conf.empty() ? "default" : conf, conf, false, false});
  if (!settings.empty()) return settings;
  const auto table = replay::default_what_if_settings();
  return {table.begin(), table.end()};
}

/// Told before a large file is read.
Status expect_settings(const Arguments& arguments) {
  for (const std::string& conf : arguments.all("--setting"))
    if (const auto settings = allocator::parse_simulated_settings(conf); !settings) {
      const Error& error = settings.error();
      return fail(Error{.message = fmt::format("{}{}{}", error.key, error.key.empty() ? "" : ": ", error.message),
                        .file = {},
                        .key = "--setting"});
    }
  return {};
}

/// What a run that ran out of memory could have had at most; nothing of another run.
std::optional<Bytes> own_limit(const replay::DeviceAnalysis& analysis) {
  constexpr Bytes kMost = Bytes{1} << 44;
  std::optional<Bytes> most;
  for (const replay::OomEvent& oom : analysis.ooms)
    if (const Bytes had = oom.reserved + oom.device_free; had > 0 && had < kMost)
      most = std::max(most.value_or(0), had);
  return most;
}

/// The table for one stream, or nothing with --no-what-if.
Status add_what_if(const replay::AllocationStream& stream, const Arguments& arguments,
                   ReplayedDevice& device) {
  if (arguments.has("--no-what-if") || stream.allocations == 0) return {};
  HEADROOM_ASSIGN(auto limit, limit_of(arguments));
  device.notes = stream.notes;
  if (const auto own = limit ? std::nullopt : own_limit(device.analysis)) {
    limit = own;
    device.notes.push_back(
        fmt::format("the run ran out of memory: the limit is what the process held and the device had free then, "
                    "{} (--limit sets another)",
                    format_gib(*own)));
  }
  HEADROOM_ASSIGN(device.what_if, replay::what_if(stream, settings_of(arguments), limit));
  return {};
}

Result<Replayed> replay_pickle(const std::string& path, const Arguments& arguments, Streams& streams,
                               std::vector<replay::AllocationStream>& kept) {
  Replayed replayed{.file = path, .kind = "snapshot", .conf = {}, .snapshot = {}, .devices = {}};
  {
    Progress progress(arguments, streams);
    HEADROOM_ASSIGN(replay::ByteSource source, replay::ByteSource::open(path));
    HEADROOM_ASSIGN(replayed.snapshot, replay::read_snapshot(source, {}, std::ref(progress)));
  }
  const replay::Snapshot& snapshot = replayed.snapshot;
  replayed.conf = snapshot.settings.conf;
  HEADROOM_ASSIGN(const auto only, arguments.integer("--device", 0, 1023));
  for (std::size_t device = 0; device < snapshot.traces.size(); ++device) {
    const bool used = snapshot.traces[device].second > 0 ||
                      std::ranges::any_of(snapshot.segments, [&](const replay::SnapshotSegment& segment) {
                        return segment.device == static_cast<std::int64_t>(device);
                      });
    if (only ? static_cast<std::int64_t>(device) != *only : !used) continue;
    ReplayedDevice found;
    auto analysis = replay::analyse_device(snapshot, device);
    if (!analysis) {
      Error error = analysis.error();
      error.file = path;
      error.key = fmt::format("device {}{}{}", device, error.key.empty() ? "" : ": ", error.key);
      return fail(std::move(error));
    }
    found.analysis = std::move(*analysis);
    if (!arguments.has("--no-what-if") || arguments.has("--events")) {
      replay::AllocationStream stream = replay::stream_of(snapshot, found.analysis.history);
      HEADROOM_TRY(add_what_if(stream, arguments, found));
      if (arguments.has("--events")) kept.push_back(std::move(stream));
    }
    replayed.devices.push_back(std::move(found));
  }
  if (replayed.devices.empty())
    return fail(Error{
        .message = only ? fmt::format("device {} is not in the file", *only) : "no device used any memory",
        .file = path,
        .key = {}});
  return replayed;
}

/// A stream is run as it was recorded; then it is analysed like a snapshot of that run.
Result<Replayed> replay_stream(const std::string& path, const Arguments& arguments,
                               std::vector<replay::AllocationStream>& kept) {
  HEADROOM_ASSIGN(const std::string text, replay::read_text_file(path));
  if (text.find("\"segment_events\":") != std::string::npos)
    return fail(Error{.message = "it holds recordings of the allocator: add --verify or --predict",
                      .file = path,
                      .key = {}});
  HEADROOM_ASSIGN(replay::AllocationStream stream, replay::parse_stream(text, path));
  const std::size_t events = stream.events.size();
  Replayed replayed{.file = path, .kind = "stream", .conf = stream.settings, .snapshot = {}, .devices = {}};
  const replay::WhatIfSetting recorded{"as recorded", stream.settings, false, false, true};
  HEADROOM_ASSIGN(replayed.snapshot, replay::snapshot_of(stream, recorded, std::nullopt));
  ReplayedDevice device;
  HEADROOM_ASSIGN(device.analysis, replay::analyse_device(replayed.snapshot, 0));
  if (device.analysis.history.count == 0)
    device.analysis.history.missing = {fmt::format("none of the stream's {} events takes memory", events)};
  HEADROOM_TRY(add_what_if(stream, arguments, device));
  replayed.devices.push_back(std::move(device));
  kept.push_back(std::move(stream));
  return replayed;
}

Status write_events(const std::string& path, const Replayed& replayed,
                    const std::vector<replay::AllocationStream>& kept, Streams& streams) {
  if (kept.size() != 1)
    return fail(Error{.message = fmt::format(
                          "--events writes one device; the file has {}: choose one with --device", kept.size()),
                      .file = replayed.file,
                      .key = {}});
  return write_output(path, replay::stream_text(kept.front()), streams);
}

/// A page's parts: one a device, with its allocations.
std::string pages(const Replayed& replayed) {
  std::string out;
  for (const ReplayedDevice& device : replayed.devices) {
    const replay::DeviceAnalysis& a = device.analysis;
    const nlohmann::ordered_json head = {
        {"title", fmt::format("{}, device {}", replayed.file, a.history.device)},
        {"fits", a.ooms.empty()},
        {"verdict", fmt::format("at most {} allocated and {} reserved; ran out of memory {} times",
                                format_gib(a.peak_allocated.allocated), format_gib(a.peak_reserved.reserved),
                                a.ooms.size())},
        {"warnings", nlohmann::ordered_json::array()},
        {"assumptions", a.history.missing},
        {"devices", nlohmann::ordered_json::array()}};
    std::string json = head.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
    json.pop_back();
    out += (out.empty() ? "" : ",") + json + ",\"timeline\":" +
           writers::timeline_json(replayed.snapshot, a, fmt::format("device {}", a.history.device)) + "}";
  }
  return out;
}

Written write_files(const Replayed& replayed, const std::vector<replay::AllocationStream>& kept,
                    const Arguments& arguments, Streams& streams) {
  Written written;
  if (arguments.common.json)
    written.add(write_output(*arguments.common.json, replay_json(replayed), streams));
  if (const auto path = arguments.find("--html"))
    written.add(write_output(*path, writers::html_page(pages(replayed)), streams));
  if (const auto path = arguments.find("--pickle"))
    written.add(write_output(*path, replay::snapshot_pickle(replayed.snapshot), streams));
  if (const auto path = arguments.find("--events"))
    written.add(write_events(*path, replayed, kept, streams));
  return written;
}

}  // namespace

std::vector<Option> replay_snapshot_options() {
  return {
      {"--limit", "SIZE", "device memory that the process may hold, for what-if (default: no limit)"},
      {"--setting", "CONF", "try this PYTORCH_CUDA_ALLOC_CONF instead of the built-in table", false, true},
      {"--no-what-if", "", "analyse only"},
      {"--device", "N", "this device of a snapshot (default: all)"},
      {"--top", "N", "rows of each list (default: 10)"},
      output_file("--pickle", "write the snapshot, or that of the stream's run, for PyTorch's memory_viz"),
      output_file("--events", "write the allocation stream"),
      output_file("--html", "one self-contained page of every allocation")};
}

int replay_snapshot(const std::string& path, const Arguments& arguments, Streams& streams) {
  HEADROOM_CLI_TRY(expect_settings(arguments), streams);
  HEADROOM_CLI_ASSIGN(const std::optional<std::int64_t> top, arguments.integer("--top", 1, 1000), streams);
  HEADROOM_CLI_ASSIGN(const bool pickle, is_pickle(path), streams);
  std::vector<replay::AllocationStream> kept;
  HEADROOM_CLI_ASSIGN(
      const Replayed replayed,
      pickle ? replay_pickle(path, arguments, streams, kept) : replay_stream(path, arguments, kept), streams);
  const auto to_standard_output = [&](const std::optional<std::string>& file) { return file == "-"; };
  const bool taken = to_standard_output(arguments.common.json) ||
                     to_standard_output(arguments.find("--html")) ||
                     to_standard_output(arguments.find("--pickle")) ||
                     to_standard_output(arguments.find("--events"));
  const Written written = write_files(replayed, kept, arguments, streams);
  if (!taken && arguments.common.quiet) streams.out << replay_verdicts(replayed);
  if (!taken && !arguments.common.quiet) streams.out << replay_text(replayed, static_cast<std::size_t>(top.value_or(10)));
  for (const ReplayedDevice& device : replayed.devices)
    if (arguments.has("--limit") && device.what_if && device.what_if->limit && device.what_if->baseline.out_of_memory)
      return written.finish(kOver, streams);
  return written.finish(kDone, streams);
}

}  // namespace headroom::cli
