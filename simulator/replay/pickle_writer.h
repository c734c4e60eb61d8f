#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "models/base/result.h"

namespace headroom::replay {

/// Takes written bytes; its errors end the writing.
using ByteSink = std::function<Status(std::string_view)>;

/// Writes one pickle of protocol 4 with the opcodes that PyTorch's memory_viz page reads. The caller keeps
/// the order of pickle: a container is opened, its items follow, then it is closed.
///
/// Lists and dicts are filled in batches: `begin_items`, at most kBatch items (a dict's item is key and
/// value), `end_list_items` or `end_dict_items`, as often as needed.
class PickleWriter {
 public:
  static constexpr std::size_t kBatch = 1000;  ///< that page puts a batch on its call stack

  explicit PickleWriter(ByteSink sink);

  void string(std::string_view text);  ///< repeated strings are references
  void integer(std::int64_t value);
  void real(double value);
  void boolean(bool value);
  void pair(std::int64_t a, std::int64_t b);

  void begin_list();
  void begin_dict();
  void begin_items();
  void end_list_items();
  void end_dict_items();

  /// Names the object just written, to be written again by recall.
  std::uint32_t remember();
  void recall(std::uint32_t object);

  /// Ends the pickle: the first error of the sink, if any.
  Status finish();

 private:
  void byte(std::uint8_t value) { buffer_.push_back(static_cast<char>(value)); }
  void little_endian(std::uint64_t value, int bytes);
  void flush_when_full();

  ByteSink sink_;
  std::string buffer_;
  Status status_;
  std::uint32_t memo_ = 0;
  std::unordered_map<std::string, std::uint32_t> strings_;
};

}  // namespace headroom::replay
