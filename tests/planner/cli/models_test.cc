#include "planner/cli/models.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/planner/cli/outcome.h"
#include "tests/support/data.h"

namespace headroom::cli {
namespace {

using Json = nlohmann::ordered_json;
using testing::HasSubstr;

Outcome run_models(std::vector<std::string> words) {
  words.insert(words.begin(), "models");
  return run_words(commands(), words);
}

TEST(Models, ListsFamiliesAndPublicModels) {
  const Outcome table = run_models({});
  EXPECT_EQ(table.code, kDone) << table.err;
  EXPECT_THAT(table.out, HasSubstr("deepseek_v3"));
  EXPECT_THAT(table.out, HasSubstr("Qwen/Qwen2.5-7B-Instruct"));
  const Json json = Json::parse(run_models({"--json", "-"}).out);
  EXPECT_EQ(json["schema"], "headroom.models/1");
  EXPECT_GE(json["models"].size(), 80U);
  for (const auto& model : json["models"])
    EXPECT_FALSE(model["source"].get<std::string>().empty()) << model["name"];
}

TEST(Models, PrintsOneByNameWithoutCaseOrOrganisation) {
  const Outcome outcome = run_models({"qwen2.5-0.5b"});
  EXPECT_EQ(outcome.code, kDone) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("494,032,768"));
  EXPECT_THAT(outcome.out, HasSubstr("model.layers.*.self_attn.q_proj.weight"));
  EXPECT_THAT(outcome.out, HasSubstr("tied to model.embed_tokens.weight"));
}

TEST(Models, WritesTheInventoryAsJson) {
  const auto recorded = Json::parse(std::ifstream(test::data("models/inventory.json")))["models"]["gpt2"];
  const Json json = Json::parse(run_models({"gpt2", "--json", "-"}).out);
  EXPECT_EQ(json["total_parameters"], recorded["total"]);
  EXPECT_EQ(json["kv_bytes_per_token"].get<std::int64_t>() % (12 * 2 * 768), 0);
  Json tensors;
  for (const auto& tensor : json["tensors"]) {
    if (!tensor["tied_to"].is_null()) continue;
    std::string shape;
    for (const auto& size : tensor["shape"]) shape += (shape.empty() ? "" : ", ") + size.dump();
    tensors[tensor["name"].get<std::string>() + " [" + shape + "]"] = tensor["count"];
  }
  EXPECT_EQ(tensors, recorded["tensors"]);
}

TEST(Models, CountsAdaptersAndFrozenParts) {
  const Json json = Json::parse(run_models({"Qwen2.5-0.5B", "--lora-rank", "8", "--lora-target", "q_proj",
                                            "--lora-target", "v_proj", "--json", "-"})
                                    .out);
  EXPECT_EQ(json["trainable_parameters"], 540672);
  EXPECT_EQ(json["total_parameters"], 494032768 + 540672);
}

TEST(Models, CountsKeysAndValuesOfARank) {
  const auto token = [](std::vector<std::string> words) {
    words.insert(words.end(), {"--json", "-"});
    return Json::parse(run_models(words).out)["kv_bytes_per_token"].get<std::int64_t>();
  };
  EXPECT_EQ(token({"Meta-Llama-3-8B", "--kv-dtype", "bf16"}), 131072);
  EXPECT_EQ(token({"Meta-Llama-3-8B", "--kv-dtype", "fp8", "--tensor-parallel", "8"}), 8192);
}

TEST(Models, ExplainsWhatItCannotUse) {
  const Outcome name = run_models({"qwen2.5-7bb"});
  EXPECT_EQ(name.code, kBadInput);
  EXPECT_THAT(name.err, HasSubstr("Qwen2.5-7B"));
  EXPECT_EQ(run_models({"nowhere/config.json"}).code, kBadInput);
  EXPECT_THAT(run_models({"gpt2", "--head", "arms"}).err, HasSubstr("--head"));
  EXPECT_THAT(run_models({"gpt2", "--lora-target", "c_attn"}).err, HasSubstr("--lora-rank"));
  EXPECT_EQ(run_models({"gpt2", "--lora-rank", "8", "--lora-target", "nothing"}).code, kBadInput);
}

TEST(Models, WarnsWhenWeightsDifferFromTheConfig) {
  const auto folder = test::scratch() / "headroom-models";
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "config.json")
      << R"({"model_type": "gpt2", "n_embd": 64, "n_layer": 2, "n_head": 4, "dtype": "float32"})";
  std::ofstream(folder / "model.safetensors.index.json")
      << R"({"metadata": {"total_size": 7}, "weight_map": {"a": "b.safetensors"}})";
  const Outcome outcome = run_models({folder.string()});
  EXPECT_EQ(outcome.code, kDone);
  EXPECT_THAT(outcome.err, HasSubstr("its weights are 7 bytes"));
  EXPECT_EQ(run_models({folder.string(), "--quiet"}).err, "");
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace headroom::cli
