#include "models/architecture/lora.h"

#include <gmock/gmock.h>

#include "tests/models/support/models.h"

namespace headroom {
namespace {

using testing::ElementsAre;

/// Qwen2.5-0.5B.
const char* const kQwen =
    "{model_type: qwen2, vocab_size: 151936, hidden_size: 896, intermediate_size: 4864, num_hidden_layers: "
    "24, "
    "num_attention_heads: 14, num_key_value_heads: 2, tie_word_embeddings: true, dtype: bfloat16}";

Architecture adapted(const std::string& config, const LoraSpec& spec, const ReadOptions& options = {}) {
  Architecture model = test::model_of(config, options);
  const Status status = add_lora(model, spec);
  if (!status) ADD_FAILURE() << status.error().text();
  return model;
}

TEST(Lora, AddsTwoFactorsBesideEachTarget) {
  const Architecture model = adapted(kQwen, {.rank = 8, .targets = {"q_proj", "v_proj"}});
  EXPECT_THAT(model.find("model.layers.0.self_attn.q_proj.lora_A.default.weight")->shape,
              ElementsAre(8, 896));
  EXPECT_THAT(model.find("model.layers.0.self_attn.v_proj.lora_B.default.weight")->shape,
              ElementsAre(128, 8));
  EXPECT_EQ(model.find("model.layers.0.self_attn.k_proj.lora_A.default.weight"), nullptr);
  // PEFT prints 540,672 trainable parameters for this model and these settings.
  EXPECT_EQ(model.trainable_parameters(), 540'672);
  EXPECT_EQ(model.parameters(), 494'032'768 + 540'672);
  EXPECT_EQ(model.find("model.layers.0.self_attn.q_proj.lora_A.default.weight")->dtype, DType::fp32);
  EXPECT_EQ(model.find("model.layers.0.self_attn.q_proj.weight")->dtype, DType::bf16);
}

TEST(Lora, AllLinearLeavesOutTheHead) {
  const Architecture model = adapted(kQwen, {.rank = 16, .targets = {"all-linear"}});
  // Σ rank · (in + out) over the seven linears of a layer.
  const std::int64_t layer = (896 + 896) * 2 + (896 + 128) * 2 + (896 + 4864) * 3;
  EXPECT_EQ(model.trainable_parameters(), 24 * 16 * layer);
  EXPECT_EQ(model.find("lm_head.lora_A.default.weight"), nullptr);
}

TEST(Lora, AllLinearTakesAScalarHeadOnABareModule) {
  const Architecture model =
      adapted(kQwen, {.rank = 16, .targets = {"all-linear"}}, {.head = HeadKind::scalar});
  EXPECT_THAT(model.find("v_head.lora_B.default.weight")->shape, ElementsAre(1, 16));
}

TEST(Lora, AllLinearTakesNoStackedExpertsNorTheirRouter) {
  const Architecture model = adapted(test::kSmallQwenMoe, {.rank = 4, .targets = {"all-linear"}});
  EXPECT_EQ(model.find("model.layers.0.mlp.gate.lora_A.default.weight"), nullptr);
  EXPECT_NE(model.find("model.layers.0.mlp.shared_expert_gate.lora_A.default.weight"), nullptr);
  EXPECT_NE(model.find("model.layers.0.mlp.shared_expert.up_proj.lora_A.default.weight"), nullptr);
  for (const Tensor& tensor : model.tensors)
    EXPECT_FALSE(tensor.trainable && tensor.name.find(".experts.") != std::string::npos) << tensor.name;
}

TEST(Lora, TurnsAConv1dRound) {
  const Architecture model = adapted(test::kSmallGpt2, {.rank = 4, .targets = {}});  // PEFT's default: c_attn
  EXPECT_THAT(model.find("transformer.h.0.attn.c_attn.lora_A.default.weight")->shape, ElementsAre(4, 64));
  EXPECT_THAT(model.find("transformer.h.0.attn.c_attn.lora_B.default.weight")->shape, ElementsAre(192, 4));
}

TEST(Lora, CopiesSavedModulesAndTrainsTheCopy) {
  const Architecture model =
      adapted(kQwen, {.rank = 8, .targets = {"q_proj"}, .saved_modules = {"embed_tokens"}});
  EXPECT_EQ(model.trainable_parameters(), 24 * 8 * (896 + 896) + 151936 * 896);
  EXPECT_FALSE(model.find("model.embed_tokens.weight")->trainable);
}

TEST(Lora, TrainsTheHeadOfAClassifier) {
  const Architecture model = adapted(kQwen, {.rank = 8, .targets = {"q_proj"}},
                                     {.head = HeadKind::sequence_classification, .labels = 1});
  EXPECT_EQ(model.trainable_parameters(), 24 * 8 * (896 + 896) + 896);
}

TEST(Lora, AdaptsEmbeddings) {
  const Architecture model = adapted(kQwen, {.rank = 8, .targets = {"embed_tokens"}});
  EXPECT_EQ(model.trainable_parameters(), 8 * (151936 + 896));
}

TEST(Lora, NamesTargetsThatMatchNothing) {
  Architecture model = test::model_of(kQwen);
  EXPECT_EQ(add_lora(model, {.rank = 8, .targets = {"c_attn"}}).error().key, "target_modules");
  EXPECT_EQ(add_lora(model, {.rank = 0, .targets = {"q_proj"}}).error().key, "rank");
  EXPECT_EQ(add_lora(model, {.rank = 8, .targets = {"q_proj"}, .saved_modules = {"nothing"}}).error().key,
            "modules_to_save");
  EXPECT_EQ(model.tensors.size(), test::model_of(kQwen).tensors.size());
}

TEST(Freeze, StopsGradientsOfTheModulesNamed) {
  Architecture model = test::model_of(test::kSmallLlama);
  ASSERT_TRUE(freeze(model, {"embed_tokens", "layers.0"}));
  std::int64_t layer = 0;
  for (const Tensor& tensor : model.tensors)
    if (tensor.place == Place::layer && tensor.layer == 0) layer += tensor.count();
  EXPECT_EQ(model.trainable_parameters(), model.parameters() - 1000 * 64 - layer);
  EXPECT_EQ(freeze(model, {"visual"}).error().key, "freeze");
}

}  // namespace
}  // namespace headroom
