#include "models/presets/mention.h"

#include <gtest/gtest.h>

namespace headroom {
namespace {

std::string mentioned(std::string_view name) { return mentioned_preset(name).name; }

TEST(MentionedPreset, FindsTheModelThatANameWasMadeFrom) {
  EXPECT_EQ(mentioned("/data/base_models/qwen2.5-3b-1epoch-hard"), "Qwen/Qwen2.5-3B");
  EXPECT_EQ(mentioned("models/qwen2.5_coder_7b_instruct"), "Qwen/Qwen2.5-Coder-7B-Instruct");
  EXPECT_EQ(mentioned("me/pixels-qwen2-5vl-3b-sft"), "Qwen/Qwen2.5-VL-3B-Instruct");
  EXPECT_EQ(mentioned("Me/search-qwen_qwen3-8b-grpo-n16-b128-t1.0-lr1e-6"), "Qwen/Qwen3-8B");
  EXPECT_EQ(mentioned("/Qwen3-30B-MoE-merge"), "Qwen/Qwen3-30B-A3B");
}

TEST(MentionedPreset, LooksAboveTheFoldersOfACheckpoint) {
  EXPECT_EQ(mentioned("checkpoint/multiturn-sft-qwen-2.5-7b-instruct/global_step_372"), "Qwen/Qwen2.5-7B-Instruct");
  EXPECT_EQ(mentioned("out/Llama-3.2-3B-math/global_step_40/actor/huggingface/"), "meta-llama/Llama-3.2-3B");
  EXPECT_EQ(mentioned("qwen2.5-7b/other"), "");  // another model's folder
  EXPECT_EQ(mentioned("global_step_4/actor"), "");
}

TEST(MentionedPreset, TakesTheLongestName) {
  EXPECT_EQ(mentioned("x-DeepSeek-R1-Distill-Qwen-7B-x"), "deepseek-ai/DeepSeek-R1-Distill-Qwen-7B");
  EXPECT_EQ(mentioned("qwen2-57b-a14b-x"), "Qwen/Qwen2-57B-A14B");
}

TEST(MentionedPreset, NeedsFamilyAndSizeAsWords) {
  for (const char* name : {"my-7b", "qwen-7", "qwen2.5", "myqwen2.5-7b", "qwen2.5-7bx", "", "/", "Qwen25-7B"})
    EXPECT_EQ(mentioned(name), "") << name;
}

TEST(MentionedPreset, FindsNothingWhereTheShapeIsAnother) {
  for (const char* name : {"Qwen2.5-7B-Instruct-AWQ", "Qwen2.5-7B-pruned", "Qwen2.5-7B-to-3b", "Qwen2.5-7B-MoE",
                           "Qwen2.5-7B-omni", "llama-3.1-8b-4bit"})
    EXPECT_EQ(mentioned(name), "") << name;
}

}  // namespace
}  // namespace headroom
