#pragma once

#include <span>
#include <string>
#include <string_view>

#include "simulator/report/report.h"

namespace headroom::writers {

/// One self-contained HTML file over reports: timeline of each GPU's phases with stacked components and the
/// budget, tables, two runs on one axis; light and dark, printable. It loads nothing from anywhere. Texts of
/// reports are shown as text, whatever they hold.
std::string html(std::span<const Report> reports);

/// The same page over JSON: an object, or the inside of an array of objects, in the form of headroom.report/1,
/// of which each may have a `timeline` (timeline.h) and a plan's `choices`.
std::string html_page(std::string_view reports);

}  // namespace headroom::writers
