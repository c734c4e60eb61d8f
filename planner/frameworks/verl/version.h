#pragma once

#include <string>
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
inline constexpr Version kNewest{0, 9, 0};  ///< what is assumed when nothing tells
inline constexpr Version kNever{999, 0, 0};

/// The release whose keys a configuration has.
struct InferredVersion {
  Version version = kNewest;
  std::string because;            ///< the clues, for the list of assumptions; empty: none
  std::vector<Notice> conflicts;  ///< clues that contradict each other
};

/// Infers verl's version from keys that only some releases have (`clues` in version.cc is the table) and from
/// the vLLM version. Of the releases that agree with every clue the newest is taken whose image is no newer
/// than that vLLM.
InferredVersion infer_version(const Layers& layers, const std::string& vllm);

/// The library releases that a verl release is shipped with; `versions` keeps what it already has.
void complete_versions(const Version& verl, Versions& versions);

}  // namespace headroom::verl
