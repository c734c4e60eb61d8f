#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "planner/cli/command.h"
#include "simulator/replay/snapshot_analysis.h"
#include "simulator/replay/what_if.h"

namespace headroom::cli {

/// What `headroom replay` found out about one device of a snapshot, or about a stream.
struct ReplayedDevice {
  replay::DeviceAnalysis analysis;
  std::optional<replay::WhatIf> what_if;
  std::vector<std::string> notes;  ///< on the what-if runs
};

struct Replayed {
  std::string file, kind;  ///< kind: snapshot or stream
  std::string conf;
  replay::Snapshot snapshot;
  std::vector<ReplayedDevice> devices;
};

/// The answer for people: one block a device. `top` rows of holders, segments and phases.
std::string replay_text(const Replayed& replayed, std::size_t top);

/// A line a device: its peaks, and what the table of settings advises.
std::string replay_verdicts(const Replayed& replayed);

/// `headroom.replay/1`.
std::string replay_json(const Replayed& replayed);

/// Analyses a memory snapshot (pickle) or an allocation stream (JSON), whichever `path` holds; prints and
/// writes what the arguments ask for. kOver when `--limit` is given and the recorded settings run out of
/// memory under it.
int replay_snapshot(const std::string& path, const Arguments& arguments, Streams& streams);

/// Its options, for the table of commands.
std::vector<Option> replay_snapshot_options();

}  // namespace headroom::cli
