#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "models/base/bytes.h"
#include "planner/search/explanation.h"

namespace headroom::writers {

/// `2.10 train_actor, 0.88 generate and 3 more …`: GiB by phase, most first; phases of one figure together.
std::string saved_text(std::vector<std::pair<std::string, Bytes>> saved);

/// A line for each of what would make a run fit; empty for none.
std::string would_fit_text(std::span<const search::Would> would);

}  // namespace headroom::writers
