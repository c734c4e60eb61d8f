#include "models/architecture/family.h"

#include <algorithm>
#include <array>
#include <vector>

#include "models/base/nearest.h"

namespace headroom {

extern const Family kGpt2, kGptNeox, kLlama, kOpt, kQwen2, kQwen3;

namespace {

constexpr std::array kFamilies = {
    &kGpt2, &kGptNeox, &kLlama, &kOpt, &kQwen2, &kQwen3,
};

}  // namespace

std::span<const Family* const> families() {
  return kFamilies;
}

const Family* find_family(std::string_view name) {
  const auto at =
      std::find_if(kFamilies.begin(), kFamilies.end(), [&](const Family* f) { return f->name == name; });
  return at == kFamilies.end() ? nullptr : *at;
}

std::string nearest_family(std::string_view name) {
  std::vector<std::string_view> names;
  for (const Family* family : kFamilies) names.push_back(family->name);
  return nearest(name, names);
}

}  // namespace headroom
