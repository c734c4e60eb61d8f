#pragma once

#include <span>
#include <string>

#include "simulator/report/report.h"

namespace headroom::writers {

/// A form of a report that goes to a file. A new output is one writer and one row in writer.cc.
struct Writer {
  const char* flag;  ///< `--json`
  std::string (*write)(std::span<const Report>);  ///< of one or several
};

std::span<const Writer> writers();

}  // namespace headroom::writers
