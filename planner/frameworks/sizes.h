#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "planner/frameworks/read_job.h"

namespace headroom {

/// A number of a run by the name that it has in every framework, and the key that says it in this one. Several rows
/// of one name: other keys in other releases or programs; the first that decides something in the run is it.
struct SizeKey {
  std::string_view name, key;
};

/// Names of cluster sizes, which the command line states for every framework.
inline constexpr std::string_view kNodesFlag = "--nodes", kGpusPerNodeFlag = "--gpus-per-node", kGpusFlag = "--gpus";

/// A number of one run that can be set to others.
struct Size {
  std::string name, key;  ///< `key` may be one of the flags above
  std::string current;
  /// Fewer are wanted: what is asked for is the smallest that fits.
  bool fewest() const { return key.starts_with("--"); }
};

/// What `text` names: a size, a key of the framework that holds a number, or the end of only one such key
/// (`ppo_epochs`).
std::optional<Size> find_size(const ReadJob& read, std::span<const SizeKey> table, const std::string& text);

/// The names of `table` that this run has, and those of its cluster.
std::vector<std::string> size_names(const ReadJob& read, std::span<const SizeKey> table);

}  // namespace headroom
