#include "tests/support/data.h"

#include <cstdlib>

namespace headroom::test {

std::filesystem::path data(const std::string& name) {
  return source("tests/data") / name;
}

std::filesystem::path source(const std::string& name) {
  return std::filesystem::path(HEADROOM_SOURCE_DIR) / name;
}

std::optional<std::filesystem::path> truth() {
  const char* root = std::getenv("HEADROOM_TRUTH");
  if (root == nullptr || *root == '\0') return std::nullopt;
  return std::filesystem::path(root);
}

}  // namespace headroom::test
