#pragma once

#include <cstddef>

namespace headroom {

/// How a program that does the same thing over and over (the layers of one decoded token) may leave out
/// repetitions whose effect is known. One period consists of segments, between which come the operations that
/// differ each time (the growing cache) and are always executed:
///
///   begin()  … segment 0 … pause() … executed … resume() … segment 1 … closed()
///
/// A Memory proves in `closed` that the segments left every block where it was, so that doing the same again
/// changes nothing but counters: only blocks of the small pool were taken and given back, the executed
/// operations touched the large pool only, and no segment was obtained or released.
class Repetition {
 public:
  virtual ~Repetition() = default;
  virtual void begin() = 0;
  virtual void pause() = 0;
  virtual void resume() = 0;
  /// True when what happened since `begin` is a period that may be repeated through `apply`; watching ends
  /// then. False: it may become one later.
  virtual bool closed() = 0;
  /// Gives up watching.
  virtual void stop() = 0;
  /// Counters and peaks as if segment number `segment` of the proved period were executed now.
  virtual void apply(std::size_t segment) = 0;
};

}  // namespace headroom
