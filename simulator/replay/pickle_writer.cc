#include "simulator/replay/pickle_writer.h"

#include <bit>

#include "simulator/replay/pickle_opcodes.h"

namespace headroom::replay {
namespace {

constexpr std::size_t kFlushAt = std::size_t{1} << 20;

std::uint8_t code(PickleOp op) {
  return static_cast<std::uint8_t>(op);
}

}  // namespace

PickleWriter::PickleWriter(ByteSink sink) : sink_(std::move(sink)) {
  byte(code(PickleOp::proto));
  byte(4);
}

void PickleWriter::little_endian(std::uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) byte(static_cast<std::uint8_t>(value >> (8 * i)));
}

void PickleWriter::flush_when_full() {
  if (buffer_.size() < kFlushAt) return;
  if (status_) status_ = sink_(buffer_);
  buffer_.clear();
}

void PickleWriter::string(std::string_view text) {
  const auto [at, fresh] = strings_.try_emplace(std::string(text), memo_);
  if (!fresh) return recall(at->second);
  if (text.size() < 256) {
    byte(code(PickleOp::short_binunicode));
    little_endian(text.size(), 1);
  } else {
    byte(code(PickleOp::binunicode));
    little_endian(text.size(), 4);
  }
  buffer_ += text;
  remember();
}

void PickleWriter::integer(std::int64_t value) {
  if (value >= 0 && value < 256) {
    byte(code(PickleOp::binint1));
    little_endian(static_cast<std::uint64_t>(value), 1);
  } else if (value >= 0 && value < 65536) {
    byte(code(PickleOp::binint2));
    little_endian(static_cast<std::uint64_t>(value), 2);
  } else if (value == static_cast<std::int32_t>(value)) {
    byte(code(PickleOp::binint));
    little_endian(static_cast<std::uint64_t>(value), 4);
  } else {
    byte(code(PickleOp::long1));
    byte(8);
    little_endian(static_cast<std::uint64_t>(value), 8);
  }
}

void PickleWriter::real(double value) {
  byte(code(PickleOp::binfloat));
  little_endian(__builtin_bswap64(std::bit_cast<std::uint64_t>(value)), 8);
}

void PickleWriter::boolean(bool value) {
  byte(code(value ? PickleOp::newtrue : PickleOp::newfalse));
}

void PickleWriter::pair(std::int64_t a, std::int64_t b) {
  integer(a);
  integer(b);
  byte(code(PickleOp::tuple2));
}

void PickleWriter::begin_list() {
  byte(code(PickleOp::empty_list));
}
void PickleWriter::begin_dict() {
  byte(code(PickleOp::empty_dict));
}

void PickleWriter::begin_items() {
  flush_when_full();
  byte(code(PickleOp::mark));
}

void PickleWriter::end_list_items() {
  byte(code(PickleOp::appends));
}
void PickleWriter::end_dict_items() {
  byte(code(PickleOp::setitems));
}

std::uint32_t PickleWriter::remember() {
  byte(code(PickleOp::memoize));
  return memo_++;
}

void PickleWriter::recall(std::uint32_t object) {
  if (object < 256) {
    byte(code(PickleOp::binget));
    little_endian(object, 1);
  } else {
    byte(code(PickleOp::long_binget));
    little_endian(object, 4);
  }
}

Status PickleWriter::finish() {
  byte(code(PickleOp::stop));
  if (status_) status_ = sink_(buffer_);
  buffer_.clear();
  return status_;
}

}  // namespace headroom::replay
