#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "models/base/result.h"
#include "validator/cuda/handles.h"

namespace headroom::gpu {

/// Device memory of an exact size (rounded up to the driver's pages), in pieces that come and go at the end;
/// written once, so that it is really there.
class HeldMemory {
 public:
  /// Takes or gives back until `bytes` are held. False: the device has no more; what was held stays.
  Result<bool> hold(Bytes bytes);
  Bytes held() const { return held_; }

 private:
  struct Piece {
    DeviceBlock block;
    Bytes bytes = 0;
  };
  std::vector<Piece> pieces_;
  Bytes held_ = 0;
};

/// A second process on the same card with a context of its own, which holds as much as a rollout engine is
/// predicted to: started anew from this program, told over a pipe, gone with its owner.
class Neighbour {
 public:
  /// Starts it on card `ordinal`, whose context this process has. Its own context is counted to it: an error
  /// where it could not get one.
  static Result<Neighbour> start(int ordinal);
  Neighbour(Neighbour&& other) noexcept;
  Neighbour& operator=(Neighbour&&) = delete;
  ~Neighbour();

  /// Its memory becomes `bytes` in all, its context among them (less than that is not possible). Returns once
  /// it is so; false where the card has no room.
  Result<bool> hold(Bytes bytes);
  /// Of the card, before it held anything.
  Bytes context() const { return context_; }

 private:
  Neighbour(pid_t child, int requests, int answers) : child_(child), requests_(requests), answers_(answers) {}
  Result<std::int64_t> ask(std::int64_t bytes);

  pid_t child_;
  int requests_, answers_;  ///< ends of the pipes
  Bytes context_ = 0;
};

}  // namespace headroom::gpu
