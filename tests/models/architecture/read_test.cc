#include "models/architecture/read.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "models/architecture/family.h"
#include "tests/models/support/models.h"
#include "tests/support/data.h"

namespace headroom {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// --- Facts of families ---

TEST(FamilyFacts, FollowTransformersDefaults) {
  for (const char* name : {"qwen2", "qwen3", "qwen3_moe", "glm4", "gpt_oss", "olmo2"})
    EXPECT_FALSE(family_facts(name).begin_token) << name;
  for (const char* name : {"llama", "opt", "gpt2", "gemma", "bloom"})
    EXPECT_TRUE(family_facts(name).begin_token) << name;
  for (const Family* family : families()) {
    EXPECT_EQ(family->facts.functional_dropout, family->name == "opt") << family->name;
    EXPECT_EQ(family->facts.own_dropout_names, family->name == "gpt2") << family->name;
  }
}

// --- Heads ---

TEST(Heads, ReplaceTheLanguageModels) {
  const std::string config = test::kSmallLlama;
  const std::int64_t body = 1000 * 64;
  const std::int64_t whole = test::model_of(config).parameters();
  const Architecture scalar = test::model_of(config, {.head = HeadKind::scalar});
  EXPECT_EQ(scalar.parameters(), whole - body + 64);
  EXPECT_THAT(scalar.tensors.back().shape, ElementsAre(1, 64));
  EXPECT_EQ(scalar.tensors.back().name, "v_head.weight");
  const Architecture sequence =
      test::model_of(config, {.head = HeadKind::sequence_classification, .labels = 1});
  EXPECT_EQ(sequence.tensors.back().name, "score.weight");
  EXPECT_EQ(sequence.parameters(), whole - body + 64);
  const Architecture token = test::model_of(config, {.head = HeadKind::token_classification, .labels = 1});
  EXPECT_EQ(token.tensors.back().name, "score.bias");
  EXPECT_EQ(token.parameters(), whole - body + 65);
}

TEST(Heads, FollowTheConfig) {
  std::string config = test::kSmallLlama;
  config.insert(config.size() - 1,
                ", architectures: [LlamaForSequenceClassification], id2label: {'0': a, '1': b, '2': c}");
  EXPECT_THAT(test::model_of(config).tensors.back().shape, ElementsAre(3, 64));
  EXPECT_EQ(test::model_of(config, {.head = HeadKind::language_model}).tensors.back().name, "lm_head.weight");
}

TEST(Heads, AreTiedOnlyAsLanguageModels) {
  const Architecture model = test::model_of(test::kSmallGemma);
  EXPECT_EQ(model.find("lm_head.weight")->tied_to, "model.embed_tokens.weight");
  EXPECT_EQ(test::model_of(test::kSmallGemma, {.head = HeadKind::scalar}).find("lm_head.weight"), nullptr);
}

TEST(Heads, StandOnTheNarrowEmbeddingOfOpt350m) {
  const Architecture model = test::model_of(
      "{model_type: opt, hidden_size: 64, num_hidden_layers: 2, num_attention_heads: 4, ffn_dim: 128, "
      "word_embed_proj_dim: 32, do_layer_norm_before: false}",
      {.head = HeadKind::scalar});
  EXPECT_THAT(model.find("v_head.weight")->shape, ElementsAre(1, 32));
  EXPECT_EQ(model.find("model.decoder.final_layer_norm.weight"), nullptr);
}

// --- Values a config may omit, spell otherwise, or switch off ---

TEST(Config, ReadsTheDtypeUnderBothNames) {
  const auto dtype = [](const std::string& key) {
    std::string config = test::kSmallLlama;
    config.insert(config.size() - 1, ", " + key);
    return test::model_of(config).dtype;
  };
  EXPECT_EQ(dtype("torch_dtype: bfloat16"), DType::bf16);
  EXPECT_EQ(dtype("dtype: float16"), DType::fp16);
  EXPECT_EQ(test::model_of(test::kSmallLlama).dtype, DType::fp32);
}

TEST(Config, TakesTheFamilysDefaultAndTellsNullFromAbsent) {
  const std::string start = "{num_hidden_layers: 2, hidden_size: 64, num_attention_heads: 16, ";
  EXPECT_EQ(test::model_of(start + "model_type: mistral}").decoder.groups[0].layer.attention.kv_heads, 8);
  EXPECT_EQ(test::model_of(start + "model_type: mistral, num_key_value_heads: null}")
                .decoder.groups[0]
                .layer.attention.kv_heads,
            16);
  EXPECT_EQ(test::model_of(start + "model_type: mistral}").decoder.groups[0].layer.attention.sliding_window,
            4096);
  EXPECT_EQ(test::model_of(start + "model_type: mistral, sliding_window: null}")
                .decoder.groups[0]
                .layer.attention.sliding_window,
            0);
  EXPECT_EQ(test::model_of(start + "model_type: llama}").decoder.groups[0].layer.attention.head_dim, 4);
  EXPECT_EQ(test::model_of(start + "model_type: gemma}").decoder.groups[0].layer.attention.head_dim, 256);
}

TEST(Config, ReadsTextConfigsWithTheirDefaults) {
  const Architecture model = test::model_of(
      "{model_type: gemma3, dtype: bfloat16, text_config: {hidden_size: 2560, intermediate_size: 10240, "
      "num_hidden_layers: 34, sliding_window: 1024}, vision_config: {hidden_size: 1152, intermediate_size: "
      "4304, "
      "num_attention_heads: 16, num_hidden_layers: 27, patch_size: 14, image_size: 896, vision_use_head: "
      "false}}");
  EXPECT_EQ(model.decoder.groups[0].layer.attention.heads, 8);
  EXPECT_EQ(model.vision.blocks, 27);
  EXPECT_THAT(model.find("model.vision_tower.embeddings.position_embedding.weight")->shape,
              ElementsAre(4096, 1152));
  EXPECT_EQ(model.find("lm_head.weight")->tied_to, "model.language_model.embed_tokens.weight");
}

TEST(Config, ReadsQwenVlInItsOldFlatFormToo) {
  const std::string sizes =
      "vocab_size: 1000, hidden_size: 64, intermediate_size: 96, num_hidden_layers: 2, "
      "num_attention_heads: 8, num_key_value_heads: 2";
  const std::string vision = "vision_config: {depth: 2, hidden_size: 32, num_heads: 2, out_hidden_size: 64}";
  const Architecture flat = test::model_of("{model_type: qwen2_5_vl, " + sizes + ", " + vision + "}");
  const Architecture nested =
      test::model_of("{model_type: qwen2_5_vl, text_config: {" + sizes + "}, " + vision + "}");
  EXPECT_EQ(flat.parameters(), nested.parameters());
}

TEST(Config, LetsLayerTypesDecideWhichLayersSlide) {
  const Architecture model = test::model_of(
      "{model_type: qwen2, vocab_size: 100, hidden_size: 64, num_hidden_layers: 3, num_attention_heads: 4, "
      "num_key_value_heads: 4, use_sliding_window: true, sliding_window: 128, "
      "layer_types: [full_attention, sliding_attention, full_attention]}");
  EXPECT_EQ(model.decoder.layer(0).attention.sliding_window, 0);
  EXPECT_EQ(model.decoder.layer(1).attention.sliding_window, 128);
}

TEST(Config, AlternatesWindowsAsTheFamilyDoes) {
  const auto windows = [](const Architecture& model) {
    std::string out;
    for (std::int64_t i = 0; i < model.decoder.layers; ++i)
      out += model.decoder.layer(i).attention.sliding_window > 0 ? 's' : 'f';
    return out;
  };
  EXPECT_EQ(windows(test::model_of(test::kSmallGemma)), "sfsfsf");
  EXPECT_EQ(windows(test::model_of(test::kSmallGptOss)), "sfsf");
  EXPECT_EQ(windows(test::model_of("{model_type: gemma3_text, hidden_size: 64, num_hidden_layers: 12, "
                                   "num_attention_heads: 4, num_key_value_heads: 2}")),
            "sssssfsssssf");
}

TEST(Buffers, AreThoseOfTheModules) {
  std::vector<std::string> names;
  for (const Tensor& tensor : test::model_of(test::kSmallLlama).tensors)
    if (tensor.buffer) names.push_back(tensor.name);
  EXPECT_THAT(names, ElementsAre("model.rotary_emb.inv_freq", "model.rotary_emb.original_inv_freq"));
  const Architecture deepseek = test::model_of(test::kSmallDeepseek);
  const Tensor* correction = deepseek.find("model.layers.5.mlp.gate.e_score_correction_bias");
  ASSERT_NE(correction, nullptr);
  EXPECT_TRUE(correction->buffer && correction->dtype == DType::fp32);
}

// --- What is refused ---

TEST(BadInput, NamesTheKey) {
  const std::string start =
      "{model_type: llama, hidden_size: 64, num_hidden_layers: 2, num_attention_heads: 4";
  EXPECT_EQ(test::error_of("{hidden_size: 64}").key, "model_type");
  EXPECT_EQ(test::error_of("{model_type: llama, num_hidden_layers: 2, num_attention_heads: 4}").key,
            "hidden_size");
  EXPECT_EQ(test::error_of("{model_type: llama, hidden_size: 64, num_attention_heads: 4}").key,
            "num_hidden_layers");
  EXPECT_EQ(test::error_of("{model_type: gpt2, n_embd: 64, n_head: 4}").key, "n_layer");
  EXPECT_EQ(
      test::error_of("{model_type: llama, hidden_size: 66, num_hidden_layers: 2, num_attention_heads: 4}")
          .key,
      "hidden_size");
  EXPECT_EQ(test::error_of(start + ", num_key_value_heads: 3}").key, "num_key_value_heads");
  EXPECT_EQ(test::error_of(start + ", vocab_size: -5}").key, "vocab_size");
  EXPECT_EQ(test::error_of(start + ", vocab_size: '100'}").key, "vocab_size");
  EXPECT_EQ(test::error_of(start + ", tie_word_embeddings: 3}").key, "tie_word_embeddings");
  EXPECT_EQ(test::error_of(start + ", dtype: bfloat61}").key, "dtype");
  EXPECT_EQ(test::error_of(start + ", intermediate_size: {}}").key, "intermediate_size");
  for (const char* layers : {"0", "1e18", "-1", "1.5", "100000"})
    EXPECT_EQ(test::error_of(fmt::format("{{model_type: llama, hidden_size: 64, num_hidden_layers: {}, "
                                         "num_attention_heads: 4}}",
                                         layers))
                  .key,
              "num_hidden_layers")
        << layers;
}

TEST(BadInput, DoesNotDivideExplicitHeads) {
  EXPECT_EQ(
      test::model_of("{model_type: qwen3, hidden_size: 66, num_hidden_layers: 2, num_attention_heads: 4, "
                     "num_key_value_heads: 2, head_dim: 16}")
          .decoder.groups[0]
          .layer.attention.head_dim,
      16);
}

TEST(BadInput, FindsContradictions) {
  EXPECT_EQ(test::error_of("{model_type: gpt2, n_embd: 64, hidden_size: 128, n_layer: 2, n_head: 4}").key,
            "n_embd");
  EXPECT_EQ(
      test::error_of("{model_type: qwen2, hidden_size: 64, num_hidden_layers: 3, num_attention_heads: 4, "
                     "num_key_value_heads: 4, layer_types: [full_attention]}")
          .key,
      "layer_types");
  EXPECT_EQ(
      test::error_of("{model_type: mixtral, hidden_size: 64, num_hidden_layers: 3, num_attention_heads: 8, "
                     "num_local_experts: 2, num_experts_per_tok: 4}")
          .key,
      "num_experts_per_tok");
}

TEST(BadInput, RefusesModelsBeyondArithmetic) {
  EXPECT_EQ(test::error_of("{model_type: mixtral, hidden_size: 268435456, intermediate_size: 268435456, "
                           "num_hidden_layers: 4096, num_attention_heads: 8, num_local_experts: 268435456}")
                .key,
            "model_type");
}

TEST(BadInput, SuggestsTheNearestFamily) {
  const Error error = test::error_of("{model_type: qwen4}");
  EXPECT_THAT(error.message, HasSubstr("did you mean qwen"));
  EXPECT_THAT(error.message, HasSubstr("docs/ADD_A_FAMILY.md"));
  EXPECT_EQ(error.line, 1);
}

TEST(ReadArchitecture, TakesAFileOrItsDirectory) {
  const auto folder = test::scratch() / "headroom-read";
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "config.json") << test::kSmallLlama;
  EXPECT_EQ(read_architecture(folder.string()).value().parameters(),
            read_architecture((folder / "config.json").string()).value().parameters());
  EXPECT_THAT(read_architecture((folder / "none").string()).error().text(), HasSubstr("no such file"));
  std::filesystem::remove_all(folder);
}

TEST(Families, AreSortedAndEachBuildsWhatItClaims) {
  std::string last;
  for (const Family* family : families()) {
    EXPECT_LT(last, family->name);
    last = family->name;
    EXPECT_EQ(find_family(family->name), family);
  }
  EXPECT_GE(families().size(), 33U);
}

}  // namespace
}  // namespace headroom
