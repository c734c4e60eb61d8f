#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "simulator/replay/chunked_vector.h"

namespace headroom::replay {

enum class PickleKind : std::uint8_t {
  none,
  boolean,
  integer,
  wide_integer,
  real,
  string,
  list,
  tuple,
  dict
};

/// `an integer`, `a list`, … for messages.
std::string_view describe(PickleKind kind);

/// One value of a pickle in 64 bits: the kind in the top 4, below it the value itself (60 bits, signed) or an
/// index into the heap. Containers are indices, so a container may hold itself.
class PickleValue {
 public:
  PickleValue() = default;
  PickleValue(PickleKind kind, std::int64_t payload)
      : bits_(static_cast<std::uint64_t>(kind) << 60 | (static_cast<std::uint64_t>(payload) & kPayload)) {}

  PickleKind kind() const { return static_cast<PickleKind>(bits_ >> 60); }
  bool is(PickleKind kind) const { return this->kind() == kind; }
  /// The payload as an index.
  std::uint32_t index() const { return static_cast<std::uint32_t>(bits_); }
  /// The payload as a number of 60 bits.
  std::int64_t number() const { return static_cast<std::int64_t>(bits_ << 4) >> 4; }
  static bool fits(std::int64_t value) { return value == (value << 4) >> 4; }

  friend bool operator==(const PickleValue&, const PickleValue&) = default;

 private:
  static constexpr std::uint64_t kPayload = (std::uint64_t{1} << 60) - 1;
  std::uint64_t bits_ = 0;
};

/// A reference in 32 bits, for the memo and for lists: strings and containers by kind and index; anything
/// else through a side table.
using PickleHandle = std::uint32_t;
inline constexpr std::uint32_t kMaxPickleIndex = (1u << 29) - 1;

/// A dict that became a record of the application: what kind, which one.
struct PickleRecord {
  std::uint8_t kind = 0;  ///< 1 to 7; 0: an ordinary dict
  std::uint32_t index = 0;
  friend bool operator==(const PickleRecord&, const PickleRecord&) = default;
};

/// Strings once each, by content. Ids count up from 0 in order of first appearance.
class StringTable {
 public:
  std::uint32_t intern(std::string_view text);
  std::string_view operator[](std::uint32_t id) const { return texts_[id]; }
  std::size_t size() const { return texts_.size(); }
  std::size_t memory() const { return memory_ + slots_.size() * sizeof(std::uint32_t); }

 private:
  void grow();

  std::vector<std::string_view> texts_;
  std::vector<std::uint64_t> hashes_;
  std::vector<std::uint32_t> slots_;  ///< open addressing; id + 1
  std::deque<std::string> arena_;
  std::size_t memory_ = 0;
};

/// Everything that a pickle has built so far. memory() counts it, so that a reader can stop in time.
class PickleHeap {
 public:
  using Pair = std::pair<PickleValue, PickleValue>;

  StringTable& strings() { return strings_; }
  const StringTable& strings() const { return strings_; }

  PickleValue make_integer(std::int64_t value) {
    if (PickleValue::fits(value)) [[likely]]
      return {PickleKind::integer, value};
    wide_.push_back(value);
    return {PickleKind::wide_integer, static_cast<std::int64_t>(wide_.size() - 1)};
  }
  PickleValue make_real(double value);
  PickleValue make_string(std::string_view text) { return {PickleKind::string, strings_.intern(text)}; }
  PickleValue make_list() {
    lists_.push_back(open_list());
    return {PickleKind::list, static_cast<std::int64_t>(lists_.size() - 1)};
  }
  PickleValue make_dict() {
    dicts_.push_back(kUntouched);
    return {PickleKind::dict, static_cast<std::int64_t>(dicts_.size() - 1)};
  }
  PickleValue make_tuple(std::span<const PickleValue> items);

