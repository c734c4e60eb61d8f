#pragma once

#include <span>
#include <string>

#include "simulator/report/report.h"

namespace headroom::writers {

/// The table as GitHub-flavoured Markdown, for a pull request or a step summary.
std::string markdown(const Report& report);
/// Several: a table with a row each, then each.
std::string markdown(std::span<const Report> reports);

/// Text inside a table cell or a line: what Markdown would read as markup is escaped.
std::string markdown_text(std::string_view text);

}  // namespace headroom::writers
