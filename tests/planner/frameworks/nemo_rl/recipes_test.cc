#include <map>

#include "tests/planner/cli/outcome.h"
#include "tests/planner/frameworks/nemo_rl/run.h"

namespace headroom {
namespace {

/// A recipe of the collection with what its suite runs it on.
struct Recipe {
  std::string id, path, gpu, model;
  std::vector<std::string> overrides;
};

std::vector<Recipe> recipes(const std::string& root) {
  std::vector<Recipe> out;
  const Result<Document> tests = read_document(root + "/nemo-rl/tests.json", {.bytes = 64 << 20, .nodes = 2'000'000});
  EXPECT_TRUE(tests);
  for (const Document& test : tests->items()) {
    const Document* path = test.find_path("config.recipe.path");
    const Document* folder = test.find_path("config.recipe.local_root");
    if (path == nullptr || folder == nullptr) continue;
    const std::size_t at = folder->text().find('@');
    const std::string ref = at == std::string::npos ? "head" : folder->text().substr(at + 1);
    Recipe recipe{.id = test.find("id")->text(),
                  .path = root + "/nemo-rl/recipes/" + ref + "/" + path->text(),
                  .gpu = "h100",
                  .model = {},
                  .overrides = {}};
    const Document* gpu = test.find_path("hardware.gpu");
    if (gpu != nullptr && gpu->text().find("B200") != std::string::npos) recipe.gpu = "b200";
    if (const Document* given = test.find_path("config.extra_overrides"); given != nullptr)
      for (const Document& word : given->items()) {
        // The suite's machines keep that model's weights at a place of their own.
        if (word.text().starts_with("policy.model_name=$NRL_DEEPSEEK_V3")) recipe.model = "deepseek-ai/DeepSeek-V3";
        if (word.text().find('=') != std::string::npos && word.text().find('$') == std::string::npos)
          recipe.overrides.push_back(word.text());
      }
    out.push_back(std::move(recipe));
  }
  return out;
}

/// Every recipe ran, so what is read and determined fits; what is not read is refused for a reason of its own.
TEST(NemoRecipes, WhatRanFitsOrIsRefusedByName) {
  const auto truth = test::truth();
  if (!truth) GTEST_SKIP() << "HEADROOM_TRUTH is not set";
  std::map<std::string, int> counts;
  std::vector<std::string> wrong;
  for (const Recipe& recipe : recipes(truth->string())) {
    std::vector<std::string> words = {"estimate", recipe.path, "--gpu", recipe.gpu, "--json", "-"};
    for (const std::string& change : recipe.overrides) words.insert(words.end(), {"--set", change});
    if (!recipe.model.empty()) words.insert(words.end(), {"--model", recipe.model});
    const cli::Outcome outcome = cli::run_words(words);
    const bool open = outcome.out.find("not modelled: ") != std::string::npos;
    if (outcome.code == 2) {
      ++counts["refused"];
      EXPECT_THAT(outcome.err, testing::AnyOf(testing::HasSubstr("no preset of a model named"),
                                              testing::HasSubstr("is not read yet"),
                                              testing::HasSubstr("expected a multiple of the"),
                                              testing::HasSubstr("has no program"), testing::HasSubstr("no program yet"),
                                              testing::HasSubstr("stands for a model that is not named here"),
                                              testing::HasSubstr("no tensor program")))
          << recipe.id;
      continue;
    }
    if (outcome.code == 0) {
      ++counts["fits"];
      continue;
    }
    ++counts[open ? "undetermined" : "does not fit"];
    if (!open) wrong.push_back(recipe.id);
  }
  for (const auto& [verdict, count] : counts) RecordProperty(verdict, count);
  EXPECT_GE(counts["fits"], 172);
  // Rows as long as their caps, of runs whose data are shorter: Gemma 3's norms in fp32, two of which the first
  // worker does not recompute, take 1.4 GB a layer at 16,384 tokens.
  EXPECT_THAT(wrong, testing::IsSubsetOf({"nemo-test-llm-sft-llama3.1-70b-8n8g-tp4pp2-long-megatron",
                                          "nemo-test-llm-grpo-gemma3-27b-it-8n8g-fsdp2tp8-actckpt-long"}));
}

}  // namespace
}  // namespace headroom
