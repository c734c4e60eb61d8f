#pragma once

#include <string>
#include <vector>

#include "simulator/report/report.h"

namespace headroom::writers {

struct TableStyle {
  bool colour = false;
  bool every_phase = false;  ///< phases in which nothing changes are not folded into one row
  bool plain = false;        ///< ASCII only
  int width = 0;             ///< characters of a line; 0: as wide as it comes. Narrow ones lose the bar first
};

/// The report for people: the verdict, a row a phase with a bar against the budget, what the highest peak is
/// made of, warnings and assumptions. All sizes in GiB.
std::string table(const Report& report, const TableStyle& style = {});

/// The report's warnings, `FILE:LINE: key: message` each, without those that the verdict names.
std::vector<std::string> warning_lines(const Report& report);

/// One line: fits or not, by how much, where; of a run that stops, why.
std::string verdict(const Report& report);

/// `GPU 0 (8 alike)`, `GPU 4 of pool rollout`.
std::string device_name(const DeviceReport& device);

/// `1.25`: GiB without a unit, for columns whose head names it.
std::string gib(Bytes bytes);

}  // namespace headroom::writers
