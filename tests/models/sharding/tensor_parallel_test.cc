#include "models/sharding/tensor_parallel.h"

#include <gmock/gmock.h>

#include "tests/models/support/models.h"

namespace headroom {
namespace {

using testing::ElementsAre;

LocalTensor local(const Architecture& model, const std::string& name, const TensorCut& cut) {
  const Tensor* tensor = model.find(name);
  if (tensor == nullptr) ADD_FAILURE() << name;
  return local_tensor(model, *tensor, cut).value();
}

TEST(TensorParallel, CutsColumnsRowsAndVocabulary) {
  const Architecture model = test::model_of(test::kSmallLlama);
  const TensorCut cut{.tensor = 2, .vocabulary = VocabularyRule::megatron(128)};
  EXPECT_THAT(local(model, "model.layers.0.mlp.up_proj.weight", cut).shape, ElementsAre(48, 64));
  EXPECT_THAT(local(model, "model.layers.0.mlp.down_proj.weight", cut).shape, ElementsAre(64, 48));
  EXPECT_THAT(local(model, "model.layers.0.input_layernorm.weight", cut).shape, ElementsAre(64));
  EXPECT_THAT(local(model, "model.embed_tokens.weight", cut).shape,
              ElementsAre(512, 64));  // 1000 padded to 1024
}

TEST(TensorParallel, CutsTransposedMatricesInTheOtherDimension) {
  const Architecture model = test::model_of(test::kSmallGpt2);
  const TensorCut cut{.tensor = 4, .vocabulary = VocabularyRule::engine()};
  EXPECT_THAT(local(model, "transformer.h.0.attn.c_attn.weight", cut).shape, ElementsAre(64, 48));
  EXPECT_THAT(local(model, "transformer.h.0.attn.c_attn.bias", cut).shape, ElementsAre(48));
  EXPECT_THAT(local(model, "transformer.h.0.mlp.c_proj.weight", cut).shape, ElementsAre(64, 64));
  EXPECT_THAT(local(model, "transformer.h.0.mlp.c_proj.bias", cut).shape, ElementsAre(64));
}

TEST(TensorParallel, RepeatsKeyHeadsFewerThanRanksInEnginesAndCutsTheirRowsInMegatron) {
  const Architecture model = test::model_of(test::kSmallLlama);  // 2 key/value heads of 8
  const std::string key = "model.layers.0.self_attn.k_proj.weight";
  EXPECT_THAT(local(model, key, {.tensor = 8, .repeat_kv_heads = true}).shape, ElementsAre(8, 64));
  EXPECT_THAT(local(model, key, {.tensor = 8, .repeat_kv_heads = false}).shape, ElementsAre(2, 64));
  EXPECT_EQ(local(model, key, {.tensor = 8, .repeat_kv_heads = true}).pieces, 2);
}

TEST(TensorParallel, DealsExpertsAndCutsEach) {
  const TensorCut cut{.tensor = 4, .expert = 8, .expert_tensor = 2};
  const Architecture deepseek = test::model_of(test::kSmallDeepseek);
  EXPECT_THAT(local(deepseek, "model.layers.3.mlp.experts.gate_up_proj", cut).shape, ElementsAre(2, 32, 64));
  EXPECT_THAT(local(deepseek, "model.layers.3.mlp.experts.down_proj", cut).shape, ElementsAre(2, 64, 16));
  EXPECT_THAT(local(deepseek, "model.layers.3.mlp.gate.weight", cut).shape, ElementsAre(16, 64));
  EXPECT_THAT(local(deepseek, "model.layers.3.mlp.shared_experts.up_proj.weight", cut).shape,
              ElementsAre(8, 64));
  const Architecture oss = test::model_of(test::kSmallGptOss);
  EXPECT_THAT(local(oss, "model.layers.0.mlp.experts.gate_up_proj", cut).shape, ElementsAre(1, 64, 32));
  EXPECT_THAT(local(oss, "model.layers.0.mlp.experts.gate_up_proj_bias", cut).shape, ElementsAre(1, 32));
  EXPECT_THAT(local(oss, "model.layers.0.mlp.experts.down_proj_bias", cut).shape, ElementsAre(1, 64));
}

TEST(TensorParallel, NamesWhatDoesNotDivide) {
  const Architecture model = test::model_of(test::kSmallLlama);
  const Tensor& up = *model.find("model.layers.0.mlp.up_proj.weight");
  EXPECT_THAT(local_tensor(model, up, {.tensor = 5}).error().message,
              testing::HasSubstr("96 of model.layers.0.mlp"));
  EXPECT_EQ(padded_vocabulary(1001, VocabularyRule::mbridge(), 2).error().key,
            "make_vocab_size_divisible_by");
}

/// Over all ranks every weight is whole, plus the padding that the interface states.
TEST(TensorParallel, PiecesSumToTheWholePlusStatedPadding) {
  int checked = 0;
  for (const char* config : test::kSmallModels) {
    const Architecture model = test::model_of(config);
    for (std::int64_t tensor : {1, 2, 4, 8})
      for (std::int64_t expert : {1, 2, 8})
        for (std::int64_t expert_tensor : {1, 2})
          for (bool repeat : {false, true})
            for (const VocabularyRule& rule :
                 {VocabularyRule::megatron(), VocabularyRule::engine(), VocabularyRule::mbridge(8)}) {
              const TensorCut cut{tensor, expert, expert_tensor, rule, repeat};
              for (const Tensor& weight : model.tensors) {
                const auto part = local_tensor(model, weight, cut);
                ASSERT_TRUE(part) << weight.name << ": " << part.error().text();
                EXPECT_EQ(part->count() * part->pieces, weight.count() + part->padding) << weight.name;
                EXPECT_EQ((weight.expert == -1 ? tensor : expert * expert_tensor) % part->pieces, 0)
                    << weight.name;
                ++checked;
              }
            }
  }
  EXPECT_GT(checked, 10'000);
}

}  // namespace
}  // namespace headroom
