#pragma once

#include <optional>

#include "simulator/allocator/device.h"

namespace headroom::allocator {

/// Where pinned host memory comes from: cudaHostAlloc, or a model of the node.
class HostMemory {
 public:
  virtual ~HostMemory() = default;

  /// Nothing when the host has no `bytes` left.
  virtual std::optional<Address> allocate(Bytes bytes) = 0;
  virtual void free(Address address, Bytes bytes) = 0;
};

/// A node's memory as a number, shared by the processes on it.
class VirtualHost : public HostMemory {
 public:
  explicit VirtualHost(Bytes total = Bytes{1} << 62) : total_(total) {}

  std::optional<Address> allocate(Bytes bytes) override {
    if (bytes > total_ - used_) return std::nullopt;
    used_ += bytes;
    peak_ = used_ > peak_ ? used_ : peak_;
    return next_ += bytes;
  }
  void free(Address, Bytes bytes) override { used_ -= bytes; }

  Bytes total() const { return total_; }
  Bytes used() const { return used_; }
  Bytes peak() const { return peak_; }
  void reset_peak() { peak_ = used_; }

 private:
  Bytes total_, used_ = 0, peak_ = 0;
  Address next_ = 0;
};

}  // namespace headroom::allocator
