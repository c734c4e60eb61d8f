#include "models/architecture/lora_defaults.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace headroom {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(LoraDefaults, ArePeftsByTypeOfModel) {
  EXPECT_THAT(default_lora_targets("qwen2"), ElementsAre("q_proj", "v_proj"));
  EXPECT_THAT(default_lora_targets("gpt2"), ElementsAre("c_attn"));
  EXPECT_THAT(default_lora_targets("phi"), ElementsAre("q_proj", "v_proj", "fc1", "fc2"));
  EXPECT_THAT(default_lora_targets("deepseek_v2"), IsEmpty()) << "PEFT asks for targets";
  EXPECT_THAT(default_lora_targets("no such type"), IsEmpty());
}

}  // namespace
}  // namespace headroom
