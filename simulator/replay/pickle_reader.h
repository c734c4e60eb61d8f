#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "models/base/result.h"
#include "simulator/replay/byte_source.h"
#include "simulator/replay/pickle_heap.h"

namespace headroom::replay {

/// Bounds that keep hostile input cheap. Every opcode takes constant time and memory besides the bytes it
/// carries, so time is linear in the input.
struct PickleLimits {
  /// Bytes that the decoded values may take beyond four times the bytes read so far.
  std::size_t memory = std::size_t{64} << 20;
  std::size_t string = std::size_t{1} << 18;  ///< one string; at most 1 MiB
  std::size_t marks = 64;                     ///< containers open at one time
  /// Values on the stack. PyTorch's C++ writer puts a whole trace there.
  std::size_t stack = std::size_t{1} << 28;
};

/// What the application does with dicts while the file is read: it may turn a dict into a record of its own
/// as soon as its items are known, so that millions of trace entries never exist as dicts.
class PickleRecords {
 public:
  virtual ~PickleRecords() = default;
  /// `items` are the keys and values, alternately, of a dict that was empty before. A record of kind 0 leaves
  /// it an ordinary dict. The values' lists may be sealed. An error ends the reading.
  virtual Result<PickleRecord> fold(PickleHeap& heap, std::span<const PickleValue> items) = 0;
  /// Bytes that records take, counted against the limit.
  virtual std::size_t memory() const = 0;
};

/// Reads one pickle of protocol 2 to 5 that consists of None, booleans, integers of up to 64 bits, floats,
/// strings, lists, tuples and dicts; shared and cyclic objects are kept as references. It imports nothing and
/// calls nothing: an opcode that would do so is an error that names it, as is any opcode that such a file
/// does not need.
///
/// An unsigned integer of 64 bits wraps to its signed value. Errors say at which byte.
class PickleReader {
 public:
  PickleReader(ByteSource& source, PickleHeap& heap, PickleRecords* records = nullptr,
               const PickleLimits& limits = {});

  /// The pickle's value. Bytes other than zeros after its end are an error.
  Result<PickleValue> read();

  /// Called now and then with ByteSource::progress().
  void on_progress(std::function<void(double)> report) { progress_ = std::move(report); }

 private:
  Status refill(std::size_t wanted);
  Status need(std::size_t bytes);
  Status check_memory();
  std::uint64_t take(std::size_t bytes);
  std::size_t position() const { return consumed_ + next_; }

  Result<bool> run_window();
  Result<bool> step();  ///< one opcode; true: STOP
  Status number(std::uint8_t op);
  Status string(std::size_t length);
  Status memo_get(std::size_t index);
  Status memo_put(std::size_t index);
  Status container(std::uint8_t op);
  Status set_items(PickleValue dict, std::size_t first);
  Status append_items(PickleValue list, std::size_t first);
  Result<std::size_t> pop_mark(std::size_t below);
  Status finish();
  Status header();

  tl::unexpected<Error> bad(std::string message) const;
  tl::unexpected<Error> refused(std::uint8_t byte) const;

  ByteSource& source_;
  PickleHeap& heap_;
  PickleRecords* records_;
  PickleLimits limits_;
  std::function<void(double)> progress_;

  std::unique_ptr<char[]> window_;  ///< bytes [next_, end_) are read and not yet used
  std::size_t next_ = 0, end_ = 0;
  std::size_t consumed_ = 0;  ///< position in the file of window_[0]
  std::size_t op_at_ = 0;     ///< of the current opcode
  bool ended_ = false;

  std::vector<PickleValue> stack_;
  std::vector<std::size_t> marks_;
  ChunkedVector<PickleHandle> memo_;
};

}  // namespace headroom::replay
