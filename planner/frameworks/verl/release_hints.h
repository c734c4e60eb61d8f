#pragma once

#include <string>

#include "planner/frameworks/read_job.h"

namespace headroom::verl {

/// What stands around a run's files and names a release.
struct ReleaseHints {
  std::string verl, vllm;  ///< as written; empty: nothing names it
  std::string because;     ///< where that is: "verl/version/version of the checkout /src/verl"
};

/// Looks, in this order, at: verl's version file in the checkout around `own`, the configuration of a project's own
/// program (empty: none), and around the first file; what the script's own
/// text names (`verl==0.5.0`, `verl.git@v0.4.1`, an image `verlai/verl:app-verl0.5-…-vllm0.10.0-…`); the
/// requirement files and Dockerfiles in its folder and the three above.
ReleaseHints release_hints(const JobInput& input, const std::string& own = {});

/// What a text names; empty fields where it names nothing.
ReleaseHints named_releases(std::string_view text);

}  // namespace headroom::verl
