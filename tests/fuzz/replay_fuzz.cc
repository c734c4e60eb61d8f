// Feeds `headroom replay` hostile files: pickles to the snapshot reader, JSON to the stream reader. Whatever
// is read must survive everything that replay does with it, and be read back as it was written.
//   tests/fuzz/run.sh replay_fuzz 600

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "simulator/replay/snapshot_analysis.h"
#include "simulator/replay/snapshot_reader.h"
#include "simulator/replay/snapshot_writer.h"
#include "simulator/replay/stream_file.h"
#include "simulator/replay/stream_snapshot.h"

namespace headroom::replay {
namespace {

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}

Result<Snapshot> read(std::string_view bytes) {
  ByteSource source = ByteSource::memory(bytes);
  PickleLimits limits;
  limits.memory = std::size_t{1} << 20;
  return read_snapshot(source, limits);
}

void run(const AllocationStream& stream) {
  const Result<WhatIfOutcome> outcome = run_setting(stream, {"fuzz", stream.settings, true, false}, 8 * kGiB);
  if (!outcome) return;
  require(outcome->peak_allocated <= outcome->peak_reserved, "more allocated than reserved");
  require(outcome->peak_reserved <= 8 * kGiB, "more reserved than the limit");
}

void try_pickle(std::string_view bytes) {
  const Result<Snapshot> snapshot = read(bytes);
  if (!snapshot) return require(!snapshot.error().message.empty(), "an error without a message");
  for (std::size_t device = 0; device < snapshot->traces.size(); ++device) {
    const Result<DeviceAnalysis> analysis = analyse_device(*snapshot, device);
    if (!analysis) continue;
    const AllocationStream stream = stream_of(*snapshot, analysis->history);
    require(check_stream(stream).has_value(), "a history became a stream that cannot be");
    run(stream);
  }
  const std::string once = snapshot_pickle(*snapshot);
  const Result<Snapshot> again = read(once);
  require(again.has_value(), "what was written cannot be read");
  require(snapshot_pickle(*again) == once, "what was read back differs");
}

void try_stream(std::string_view text) {
  const Result<AllocationStream> stream = parse_stream(text, "fuzz");
  if (!stream) return require(!stream.error().message.empty(), "an error without a message");
  run(*stream);
  (void)recorded_peak_reserved(*stream);
  const Result<Snapshot> snapshot = snapshot_of(*stream, {"fuzz", stream->settings, false, false}, 8 * kGiB);
  if (snapshot) require(analyse_device(*snapshot, 0).has_value(), "a simulated run cannot be analysed");
  const std::string once = stream_text(*stream);
  const Result<AllocationStream> again = parse_stream(once, "fuzz");
  require(again.has_value(), "what was written cannot be read");
  require(stream_text(*again) == once, "what was read back differs");
}

}  // namespace
}  // namespace headroom::replay

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (bytes.starts_with('{')) {
    headroom::replay::try_stream(bytes);
  } else {
    headroom::replay::try_pickle(bytes);
  }
  return 0;
}
