#include "simulator/replay/text_file.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "models/base/input_files.h"
#include "simulator/replay/expansion.h"

namespace headroom::replay {
namespace {

tl::unexpected<Error> bad(const std::string& path, std::string message) {
  return fail(Error{.message = std::move(message), .file = path, .key = {}});
}

}  // namespace

Result<std::string> read_text_file(const std::string& path, Bytes limit) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) return bad(path, "expected a file, found a directory");
  const gzFile file = gzopen(path.c_str(), "rb");
  if (file == nullptr) return bad(path, fmt::format("could not be opened: {}", std::strerror(errno)));
  note_input(path);
  const std::uintmax_t bytes = std::filesystem::file_size(path, error);
  const Bytes compressed = error || gzdirect(file) != 0 ? 0 : static_cast<Bytes>(bytes);
  std::string text;
  std::size_t size = 0;
  // By a quarter: while it moves, old and new text are both in memory.
  const std::size_t first =
      std::max(std::size_t{1} << 16, compressed > 0 || error ? 0 : static_cast<std::size_t>(bytes) + 1);
  for (;;) {
    text.resize(std::min(std::max(first, size + size / 4 + 1), static_cast<std::size_t>(limit) + 1));
    const auto room = static_cast<unsigned>(std::min<std::size_t>(text.size() - size, std::size_t{1} << 30));
    const int got = gzread(file, text.data() + size, room);
    if (got < 0 || static_cast<Bytes>(size) + std::max(got, 0) > limit) break;
    if (expands_too_far(static_cast<Bytes>(size) + got, compressed)) {
      gzclose(file);
      return bad(path, kExpandsTooFar);
    }
    size += static_cast<std::size_t>(got);
    if (got == 0) {
      int code = Z_OK;
      gzerror(file, &code);
      gzclose(file);
      if (code != Z_OK) return bad(path, "expected a whole gzip archive, found a truncated one");
      text.resize(size);
      return text;
    }
  }
  int code = Z_OK;
  std::string reason = gzerror(file, &code);
  gzclose(file);
  if (reason.starts_with(path + ": ")) reason.erase(0, path.size() + 2);
  if (code != Z_OK) return bad(path, fmt::format("could not be read: {}", reason));
  return bad(path, fmt::format("expected at most {}, found more", format_bytes(limit)));
}

}  // namespace headroom::replay
