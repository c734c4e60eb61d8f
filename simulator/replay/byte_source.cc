#include "simulator/replay/byte_source.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "models/base/input_files.h"
#include "simulator/replay/expansion.h"

namespace headroom::replay {

struct ByteSource::File {
  gzFile handle = nullptr;
  ~File() {
    if (handle != nullptr) gzclose(handle);
  }
};

ByteSource::ByteSource() = default;
ByteSource::ByteSource(ByteSource&&) noexcept = default;
ByteSource& ByteSource::operator=(ByteSource&&) noexcept = default;
ByteSource::~ByteSource() = default;

Result<ByteSource> ByteSource::open(const std::string& path) {
  ByteSource source;
  source.name_ = path;
  source.file_ = std::make_unique<File>();
  const auto cannot = [&](const std::string& why) {
    return fail(Error{.message = "cannot be read: " + why, .file = path, .key = {}});
  };
  if (path == "-") {
    source.file_->handle = gzdopen(dup(STDIN_FILENO), "rb");
  } else {
    struct stat info {};
    if (stat(path.c_str(), &info) != 0) return cannot(std::strerror(errno));
    if (S_ISDIR(info.st_mode)) return cannot("it is a directory");
    source.size_ = info.st_size;
    source.file_->handle = gzopen(path.c_str(), "rb");
  }
  if (source.file_->handle == nullptr) return cannot(std::strerror(errno));
  note_input(path);
  gzbuffer(source.file_->handle, 1 << 17);  // Larger reads of plain files then go past it.
  return source;
}

ByteSource ByteSource::memory(std::string_view bytes) {
  ByteSource source;
  source.name_ = "(memory)";
  source.memory_ = bytes;
  source.size_ = static_cast<std::int64_t>(bytes.size());
  return source;
}

Result<std::size_t> ByteSource::read(char* to, std::size_t size) {
  if (!file_) {
    const std::size_t n = std::min(size, memory_.size() - position_);
    std::memcpy(to, memory_.data() + position_, n);
    position_ += n;
    return n;
  }
  const int n = gzread(file_->handle, to, static_cast<unsigned>(std::min<std::size_t>(size, 1u << 30)));
  int code = Z_OK;
  const char* text = gzerror(file_->handle, &code);
  if (n < 0 || (code != Z_OK && code != Z_STREAM_END)) {
    std::string_view why = code == Z_ERRNO ? std::strerror(errno) : text;
    if (why.starts_with(name_ + ": ")) why.remove_prefix(name_.size() + 2);
    return fail(Error{.message = "cannot be read to its end: " + std::string(why), .file = name_, .key = {}});
  }
  given_ += n;
  if (size_ > 0 && gzdirect(file_->handle) == 0 && expands_too_far(given_, size_))
    return fail(Error{.message = kExpandsTooFar, .file = name_, .key = {}});
  return static_cast<std::size_t>(n);
}

double ByteSource::progress() const {
  if (size_ <= 0) return -1;
  const auto done = file_ ? static_cast<double>(gzoffset(file_->handle)) : static_cast<double>(position_);
  return std::clamp(done / static_cast<double>(size_), 0.0, 1.0);
}

Result<std::string> read_all(ByteSource& source, std::size_t limit) {
  std::string all;
  constexpr std::size_t kPiece = 1 << 20;
  for (;;) {
    const std::size_t size = all.size();
    all.resize(size + kPiece);
    HEADROOM_ASSIGN(const std::size_t n, source.read(all.data() + size, kPiece));
    all.resize(size + n);
    if (n == 0) return all;
    if (all.size() > limit)
      return fail(
          Error{.message = fmt::format("is larger than the {} bytes that are read of such a file", limit),
                .file = source.name(),
                .key = {}});
  }
}

}  // namespace headroom::replay
