#include "tests/support/data.h"

#include <unistd.h>

#include <cstdlib>
#include <string>
#include <system_error>

namespace headroom::test {

std::filesystem::path data(const std::string& name) {
  return source("tests/data") / name;
}

std::filesystem::path source(const std::string& name) {
  return std::filesystem::path(HEADROOM_SOURCE_DIR) / name;
}

std::filesystem::path scratch() {
  struct Folder {
    pid_t owner = ::getpid();
    std::filesystem::path path =
        std::filesystem::temp_directory_path() / ("headroom-test-" + std::to_string(owner));
    Folder() {
      std::filesystem::remove_all(path);
      std::filesystem::create_directories(path);
    }
    ~Folder() {
      if (::getpid() != owner) return;  // a forked child's end
      std::error_code ignored;
      std::filesystem::remove_all(path, ignored);
    }
  };
  static const Folder folder;
  return folder.path;
}

std::optional<std::filesystem::path> truth() {
  const char* root = std::getenv("HEADROOM_TRUTH");
  if (root == nullptr || *root == '\0') return std::nullopt;
  return std::filesystem::path(root);
}

}  // namespace headroom::test
