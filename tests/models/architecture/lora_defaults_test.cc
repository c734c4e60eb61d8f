#include "models/architecture/lora_defaults.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace headroom {
namespace {

using ::testing::ElementsAre;

TEST(LoraDefaults, ArePeftsByTypeOfModel) {
  EXPECT_THAT(*lora_targets({}, "qwen2", "targets"), ElementsAre("q_proj", "v_proj"));
  EXPECT_THAT(*lora_targets({}, "gpt2", "targets"), ElementsAre("c_attn"));
  EXPECT_THAT(*lora_targets({}, "phi", "targets"), ElementsAre("q_proj", "v_proj", "fc1", "fc2"));
  EXPECT_THAT(*lora_targets({"o_proj"}, "phi", "targets"), ElementsAre("o_proj")) << "what is named counts";
  for (const char* family : {"deepseek_v2", "no such type"}) {
    const auto none = lora_targets({}, family, "targets");
    ASSERT_FALSE(none) << "PEFT asks for targets";
    EXPECT_EQ(none.error().key, "targets");
  }
}

}  // namespace
}  // namespace headroom
