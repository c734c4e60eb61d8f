#pragma once

#include <span>
#include <string>

#include "simulator/report/report.h"

namespace headroom::writers {

/// `headroom.report/1`: keys in a fixed order, bytes as integers, component maps without their zeros (they
/// still sum to the peak they belong to).
std::string json(const Report& report);
/// An object for one, an array for several.
std::string json(std::span<const Report> reports);

/// The JSON Schema of that document.
const char* report_schema();

}  // namespace headroom::writers
