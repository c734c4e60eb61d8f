#include "models/presets/presets.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "models/architecture/family.h"
#include "models/architecture/read.h"

namespace headroom {
namespace {

using ::testing::HasSubstr;

std::int64_t value(const Document& config, const char* key) {
  const Document* found = config.find(key);
  return found == nullptr ? -1 : found->as_int().value_or(-1);
}

TEST(Presets, HoldTheModelsThatPeopleTrain) {
  std::set<std::string> names;
  for (const Preset& preset : presets()) names.insert(preset.names.begin(), preset.names.end());
  EXPECT_GE(presets().size(), 80u);
  for (const char* name :
       {"meta-llama/Llama-2-7b-hf", "meta-llama/Llama-3.1-405B", "meta-llama/Llama-3.2-1B-Instruct",
        "meta-llama/Llama-3.3-70B-Instruct", "Qwen/Qwen2.5-7B-Instruct", "Qwen/Qwen2.5-Math-7B",
        "Qwen/Qwen3-30B-A3B", "Qwen/Qwen2.5-VL-7B-Instruct", "deepseek-ai/DeepSeek-V3",
        "deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B", "mistralai/Mixtral-8x7B-v0.1", "google/gemma-3-27b-it",
        "microsoft/phi-4", "facebook/opt-350m", "EleutherAI/pythia-6.9b", "gpt2", "bigscience/bloom-7b1",
        "openai/gpt-oss-120b"})
    EXPECT_TRUE(names.contains(name)) << name;
}

TEST(Presets, EveryNameBelongsToOnePreset) {
  std::map<std::string, int> seen;
  for (const Preset& preset : presets())
    for (const std::string& name : preset.names) {
      EXPECT_EQ(++seen[name], 1) << name;
      const auto found = look_up_preset(name);
      ASSERT_TRUE(found) << found.error().text();
      EXPECT_EQ((*found)->source, preset.source) << name;
      EXPECT_EQ((*found)->names, preset.names) << name;
    }
}

TEST(Presets, SayWhereTheirValuesComeFrom) {
  for (const Preset& preset : presets())
    EXPECT_THAT(preset.source, HasSubstr("config.json of ")) << preset.names[0];
}

/// A typing error in a size shows in the number of parameters, which was published independently of it.
TEST(Presets, BuildModelsWithThePublishedNumberOfParameters) {
  int checked = 0;
  for (const Preset& preset : presets()) {
    ASSERT_NE(find_family(preset.config.find("model_type")->text()), nullptr) << preset.names[0];
    const auto model = make_architecture(preset.config, preset.names[0]);
    ASSERT_TRUE(model) << preset.names[0] << ": " << model.error().text();
    EXPECT_GT(model->decoder.max_positions, 0) << preset.names[0];
    if (preset.parameters == 0) continue;
    EXPECT_EQ(model->parameters(), preset.parameters) << preset.names[0];
    ++checked;
  }
  EXPECT_GE(checked, 180);
}

TEST(LookUpPreset, IgnoresCaseAndMissingOrganisation) {
  for (const char* name : {"Qwen/Qwen2.5-7B-Instruct", "qwen/qwen2.5-7b-instruct", "Qwen2.5-7B-Instruct",
                           "QWEN2.5-7B-INSTRUCT"}) {
    const auto config = find_preset(name);
    ASSERT_TRUE(config) << name << ": " << config.error().text();
    EXPECT_EQ(value(*config, "hidden_size"), 3584);
    EXPECT_EQ(value(*config, "max_position_embeddings"), 32768);
  }
}

TEST(LookUpPreset, TakesTheEndOfALocalPath) {
  for (const char* name : {"/data/models/Qwen2.5-0.5B-Instruct", "$HOME/models/Qwen/Qwen2.5-0.5B-Instruct/",
                           "~/Qwen2.5-0.5B-Instruct", "a/b/c/Qwen2.5-0.5B-Instruct"}) {
    const auto config = find_preset(name);
    ASSERT_TRUE(config) << name << ": " << config.error().text();
    EXPECT_EQ(value(*config, "hidden_size"), 896);
  }
}

TEST(LookUpPreset, OneKeyMaySayTheSameForManyAndDifferForOne) {
  EXPECT_EQ(value(*find_preset("Qwen/Qwen2.5-7B"), "max_position_embeddings"), 131072);
  EXPECT_EQ(find_preset("deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B")->find("tie_word_embeddings")->as_bool(),
            false);
  EXPECT_EQ(find_preset("Qwen/Qwen2.5-Math-1.5B")->find("tie_word_embeddings")->as_bool(), true);
}

TEST(LookUpPreset, NamesTheNearestOnAMiss) {
  const auto typo = find_preset("Qwen/Qwen2.5-7B-Instuct");
  ASSERT_FALSE(typo);
  EXPECT_THAT(typo.error().message, HasSubstr("nearest: Qwen/Qwen2.5-7B-Instruct"));
  const auto dash = find_preset("lama-2-7b-hf");
  ASSERT_FALSE(dash);
  EXPECT_THAT(dash.error().message, HasSubstr("meta-llama/Llama-2-7b-hf"));
}

TEST(LookUpPreset, TakesAnOrganisationsCopyForTheModel) {
  const auto copy = look_up_preset("someone/Qwen2.5-7B-Instruct");
  ASSERT_TRUE(copy) << copy.error().message;
  EXPECT_EQ(*copy, *look_up_preset("Qwen/Qwen2.5-7B-Instruct"));
}

TEST(LookUpPreset, TakesWhatWasTrainedFromAModelForIt) {
  for (const char* name : {"Qwen2.5-7B-Instruct-GRPO", "me/qwen2.5-7b-instruct-sft-SGLang-RL",
                           "/root/models/Qwen2.5-7B-Instruct_merged"}) {
    const auto made = look_up_preset(name);
    ASSERT_TRUE(made) << made.error().message;
    EXPECT_EQ(*made, *look_up_preset("Qwen/Qwen2.5-7B-Instruct")) << name;
  }
  EXPECT_FALSE(look_up_preset("Qwen2.5-7B-Instruct-pruned"));  // may be of another shape
}

TEST(LookUpPreset, WithoutANearOneSaysWhatToDo) {
  for (const char* name : {"xyz", "/", "", "//", "."}) {
    const auto none = find_preset(name);
    ASSERT_FALSE(none) << name;
    EXPECT_FALSE(none.error().message.empty());
  }
  EXPECT_THAT(find_preset("xyzzy-quux").error().message, HasSubstr("config.json"));
}

TEST(ReadPresets, NamesTheLineOfABadEntry) {
  const std::array<EmbeddedFile, 1> file{
      {{"a.yaml", "presets:\n  - names: [o/m]\n    source: here\n    config: {hidden_size: 1}\n"}}};
  const auto read = read_presets(file);
  ASSERT_FALSE(read);
  EXPECT_THAT(read.error().text(), HasSubstr("a.yaml:2: config: "));
  const std::array<EmbeddedFile, 1> unknown{
      {{"a.yaml",
        "presets:\n  - names: [o/m]\n    source: s\n    sauce: t\n    config: {model_type: llama}\n"}}};
  EXPECT_THAT(read_presets(unknown).error().text(), HasSubstr("a.yaml:4: sauce: "));
}

}  // namespace
}  // namespace headroom
