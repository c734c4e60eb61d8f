#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "models/base/result.h"

namespace headroom::replay {

/// Bytes read once from front to back: a file, plain or gzip, a standard stream, or memory. Files are read,
/// not mapped: a file that shrinks meanwhile ends early instead of ending the program, and read pages cost no
/// memory.
class ByteSource {
 public:
  /// Opens `path`; `-` is standard input. gzip is recognised by content.
  static Result<ByteSource> open(const std::string& path);
  /// Reads from `bytes`, which outlive the source.
  static ByteSource memory(std::string_view bytes);

  ByteSource(ByteSource&&) noexcept;
  ByteSource& operator=(ByteSource&&) noexcept;
  ~ByteSource();

  /// Up to `size` bytes into `to`; 0 at the end. Damaged compressed data and read errors are an error.
  Result<std::size_t> read(char* to, std::size_t size);

  /// Share of the file read so far, 0 to 1; negative when the size is unknown (standard input).
  double progress() const;

  const std::string& name() const { return name_; }  ///< for messages

  /// Bytes of the file (of the compressed one); 0 when unknown.
  std::int64_t file_size() const { return size_; }

 private:
  struct File;
  ByteSource();

  std::string name_;
  std::string_view memory_;
  std::size_t position_ = 0;
  std::int64_t size_ = 0;
  std::int64_t given_ = 0;  ///< bytes read of what the file holds
  std::unique_ptr<File> file_;
};

/// The whole of a source, at most `limit` bytes; more is an error.
Result<std::string> read_all(ByteSource& source, std::size_t limit);

}  // namespace headroom::replay
