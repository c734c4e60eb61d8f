#pragma once

#include <string>
#include <string_view>

#include "models/base/result.h"
#include "planner/cli/streams.h"

namespace headroom::cli {

/// Writes `text` to `path`, or to standard output for `-`. A file is written beside its final name and
/// renamed, so that readers never meet half of it; what is no regular file (a pipe, /dev/stdout) is written
/// directly. The error is of kind `incomplete` and names the path.
Status write_output(const std::string& path, std::string_view text, Streams& streams);

/// Everything on standard input, at most `limit` bytes.
Result<std::string> read_standard_input(Streams& streams, std::size_t limit = std::size_t{64} << 20);

/// On interrupt or termination, an output file not yet renamed is removed and the process ends with exit
/// code 1.
void remove_pending_output_on_signals();

}  // namespace headroom::cli
