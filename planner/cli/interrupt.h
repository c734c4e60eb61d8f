#pragma once

namespace headroom::cli {

/// While it lives, the first interrupt (SIGINT) or termination (SIGTERM) ends nothing: it is noted, so that a search can
/// stop and tell what it has. A second one ends the process as always. One at a time.
class Interrupt {
 public:
  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  static bool came();
  /// Ends the process by the signal that came, as its caller expects; nothing where none came.
  static void obey();
};

}  // namespace headroom::cli
