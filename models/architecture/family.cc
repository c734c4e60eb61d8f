#include "models/architecture/family.h"

#include <algorithm>
#include <array>
#include <vector>

#include "models/base/nearest.h"

namespace headroom {

// One line a family, in alphabetical order of model_type.
#define HEADROOM_FAMILIES(ENTRY) \
  ENTRY(kBaichuan)               \
  ENTRY(kBloom)                  \
  ENTRY(kCohere)                 \
  ENTRY(kDeepseekV2)             \
  ENTRY(kDeepseekV3)             \
  ENTRY(kFalcon)                 \
  ENTRY(kGemma)                  \
  ENTRY(kGemma2)                 \
  ENTRY(kGemma3)                 \
  ENTRY(kGemma3Text)             \
  ENTRY(kGemma4)                 \
  ENTRY(kGemma4Text)             \
  ENTRY(kGlm)                    \
  ENTRY(kGlm4)                   \
  ENTRY(kGlm4Moe)                \
  ENTRY(kGlm4MoeLite)            \
  ENTRY(kGlm4v)                  \
  ENTRY(kGpt2)                   \
  ENTRY(kGptNeox)                \
  ENTRY(kGptOss)                 \
  ENTRY(kGptJ)                   \
  ENTRY(kGranite)                \
  ENTRY(kInternLm2)              \
  ENTRY(kKimiK2)                 \
  ENTRY(kLlama)                  \
  ENTRY(kMiMo)                   \
  ENTRY(kMinistral3)             \
  ENTRY(kMistral)                \
  ENTRY(kMistral3)               \
  ENTRY(kMixtral)                \
  ENTRY(kNemotronH)              \
  ENTRY(kOlmo)                   \
  ENTRY(kOlmo2)                  \
  ENTRY(kOlmoe)                  \
  ENTRY(kOpt)                    \
  ENTRY(kPhi)                    \
  ENTRY(kPhi3)                   \
  ENTRY(kQwen2)                  \
  ENTRY(kQwen25Vl)               \
  ENTRY(kQwen2Moe)               \
  ENTRY(kQwen2Vl)                \
  ENTRY(kQwen3)                  \
  ENTRY(kQwen35)                 \
  ENTRY(kQwen35Moe)              \
  ENTRY(kQwen35MoeText)          \
  ENTRY(kQwen35Text)             \
  ENTRY(kQwen3Moe)               \
  ENTRY(kQwen3Next)              \
  ENTRY(kQwen3Vl)                \
  ENTRY(kQwen3VlMoe)             \
  ENTRY(kSeedOss)                \
  ENTRY(kSmolLm3)                \
  ENTRY(kStableLm)               \
  ENTRY(kStarcoder2)

#define HEADROOM_DECLARE(family) extern const Family family;
HEADROOM_FAMILIES(HEADROOM_DECLARE)

namespace {

#define HEADROOM_POINT(family) &family,
constexpr std::array kFamilies = {HEADROOM_FAMILIES(HEADROOM_POINT)};

}  // namespace

std::span<const Family* const> families() {
  return kFamilies;
}

const Family* find_family(std::string_view name) {
  const auto at =
      std::find_if(kFamilies.begin(), kFamilies.end(), [&](const Family* f) { return f->name == name; });
  return at == kFamilies.end() ? nullptr : *at;
}

FamilyFacts family_facts(std::string_view name) {
  const Family* family = find_family(name);
  return family == nullptr ? FamilyFacts{} : family->facts;
}

std::string nearest_family(std::string_view name) {
  std::vector<std::string_view> names;
  for (const Family* family : kFamilies) names.push_back(family->name);
  return nearest(name, names);
}

}  // namespace headroom
