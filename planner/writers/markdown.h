#pragma once

#include <string>

#include "simulator/report/report.h"

namespace headroom::writers {

/// The table as GitHub-flavoured Markdown, for a pull request or a step summary.
std::string markdown(const Report& report);

}  // namespace headroom::writers
