#include "models/architecture/stacked_experts.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace headroom {

bool has_stacked_checkpoint(const Architecture& model) {
  constexpr std::array kFamilies = {std::string_view("gpt_oss"), std::string_view("qwen3_vl_moe"),
                                    std::string_view("qwen3_5_moe")};
  return std::any_of(kFamilies.begin(), kFamilies.end(),
                     [&](std::string_view family) { return model.family.starts_with(family); });
}

}  // namespace headroom
