#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace headroom::tape {

/// The index of an operation's name in the process-wide table, made on first use: operators name themselves
/// once, in static constants (`aten::mm`, `MmBackward0`). At most 65,535 names.
std::uint16_t operation_name(std::string_view name);
/// The name behind an index; empty for 0 and unknown ones.
const std::string& operation_text(std::uint16_t index);

/// Module paths of one program: `actor.model.layers.3.mlp.down_proj`. Index 0 is the empty path.
class ModuleNames {
 public:
  ModuleNames() : texts_{""}, indices_{{"", 0}} {}
  std::uint32_t intern(const std::string& path);
  const std::string& text(std::uint32_t index) const { return texts_[index]; }
  std::uint32_t size() const { return static_cast<std::uint32_t>(texts_.size()); }

 private:
  std::vector<std::string> texts_;
  std::unordered_map<std::string, std::uint32_t> indices_;
};

}  // namespace headroom::tape
