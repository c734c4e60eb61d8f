#include "planner/frameworks/lora_targets.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "models/architecture/read.h"
#include "models/presets/presets.h"

namespace headroom::cases {
namespace {

using Names = std::vector<std::string>;

Architecture model_of(const char* name) {
  const auto config = find_preset(name);
  EXPECT_TRUE(config);
  auto model = make_architecture(*config, name);
  EXPECT_TRUE(model) << model.error().text();
  return std::move(*model);
}

/// How many of the modules that are left hold `part` in their names.
std::ptrdiff_t left(const Architecture& model, const Names& targets, const Names& excluded, bool is_list, const char* part) {
  const auto modules = without_modules(model, {.names = targets, .unmatched = {}}, excluded, is_list);
  EXPECT_TRUE(modules) << modules.error().message;
  if (!modules) return -1;
  return std::count_if(modules->begin(), modules->end(),
                       [&](const std::string& one) { return one.find(part) != std::string::npos; });
}

TEST(WithoutModules, OneWordMatchesWholeNames) {
  const Architecture model = model_of("Qwen/Qwen2.5-VL-7B-Instruct");
  const auto all = left(model, {"all-linear"}, {"DONT_EXCLUDE"}, false, "visual");
  EXPECT_GT(all, 0);
  EXPECT_EQ(left(model, {"all-linear"}, {".*visual.*"}, false, "visual"), 0);
  EXPECT_EQ(left(model, {"all-linear"}, {".*visual.*"}, false, "q_proj"), 28);
  EXPECT_EQ(left(model, {"all-linear"}, {".*visual.*"}, false, "lm_head"), 0);
  EXPECT_EQ(left(model, {"all-linear"}, {"visual"}, false, "visual"), all);
}

TEST(WithoutModules, AListHoldsNamesOrTheirEnds) {
  const Architecture model = model_of("Qwen/Qwen2.5-0.5B");
  EXPECT_EQ(left(model, {"q_proj", "v_proj"}, {"layers.0.self_attn.q_proj"}, true, ""), 47);
  EXPECT_EQ(left(model, {"all-linear"}, {"q_proj"}, true, ""), 24 * 6);
}

TEST(WithoutModules, SaysWhatIsWrong) {
  const Architecture model = model_of("Qwen/Qwen2.5-0.5B");
  const LoraTargets all{.names = {"all-linear"}, .unmatched = {}};
  EXPECT_THAT(without_modules(model, all, {"("}, false).error().message, testing::HasSubstr("a regular expression"));
  EXPECT_THAT(without_modules(model, all, {".*"}, false).error().message, testing::HasSubstr("leave modules"));
}

}  // namespace
}  // namespace headroom::cases
