#include "models/base/input_files.h"

#include <sys/stat.h>

#include <mutex>
#include <optional>
#include <set>
#include <utility>

namespace headroom {
namespace {

using Identity = std::pair<dev_t, ino_t>;

struct Known {
  std::mutex mutex;
  std::set<Identity> files;
};

Known& known() {
  static Known files;
  return files;
}

std::optional<Identity> identity(const std::string& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
  return Identity{status.st_dev, status.st_ino};
}

}  // namespace

void note_input(const std::string& path) {
  const std::optional<Identity> file = identity(path);
  if (!file) return;
  const std::lock_guard lock(known().mutex);
  known().files.insert(*file);
}

bool is_input(const std::string& path) {
  const std::optional<Identity> file = identity(path);
  const std::lock_guard lock(known().mutex);
  return file && known().files.contains(*file);
}

void forget_inputs() {
  const std::lock_guard lock(known().mutex);
  known().files.clear();
}

}  // namespace headroom
