#include "planner/study/finished.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "models/document/document.h"
#include "planner/frameworks/job/file.h"
#include "planner/study/cell_json.h"
#include "simulator/hardware/file.h"

namespace headroom::study {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kFormat = "headroom.study-cells/1";

/// FNV-1a, twice with different starts: 128 bits.
class Hash {
 public:
  void add(std::string_view text) {
    for (const char c : text) byte(static_cast<unsigned char>(c));
    byte(0);
  }
  void add(std::int64_t value) {
    for (int i = 0; i < 8; ++i) byte(static_cast<unsigned char>(value >> (8 * i)));
  }
  std::string text() const { return fmt::format("{:016x}{:016x}", a_, b_); }

 private:
  void byte(unsigned char c) {
    a_ = (a_ ^ c) * 0x100000001b3u;
    b_ = (b_ ^ c ^ 0x5au) * 0x100000001b3u;
  }
  std::uint64_t a_ = 0xcbf29ce484222325u, b_ = 0x84222325cbf29ce4u;
};

/// A job file names models; what they are stands in their tensors and layers.
void add(const Architecture& model, Hash& hash) {
  hash.add(model.family);
  hash.add(model.decoder.vocabulary);
  hash.add(model.decoder.max_positions);
  hash.add(static_cast<std::int64_t>(model.dtype));
  for (const LayerGroup& group : model.decoder.groups) {
    hash.add(group.count);
    hash.add(group.layer.attention.heads);
    hash.add(group.layer.attention.kv_heads);
    hash.add(group.layer.attention.head_dim);
    hash.add(group.layer.attention.sliding_window);
    hash.add(group.layer.mlp.activation);
    hash.add(group.layer.mlp.experts_per_token);
  }
  for (const Tensor& tensor : model.tensors) {
    hash.add(tensor.name);
    hash.add(tensor.tied_to);
    for (const std::int64_t size : tensor.shape) hash.add(size);
  }
}

tl::unexpected<Error> at(const std::string& file, std::string message, Error::Kind kind, int line = 0) {
  return fail(Error{.message = std::move(message), .file = file, .line = line, .key = {}, .kind = kind});
}

/// Appends in one call of the system. 0 or the error number.
int append(const std::string& file, std::string_view text) {
  const int descriptor = open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (descriptor < 0) return errno;
  ssize_t written = 0;
  do written = write(descriptor, text.data(), text.size());
  while (written < 0 && errno == EINTR);
  int error = written < 0 ? errno : static_cast<std::size_t>(written) < text.size() ? ENOSPC : 0;
  if (close(descriptor) != 0 && error == 0) error = errno;
  return error;
}

}  // namespace

std::string key_of(const Job& job, const Hardware& hardware, const std::string& build) {
  Hash hash;
  hash.add(build);
  hash.add(write_yaml(jobfile::write_job_file(job)));
  hash.add(write_yaml(write_hardware(hardware)));
  for (const Role& role : job.roles)
    if (role.model) add(*role.model, hash);
  for (const Engine& engine : job.engines)
    if (engine.model) add(*engine.model, hash);
  return hash.text();
}

Finished::Finished(Finished&& other) noexcept
    : file_(std::move(other.file_)), build_(std::move(other.build_)), cells_(std::move(other.cells_)) {}

Result<Finished> Finished::open(const std::string& file, std::string build) {
  Finished out;
  out.file_ = file;
  out.build_ = std::move(build);
  struct stat status {};
  const bool there = stat(file.c_str(), &status) == 0;
  if (there && !S_ISREG(status.st_mode)) return at(file, "expected a file for finished cells", Error::Kind::input);
  if (!there || status.st_size == 0) {
    const std::string head = Json{{"schema", kFormat}}.dump() + "\n";
    if (const int error = append(file, head))
      return at(file, fmt::format("could not be written: {}", std::strerror(error)), Error::Kind::incomplete);
    return out;
  }
  constexpr std::int64_t kMost = std::int64_t{4} << 30;
  HEADROOM_ASSIGN(const std::string text, read_text(file, kMost));
  int number = 0;
  for (std::size_t from = 0; from < text.size();) {
    const std::size_t end = std::min(text.find('\n', from), text.size());
    const Json line = Json::parse(text.begin() + static_cast<std::ptrdiff_t>(from),
                                  text.begin() + static_cast<std::ptrdiff_t>(end), nullptr, false);
    if (++number == 1 && (!line.is_object() || line.value("schema", "") != kFormat))
      return at(file, fmt::format("expected finished cells of a study ({}), found something else", kFormat),
                Error::Kind::input, 1);
    if (line.is_object() && line.contains("key") && line["key"].is_string() && line.contains("cell"))
      if (auto cell = cell_from_json(line["cell"]))
        out.cells_.insert_or_assign(line["key"].get<std::string>(), std::move(*cell));
    from = end + 1;
  }
  // A line that was cut off ends here, so that the next one is whole.
  if (!text.ends_with('\n'))
    if (const int error = append(file, "\n"))
      return at(file, fmt::format("could not be written: {}", std::strerror(error)), Error::Kind::incomplete);
  return out;
}

const Cell* Finished::find(const std::string& key) const {
  const auto found = cells_.find(key);
  return found == cells_.end() ? nullptr : &found->second;
}

Status Finished::add(const std::string& key, const Cell& cell) {
  const std::string line = Json{{"key", key}, {"cell", cell_json(cell)}}.dump(
                               -1, ' ', false, Json::error_handler_t::replace) +
                           "\n";
  const std::lock_guard lock(mutex_);
  if (const int error = append(file_, line))
    return at(file_, fmt::format("could not be written: {}", std::strerror(error)), Error::Kind::incomplete);
  return {};
}

}  // namespace headroom::study
