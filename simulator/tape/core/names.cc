#include "simulator/tape/core/names.h"

#include <deque>
#include <mutex>

namespace headroom::tape {
namespace {

/// Filled by static initialisers and never shrunk; searches may run programs on several threads.
struct OperationNames {
  std::mutex mutex;
  std::deque<std::string> texts{""};
  std::unordered_map<std::string, std::uint16_t> indices;
};

OperationNames& operation_names() {
  static OperationNames names;
  return names;
}

}  // namespace

std::uint16_t operation_name(std::string_view name) {
  OperationNames& names = operation_names();
  const std::lock_guard lock(names.mutex);
  const auto [found, inserted] =
      names.indices.try_emplace(std::string(name), static_cast<std::uint16_t>(names.texts.size()));
  if (inserted) names.texts.emplace_back(name);
  return found->second;
}

const std::string& operation_text(std::uint16_t index) {
  OperationNames& names = operation_names();
  const std::lock_guard lock(names.mutex);
  return index < names.texts.size() ? names.texts[index] : names.texts[0];
}

std::uint32_t ModuleNames::intern(const std::string& path) {
  const auto [found, inserted] = indices_.try_emplace(path, static_cast<std::uint32_t>(texts_.size()));
  if (inserted) texts_.push_back(path);
  return found->second;
}

}  // namespace headroom::tape
