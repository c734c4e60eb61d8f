#pragma once

#include <string>
#include <string_view>

#include "models/base/result.h"
#include "planner/cli/streams.h"

namespace headroom::cli {

/// Writes `text` to `path`, or to standard output for `-`. A file is written beside its final name and
/// renamed, so that readers never meet half of it; what is no regular file (a pipe, /dev/stdout) is written
/// directly. A file that is replaced keeps its mode. A file that was read is not replaced. The error names the
/// path; it is of kind `incomplete` when the system refused.
Status write_output(const std::string& path, std::string_view text, Streams& streams);

/// Whether `write_output` will find its place, before anything is worked out: a folder that may be written to, and no
/// folder of that name. What only writing shows (a full disk) it cannot tell.
Status expect_writable(const std::string& path);

/// What became of several outputs: one that cannot be written loses no other, nor what is printed.
class Written {
 public:
  void add(Status one) {
    if (!one && all_) all_ = std::move(one);
  }
  /// Reports the first failure, if there was one, and gives its exit code, else `code`.
  int finish(int code, Streams& streams) const;

 private:
  Status all_;
};

/// Everything on standard input, at most `limit` bytes.
Result<std::string> read_standard_input(Streams& streams, std::size_t limit = std::size_t{64} << 20);

/// On interrupt or termination, an output file not yet renamed is removed and the process ends by that signal,
/// as its caller expects (a shell's loop stops; exit status 128 + signal).
void remove_pending_output_on_signals();

}  // namespace headroom::cli
