#pragma once

#include <span>
#include <string>

#include "simulator/report/report.h"

namespace headroom::writers {

/// RFC 4180, one row a device, phase and process (a phase without processes has one row too). Bytes as
/// integers; the columns `at_…` are the components of the device's peak.
std::string csv(const Report& report);
/// The same of several, under one head; the first column names the configuration.
std::string csv(std::span<const Report> reports);

/// A field quoted when it needs to be.
std::string csv_field(std::string_view text);

}  // namespace headroom::writers
