#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "planner/configuration/layers.h"
#include "planner/configuration/version.h"
#include "planner/frameworks/read_job.h"
#include "simulator/job/job.h"

namespace headroom::verl {

using headroom::parse_version;
using headroom::to_string;
using headroom::Version;

inline constexpr Version kOldest{0, 3, 0};
inline constexpr Version kUnread{0, 10, 1};  ///< after the newest release that was read
inline constexpr Version kNewest{0, 9, 0};   ///< what is assumed when nothing tells
inline constexpr Version kNever{999, 0, 0};

/// The release whose keys a configuration has.
struct InferredVersion {
  Version version = kNewest;
  std::string because;            ///< the clues, for the list of assumptions; empty: none
  std::vector<Notice> conflicts;  ///< clues that contradict each other
  std::vector<Version> older;     ///< older releases that agree as well, newest first
};

/// What stands around the keys and narrows the releases.
struct ReleaseClues {
  std::string vllm = {};         ///< the vLLM release that the user runs
  std::string development = {};  ///< a development version (`0.8.0.dev`): this release or the one before
  std::string program = {};      ///< the module that is started
  std::vector<std::string> words = {};  ///< overrides as written: `+key` says that the schema lacks the key
};

/// Infers verl's version from keys that only some releases have (schema.h, and words in version.cc), from
/// `+key` words, and from what `clues` say. Taken are the releases that the fewest clues contradict; of those
/// the newest, and whose image is no newer than the vLLM release where that is known.
InferredVersion infer_version(const Layers& layers, const ReleaseClues& clues = {});

/// A key that only releases before 0.3 have: what they do otherwise than 0.3.0 holds where it is given.
inline constexpr std::string_view kGradOffload = "actor_rollout_ref.actor.fsdp_config.grad_offload";

/// The releases, newest first, that run without a key that later ones demand of every launch; none: no such key.
std::vector<Version> before_demand(std::string_view key);

/// The library releases that a verl release is shipped with; `versions` keeps what it already has.
void complete_versions(const Version& verl, Versions& versions);

}  // namespace headroom::verl
