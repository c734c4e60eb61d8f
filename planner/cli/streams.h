#pragma once

#include <iosfwd>

namespace headroom::cli {

/// Where a command reads and writes: the standard streams in the program, string streams in tests.
struct Streams {
  std::istream& in;
  std::ostream& out;    ///< results only
  std::ostream& err;    ///< errors and warnings
  bool colour = false;  ///< `out` is a terminal and NO_COLOR is not set
  bool plain = false;   ///< the locale has ASCII only
  int width = 0;        ///< characters of the terminal's line; 0: no terminal
  bool verbatim = false;  ///< `out` was given a file's text: no line of it may be broken
};

/// Exit codes of every command.
enum Exit : int {
  kDone = 0,        ///< done; the run fits
  kIncomplete = 1,  ///< could not complete: internal error, output not written, interrupted
  kBadInput = 2,    ///< usage, file, contradictory flags, no GPU
  kOver = 3,        ///< does not fit, or over a limit
  kDisagrees = 4,   ///< a measurement or recording disagrees
  kUndetermined = 5,  ///< nothing shows that the run fits
};

}  // namespace headroom::cli
