#pragma once

#include <cstdint>
#include <optional>

#include "models/base/bytes.h"

namespace headroom::allocator {

/// A device address. Blocks of one size are taken lowest address first, so addresses decide placements.
using Address = std::int64_t;

/// A stream by its index in the process; 0 is the default stream.
using Stream = std::uint32_t;

/// An event recorded on a stream.
using EventToken = std::uint64_t;

/// Stream order, as far as allocators need it. The defaults are a device whose streams are always idle: every
/// event is done when asked for.
class Events {
 public:
  virtual ~Events() = default;

  virtual EventToken record_event(Stream /*stream*/) { return 0; }
  virtual bool event_done(EventToken /*event*/) { return true; }
  virtual void wait_event(EventToken /*event*/) {}
  /// All streams are idle now.
  virtual void synchronize() {}
};

/// Where the caching allocator's bytes come from: the CUDA driver, or a model of it. Every call is on a cold
/// path.
class Device : public Events {
 public:
  /// As in the device's properties: the base of memory fractions and of expandable ranges.
  virtual Bytes total_memory() const = 0;
  /// What the driver would report as free now.
  virtual Bytes free_memory() const = 0;
  /// What this process holds of the device, inside and outside of the allocator. Default: nobody else is on
  /// it.
  virtual Bytes process_memory() const { return total_memory() - free_memory(); }
  virtual int ordinal() const { return 0; }  ///< the `0` of `GPU 0`

  /// A segment of `bytes`; nothing when the device is out of memory.
  virtual std::optional<Address> allocate(Bytes bytes) = 0;
  virtual void free(Address address, Bytes bytes) = 0;

  /// An address range without memory behind it, for an expandable segment of one pool half.
  virtual Address reserve(Bytes bytes, bool small_pool) = 0;
  virtual void release(Address address, Bytes bytes) = 0;
  /// The driver maps only chunks that are multiples of this.
  virtual Bytes granularity() const { return 2 * kMiB; }
  /// Puts `bytes` of memory, in chunks of `chunk`, behind part of a range: all of it or nothing.
  virtual bool map(Address address, Bytes bytes, Bytes chunk) = 0;
  virtual void unmap(Address address, Bytes bytes, Bytes chunk) = 0;
};

}  // namespace headroom::allocator
