#include "models/architecture/stacked_experts.h"

#include <gtest/gtest.h>

#include "models/architecture/read.h"
#include "models/presets/presets.h"

namespace headroom {
namespace {

TEST(StackedExperts, AreTheCheckpointsAndNotTheModels) {
  const auto stacked = [](const char* name) {
    return has_stacked_checkpoint(make_architecture(find_preset(name).value(), name).value());
  };
  EXPECT_TRUE(stacked("openai/gpt-oss-20b"));
  EXPECT_FALSE(stacked("Qwen/Qwen3-30B-A3B"));
  EXPECT_FALSE(stacked("deepseek-ai/DeepSeek-V3"));
}

}  // namespace
}  // namespace headroom