  /// The value of an integer of any width.
  std::optional<std::int64_t> integer(PickleValue value) const {
    if (value.is(PickleKind::integer)) [[likely]]
      return value.number();
    if (value.is(PickleKind::wide_integer)) return wide_[value.index()];
    return std::nullopt;
  }
  std::optional<double> real(PickleValue value) const;  ///< of a float or an integer
  std::optional<std::string_view> string(PickleValue value) const;
  std::span<const PickleValue> tuple(PickleValue value) const;

  /// False when the list was sealed.
  bool append(PickleValue list, std::span<const PickleValue> items);
  std::span<const PickleHandle> list(PickleValue list) const {
    const std::uint32_t state = lists_[list.index()];
    if ((state & kSealed) != 0) return {};
    return open_lists_[state];
  }
  /// Replaces a list's items by a number below 2^31 for good: what the application made of them.
  void seal(PickleValue list, std::uint32_t number);
  std::optional<std::uint32_t> sealed(PickleValue list) const {
    const std::uint32_t state = lists_[list.index()];
    if ((state & kSealed) == 0) return std::nullopt;
    return state & ~kSealed;
  }

  PickleRecord record(PickleValue dict) const { return unpack(dicts_[dict.index()]); }
  void set_record(PickleValue dict, PickleRecord record) { dicts_[dict.index()] = pack(record); }
  /// Adds to an ordinary dict; an untouched dict becomes one.
  void add_pairs(PickleValue dict, std::span<const PickleValue> keys_and_values);
  /// An untouched dict has no pairs.
  bool untouched(PickleValue dict) const { return dicts_[dict.index()] == kUntouched; }
  std::span<const Pair> pairs(PickleValue dict) const;

  PickleHandle handle(PickleValue value) {
    const PickleKind kind = value.kind();
    if (kind >= PickleKind::string) [[likely]]
      return (static_cast<std::uint32_t>(kind) - static_cast<std::uint32_t>(PickleKind::string) + 1) << 29 |
             value.index();
    others_.push_back(value);
    return static_cast<PickleHandle>(others_.size() - 1);
  }
  PickleValue value(PickleHandle handle) const {
    const std::uint32_t kind = handle >> 29;
    if (kind == 0) return others_[handle];
    return {static_cast<PickleKind>(static_cast<std::uint32_t>(PickleKind::string) + kind - 1),
            handle & kMaxPickleIndex};
  }

  /// Bytes held. Exact to the growth of the tables of lists.
  std::size_t memory() const;
  /// Some table is at the limit of its indices.
  bool full() const {
    return std::max({dicts_.size(), lists_.size(), tuples_.size(), others_.size(), strings_.size()}) >=
           kMaxPickleIndex;
  }

 private:
  static constexpr std::uint32_t kSealed = 1u << 31;
  static constexpr std::uint32_t kUntouched = 0xFFFFFFFFu;
  static std::uint32_t pack(PickleRecord r) { return static_cast<std::uint32_t>(r.kind) << 29 | r.index; }
  static PickleRecord unpack(std::uint32_t bits) {
    if (bits == kUntouched) return {};
    return {static_cast<std::uint8_t>(bits >> 29), bits & kMaxPickleIndex};
  }

  std::uint32_t open_list();

  StringTable strings_;
  std::vector<std::int64_t> wide_;
  std::vector<double> reals_;
  ChunkedVector<std::uint32_t> lists_;  ///< index into open_lists_, or a sealed list's number with kSealed
  std::deque<std::vector<PickleHandle>> open_lists_;
  std::vector<std::uint32_t> unused_lists_;  ///< of open_lists_: sealed lists leave theirs to the next
  std::size_t list_memory_ = 0;
  ChunkedVector<std::uint32_t> dicts_;  ///< packed record, or index into maps_
  std::deque<std::vector<Pair>> maps_;
  std::size_t map_memory_ = 0;
  std::vector<PickleValue> tuple_items_;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> tuples_;  ///< first and count in tuple_items_
  std::vector<PickleValue> others_;
};

}  // namespace headroom::replay
