#pragma once

#include <string>
#include <vector>

#include "planner/frameworks/engines/facts.h"
#include "simulator/report/report.h"

namespace headroom::engines {

/// How sure one figure of an engine's start-up is, and what says so.
struct Evidence {
  std::string component;
  Bytes bytes = 0;
  Standing standing = Standing::inferred;
  std::string because;
};

std::string_view word(Standing standing);

/// For each figure of `start`, made by `engine`: recorded where public logs of that release and layout print
/// it, read where only source tells it, inferred where neither does.
std::vector<Evidence> evidence(const Engine& engine, const EngineReport& start);

}  // namespace headroom::engines
