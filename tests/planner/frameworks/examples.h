#pragma once

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/support/data.h"

namespace headroom::test {

/// Every file of configs/examples/FRAMEWORK, sorted; its folders hold what the files include.
inline std::vector<std::string> examples(const std::string& framework) {
  std::vector<std::string> out;
  for (const auto& entry : std::filesystem::directory_iterator(source("configs/examples/" + framework)))
    if (entry.is_regular_file()) out.push_back(entry.path().string());
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace headroom::test
