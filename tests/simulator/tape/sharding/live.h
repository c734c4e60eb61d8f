#pragma once

#include <algorithm>
#include <map>

#include "simulator/memory/recording_memory.h"

namespace headroom::tape::test {

/// What lies on the device over the events of a recording.
class Live {
 public:
  explicit Live(const RecordingMemory& memory) : memory_(memory) {}

  Bytes now() {
    advance();
    return bytes_;
  }
  /// The most since the last call of `peak` or `now`.
  Bytes peak() {
    peak_ = bytes_;
    advance();
    return peak_;
  }

 private:
  void advance() {
    for (; next_ < memory_.events().size(); ++next_) {
      const MemoryEvent& event = memory_.events()[next_];
      if (event.kind == MemoryEvent::Kind::allocate) {
        sizes_[event.id] = event.bytes;
        bytes_ += event.bytes;
      } else if (event.kind == MemoryEvent::Kind::free) {
        bytes_ -= sizes_[event.id];
      }
      peak_ = std::max(peak_, bytes_);
    }
  }

  const RecordingMemory& memory_;
  std::map<std::uint64_t, Bytes> sizes_;
  std::size_t next_ = 0;
  Bytes bytes_ = 0, peak_ = 0;
};

}  // namespace headroom::tape::test
