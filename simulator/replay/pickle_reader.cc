#include "simulator/replay/pickle_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "simulator/replay/pickle_opcodes.h"

namespace headroom::replay {
namespace {

constexpr std::size_t kWindow = std::size_t{1} << 20;
/// No opcode with its fixed-size argument is longer.
constexpr std::size_t kLongestOpcode = 16;

/// A little-endian number.
template <typename Number>
Number load(const unsigned char* at) {
  Number value;
  std::memcpy(&value, at, sizeof value);
  if constexpr (std::endian::native == std::endian::big) {
    auto* bytes = reinterpret_cast<unsigned char*>(&value);
    std::reverse(bytes, bytes + sizeof value);
  }
  return value;
}

std::string_view kind_name(PickleKind kind) {
  return describe(kind);
}

}  // namespace

PickleReader::PickleReader(ByteSource& source, PickleHeap& heap, PickleRecords* records,
                           const PickleLimits& limits)
    : source_(source),
      heap_(heap),
      records_(records),
      limits_(limits),
      window_(std::make_unique_for_overwrite<char[]>(kWindow)) {
  limits_.string = std::min(limits_.string, kWindow);
}

tl::unexpected<Error> PickleReader::bad(std::string message) const {
  return fail(
      Error{.message = fmt::format("byte {}: {}", op_at_, message), .file = source_.name(), .key = {}});
}

tl::unexpected<Error> PickleReader::refused(std::uint8_t byte) const {
  const PickleOpcodeInfo info = pickle_opcode(byte);
  if (info.name.empty())
    return bad(fmt::format("0x{:02x} is no pickle opcode: the file is damaged or no pickle", byte));
  if (info.executes)
    return bad(
        fmt::format("opcode {} would import or call something and is refused; a memory snapshot holds only "
                    "numbers, strings, lists and dicts",
                    info.name));
  return bad(fmt::format("opcode {} does not occur in memory snapshots and is not read", info.name));
}

/// Keeps unread bytes, reads on. After it at least `wanted` bytes (<= kWindow) lie in the window, or all
/// there are.
Status PickleReader::refill(std::size_t wanted) {
  std::memmove(window_.get(), window_.get() + next_, end_ - next_);
  consumed_ += next_;
  end_ -= next_;
  next_ = 0;
  while (end_ < wanted && !ended_) {
    HEADROOM_ASSIGN(const std::size_t n, source_.read(window_.get() + end_, kWindow - end_));
    ended_ = n == 0;
    end_ += n;
  }
  if (progress_) progress_(source_.progress());
  return check_memory();
}

Status PickleReader::need(std::size_t bytes) {
  if (end_ - next_ >= bytes) return {};
  HEADROOM_TRY(refill(bytes));
  if (end_ - next_ >= bytes) return {};
  return bad(fmt::format("the file ends in the middle of an opcode: {} more bytes were expected, {} are left",
                         bytes, end_ - next_));
}

Status PickleReader::check_memory() {
  const std::size_t used = heap_.memory() + memo_.memory() + stack_.capacity() * sizeof(PickleValue) +
                           (records_ != nullptr ? records_->memory() : 0);
  const std::size_t allowed = limits_.memory + 4 * (consumed_ + end_);
  if (used > allowed)
    return bad(
        fmt::format("its values take {} bytes of memory after {} bytes of file; more than {} is not a memory "
                    "snapshot",
                    used, consumed_ + end_, allowed));
  if (heap_.full()) return bad("it holds more than 536,870,911 objects of one kind");
  return {};
}

/// A little-endian number of `bytes` <= 8 that need() has made available.
std::uint64_t PickleReader::take(std::size_t bytes) {
  std::uint64_t value = 0;
  std::memcpy(&value, window_.get() + next_, bytes);
  next_ += bytes;
  if constexpr (std::endian::native == std::endian::big) value = __builtin_bswap64(value);
  return value;
}

Status PickleReader::header() {
  HEADROOM_TRY(refill(kLongestOpcode));
  if (end_ == 0) return bad("the file is empty");
  if (end_ >= 2 && window_[0] == 'P' && window_[1] == 'K')
    return bad(
        "this is a zip archive as torch.save writes it, no pickle of torch.cuda.memory._dump_snapshot");
  if (static_cast<std::uint8_t>(window_[0]) != static_cast<std::uint8_t>(PickleOp::proto))
    return bad("a pickle of protocol 2 or later starts with byte 0x80: this is no memory snapshot");
  return {};
}

Result<PickleValue> PickleReader::read() {
  HEADROOM_TRY(header());
  for (;;) {
    if (end_ - next_ < kLongestOpcode && !ended_) HEADROOM_TRY(refill(kLongestOpcode));
    HEADROOM_ASSIGN(const bool ended, run_window());
    if (ended) break;
    if (!ended_) continue;
    // The last bytes of the file, one by one.
    op_at_ = position();
    if (next_ == end_) return bad("the file ends before the pickle's STOP: it is truncated");
    HEADROOM_ASSIGN(const bool stopped, step());
    if (stopped) break;
  }
  HEADROOM_TRY(finish());
  return stack_.back();
}

/// The frequent opcodes, as long as any opcode lies whole in the window; what is rare, or wrong, goes to
/// step(). True: STOP.
Result<bool> PickleReader::run_window() {
  while (end_ - next_ >= kLongestOpcode) {
    const auto* at = reinterpret_cast<const unsigned char*>(window_.get()) + next_;
    const auto* last = reinterpret_cast<const unsigned char*>(window_.get()) + end_ - kLongestOpcode;
    bool frequent = true;
    while (frequent && at <= last) {
      switch (static_cast<PickleOp>(*at)) {
        case PickleOp::binget:
        case PickleOp::long_binget: {
          const bool wide = static_cast<PickleOp>(*at) == PickleOp::long_binget;
          const std::size_t index = wide ? load<std::uint32_t>(at + 1) : at[1];
          if (index >= memo_.size()) {
            frequent = false;
            break;
          }
          stack_.push_back(heap_.value(memo_[index]));
          at += wide ? 5 : 2;
          break;
        }
        case PickleOp::memoize:
          if (stack_.empty()) {
            frequent = false;
            break;
          }
          memo_.push_back(heap_.handle(stack_.back()));
          ++at;
          break;
        case PickleOp::binint1:
          stack_.emplace_back(PickleKind::integer, at[1]);
          at += 2;
          break;
        case PickleOp::binint2:
          stack_.emplace_back(PickleKind::integer, load<std::uint16_t>(at + 1));
          at += 3;
          break;
        case PickleOp::binint:
          stack_.emplace_back(PickleKind::integer, static_cast<std::int32_t>(load<std::uint32_t>(at + 1)));
          at += 5;
          break;
        case PickleOp::long1: {
          const unsigned width = at[1];
          if (width == 0 || width > 8) {
            frequent = false;
            break;
          }
          const unsigned unused = 64 - 8 * width;
          stack_.push_back(
              heap_.make_integer(static_cast<std::int64_t>(load<std::uint64_t>(at + 2) << unused) >> unused));
          at += 2 + width;
          break;
        }
        case PickleOp::mark:
          if (marks_.size() >= limits_.marks) {
            frequent = false;
            break;
          }
          marks_.push_back(stack_.size());
          ++at;
          break;
        default:
          frequent = false;
          break;
      }
    }
    next_ = static_cast<std::size_t>(at - reinterpret_cast<const unsigned char*>(window_.get()));
    if (frequent) break;
    op_at_ = position();
    HEADROOM_ASSIGN(const bool stopped, step());
    if (stopped) return true;
  }
  return false;
}

Status PickleReader::finish() {
  if (stack_.size() != 1 || !marks_.empty())
    return bad(fmt::format("STOP with {} values and {} open marks on the stack, expected 1 and 0",
                           stack_.size(), marks_.size()));
  for (;;) {
    for (; next_ < end_; ++next_) {
      op_at_ = position();
      if (window_[next_] != 0) return bad("more data follows the end of the pickle");
    }
    if (ended_) return {};
    HEADROOM_TRY(refill(1));
  }
}

Result<bool> PickleReader::step() {
  const auto op = static_cast<std::uint8_t>(window_[next_++]);
  const auto push = [&](PickleValue value) { stack_.push_back(value); };
  switch (static_cast<PickleOp>(op)) {
    case PickleOp::binget:
      HEADROOM_TRY(need(1));
      HEADROOM_TRY(memo_get(take(1)));
      break;
    case PickleOp::long_binget:
      HEADROOM_TRY(need(4));
      HEADROOM_TRY(memo_get(take(4)));
      break;
    case PickleOp::memoize:
      HEADROOM_TRY(memo_put(memo_.size()));
      break;
    case PickleOp::binput:
      HEADROOM_TRY(need(1));
      HEADROOM_TRY(memo_put(take(1)));
      break;
    case PickleOp::long_binput:
      HEADROOM_TRY(need(4));
      HEADROOM_TRY(memo_put(take(4)));
      break;
    case PickleOp::binint1:
    case PickleOp::binint2:
    case PickleOp::binint:
    case PickleOp::long1:
    case PickleOp::long4:
    case PickleOp::binfloat:
      HEADROOM_TRY(number(op));
      break;
    case PickleOp::none:
      push({PickleKind::none, 0});
      break;
    case PickleOp::newtrue:
      push({PickleKind::boolean, 1});
      break;
    case PickleOp::newfalse:
      push({PickleKind::boolean, 0});
      break;
    case PickleOp::short_binunicode:
      HEADROOM_TRY(need(1));
      HEADROOM_TRY(string(take(1)));
      break;
    case PickleOp::binunicode:
      HEADROOM_TRY(need(4));
      HEADROOM_TRY(string(take(4)));
      break;
    case PickleOp::binunicode8:
      HEADROOM_TRY(need(8));
      HEADROOM_TRY(string(take(8)));
      break;
    case PickleOp::mark:
      if (marks_.size() >= limits_.marks)
        return bad(fmt::format("more than {} containers inside each other", limits_.marks));
      marks_.push_back(stack_.size());
      break;
    case PickleOp::proto: {
      HEADROOM_TRY(need(1));
      const std::uint64_t protocol = take(1);
      if (protocol < 2 || protocol > 5)
        return bad(fmt::format("pickle protocol {}; 2 to 5 are read", protocol));
      break;
    }
    case PickleOp::frame:
      HEADROOM_TRY(need(8));
      next_ += 8;  // Frames only help readers that fetch whole frames.
      break;
    case PickleOp::stop:
      return true;
    default:
      HEADROOM_TRY(container(op));
      break;
  }
  if (stack_.size() > limits_.stack)
    return bad(fmt::format("more than {} values on the stack", limits_.stack));
  return false;
}

Status PickleReader::number(std::uint8_t op) {
  std::size_t width = 0;
  switch (static_cast<PickleOp>(op)) {
    case PickleOp::binint1:
      HEADROOM_TRY(need(1));
      stack_.emplace_back(PickleKind::integer, static_cast<std::int64_t>(take(1)));
      return {};
    case PickleOp::binint2:
      HEADROOM_TRY(need(2));
      stack_.emplace_back(PickleKind::integer, static_cast<std::int64_t>(take(2)));
      return {};
    case PickleOp::binint:
      HEADROOM_TRY(need(4));
      stack_.emplace_back(PickleKind::integer, static_cast<std::int32_t>(take(4)));
      return {};
    case PickleOp::binfloat:
      HEADROOM_TRY(need(8));
      stack_.push_back(heap_.make_real(std::bit_cast<double>(__builtin_bswap64(take(8)))));
      return {};
    case PickleOp::long1:
      HEADROOM_TRY(need(1));
      width = take(1);
      break;
    default:  // LONG4
      HEADROOM_TRY(need(4));
      width = take(4);
      break;
  }
  if (width > 9)
    return bad(fmt::format("an integer of {} bytes; memory snapshots have none beyond 64 bits", width));
  HEADROOM_TRY(need(width));
  if (width == 9 && window_[next_ + 8] != 0) return bad("an integer beyond 64 bits");
  const std::size_t low = std::min<std::size_t>(width, 8);
  std::uint64_t value = take(low);
  next_ += width - low;
  if (low > 0 && low < 8 && (value >> (8 * low - 1)) != 0) value |= ~std::uint64_t{0} << (8 * low);
  stack_.push_back(heap_.make_integer(static_cast<std::int64_t>(value)));
  return {};
}

Status PickleReader::string(std::size_t length) {
  if (length > limits_.string)
    return bad(fmt::format("a string of {} bytes; at most {} are read", length, limits_.string));
  HEADROOM_TRY(need(length));
  stack_.push_back(heap_.make_string({window_.get() + next_, length}));
  next_ += length;
  return {};
}

Status PickleReader::memo_get(std::size_t index) {
  if (index >= memo_.size())
    return bad(fmt::format("refers to object {} of the memo, which holds {}", index, memo_.size()));
  stack_.push_back(heap_.value(memo_[index]));
  return {};
}

Status PickleReader::memo_put(std::size_t index) {
  if (stack_.empty()) return bad("memoizes a value, but the stack is empty");
  const PickleHandle handle = heap_.handle(stack_.back());
  if (index > memo_.size())
    return bad(fmt::format("memoizes object {} before object {}", index, memo_.size()));
  if (index == memo_.size()) {
    memo_.push_back(handle);
  } else {
    memo_[index] = handle;
  }
  return {};
}

Result<std::size_t> PickleReader::pop_mark(std::size_t below) {
  if (marks_.empty()) return bad("closes a container that no MARK opened");
  const std::size_t first = marks_.back();
  marks_.pop_back();
  const std::size_t floor = marks_.empty() ? 0 : marks_.back();
  if (first < floor + below || first > stack_.size()) return bad("a MARK lies where the container should be");
  return first;
}

Status PickleReader::set_items(PickleValue dict, std::size_t first) {
  const std::span<const PickleValue> items = std::span(stack_).subspan(first);
  if (!dict.is(PickleKind::dict))
    return bad(fmt::format("sets items of {}, expected a dict", kind_name(dict.kind())));
  if (items.size() % 2 != 0) return bad("a dict's key has no value");
  if (items.empty()) return {};
  for (std::size_t i = 0; i < items.size(); i += 2)
    if (items[i].kind() >= PickleKind::list)
      return bad(fmt::format("a dict's key is {}", kind_name(items[i].kind())));
  if (heap_.untouched(dict) && records_ != nullptr && items.size() > 2) {
    auto record = records_->fold(heap_, items);
    if (!record) return bad(record.error().text());
    if (record->kind != 0) {
      heap_.set_record(dict, *record);
      return {};
    }
  }
  if (!heap_.untouched(dict) && heap_.record(dict).kind != 0) return bad("changes a dict that was complete");
  heap_.add_pairs(dict, items);
  return {};
}

Status PickleReader::append_items(PickleValue list, std::size_t first) {
  if (!list.is(PickleKind::list))
    return bad(fmt::format("appends to {}, expected a list", kind_name(list.kind())));
  if (!heap_.append(list, std::span(stack_).subspan(first))) return bad("changes a list that was complete");
  return {};
}

Status PickleReader::container(std::uint8_t op) {
  // No opcode may reach below the innermost MARK.
  const std::size_t floor = marks_.empty() ? 0 : marks_.back();
  const auto has = [&](std::size_t count) { return stack_.size() >= floor + count; };
  const auto too_few = [&] { return bad(fmt::format("opcode {} lacks operands", pickle_opcode(op).name)); };
  std::size_t first = 0;
  switch (static_cast<PickleOp>(op)) {
    case PickleOp::empty_list:
      stack_.push_back(heap_.make_list());
      return {};
    case PickleOp::empty_dict:
      stack_.push_back(heap_.make_dict());
      return {};
    case PickleOp::append:
      if (!has(2)) return too_few();
      first = stack_.size() - 1;
      HEADROOM_TRY(append_items(stack_[first - 1], first));
      break;
    case PickleOp::setitem:
      if (!has(3)) return too_few();
      first = stack_.size() - 2;
      HEADROOM_TRY(set_items(stack_[first - 1], first));
      break;
    case PickleOp::appends: {
      HEADROOM_ASSIGN(first, pop_mark(1));
      HEADROOM_TRY(append_items(stack_[first - 1], first));
      break;
    }
    case PickleOp::setitems: {
      HEADROOM_ASSIGN(first, pop_mark(1));
      HEADROOM_TRY(set_items(stack_[first - 1], first));
      break;
    }
    case PickleOp::list: {
      HEADROOM_ASSIGN(first, pop_mark(0));
      const PickleValue list = heap_.make_list();
      HEADROOM_TRY(append_items(list, first));
      stack_.resize(first);
      stack_.push_back(list);
      return {};
    }
    case PickleOp::dict: {
      HEADROOM_ASSIGN(first, pop_mark(0));
      const PickleValue dict = heap_.make_dict();
      HEADROOM_TRY(set_items(dict, first));
      stack_.resize(first);
      stack_.push_back(dict);
      return {};
    }
    case PickleOp::empty_tuple:
    case PickleOp::tuple1:
    case PickleOp::tuple2:
    case PickleOp::tuple3:
    case PickleOp::tuple: {
      if (static_cast<PickleOp>(op) == PickleOp::tuple) {
        HEADROOM_ASSIGN(first, pop_mark(0));
      } else {
        const std::size_t count = static_cast<PickleOp>(op) == PickleOp::empty_tuple ? 0 : op - 0x84u;
        if (!has(count)) return too_few();
        first = stack_.size() - count;
      }
      const PickleValue tuple = heap_.make_tuple(std::span(stack_).subspan(first));
      stack_.resize(first);
      stack_.push_back(tuple);
      return {};
    }
    case PickleOp::pop:
      if (!has(1)) return too_few();
      stack_.pop_back();
      return {};
    case PickleOp::pop_mark: {
      HEADROOM_ASSIGN(first, pop_mark(0));
      break;
    }
    default:
      return refused(op);
  }
  stack_.resize(first);
  return {};
}

}  // namespace headroom::replay
