#pragma once

#include <string>

#include "simulator/report/report.h"

namespace headroom::writers {

/// A trace in the JSON form that Perfetto and Chrome open: a process a GPU, its phases one after the other for as
/// long as they are predicted to take, and counters beside them: the components of the device's peak, what each
/// process has allocated and reserved, host memory. Times in microseconds from the start of the run.
std::string trace(const Report& report);

}  // namespace headroom::writers
