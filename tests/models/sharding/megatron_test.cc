#include "models/sharding/megatron.h"

#include <gmock/gmock.h>

#include "models/sharding/pipeline.h"
#include "models/sharding/ranks.h"
#include "models/sharding/tensor_parallel.h"
#include "tests/models/support/models.h"

namespace headroom {
namespace {

const MegatronWeight& weight(const MegatronStage& stage, const std::string& name) {
  for (const MegatronWeight& w : stage.weights)
    if (w.name == name) return w;
  ADD_FAILURE() << name;
  return stage.weights.front();
}

using testing::ElementsAre;

TEST(Megatron, FusesAndCutsALayer) {
  const Architecture model = test::model_of(test::kSmallLlama);
  const auto stage =
      megatron_stage(model, {.tensor = 4, .pipeline = 2}, VocabularyRule::megatron(), 0).value();
  // (8 query + 2 · 2 key/value heads) · 8 rows over 4 ranks, although there are only 2 key/value heads.
  EXPECT_THAT(weight(stage, "decoder.layers.0.self_attention.linear_qkv.weight").shape, ElementsAre(24, 64));
  EXPECT_THAT(weight(stage, "decoder.layers.3.mlp.linear_fc1.weight").shape, ElementsAre(48, 64));
  EXPECT_THAT(weight(stage, "decoder.layers.3.mlp.linear_fc2.weight").shape, ElementsAre(64, 24));
  EXPECT_THAT(weight(stage, "embedding.word_embeddings.weight").shape, ElementsAre(256, 64));
}

TEST(Megatron, KeepsRoutedExpertsInTheirOwnGrid) {
  const Architecture model = test::model_of(test::kSmallQwenMoe);
  const Parallel parallel{.tensor = 4, .expert = 8, .expert_tensor = 1};
  const auto stage = megatron_stage(model, parallel, VocabularyRule::megatron(), 0).value();
  const MegatronWeight& fc1 = weight(stage, "decoder.layers.0.mlp.experts.linear_fc1.weight");
  EXPECT_THAT(fc1.shape, ElementsAre(64, 64));
  EXPECT_EQ(fc1.copies, 2);
  EXPECT_TRUE(fc1.expert);
  EXPECT_THAT(weight(stage, "decoder.layers.0.mlp.router.weight").shape, ElementsAre(16, 64));
  EXPECT_THAT(weight(stage, "decoder.layers.0.mlp.shared_experts.linear_fc1.weight").shape,
              ElementsAre(32, 64));
  EXPECT_THAT(weight(stage, "decoder.layers.0.mlp.shared_experts.gate_weight").shape, ElementsAre(1, 64));
}

TEST(Megatron, CutsExpertsByTheTensorGroupUnlessToldOtherwise) {
  const Architecture model = test::model_of(test::kSmallQwenMoe);
  const auto stage = megatron_stage(model, {.tensor = 4, .expert = 2}, VocabularyRule::megatron(), 0).value();
  EXPECT_THAT(weight(stage, "decoder.layers.0.mlp.experts.linear_fc2.weight").shape, ElementsAre(64, 8));
}

TEST(Megatron, MultiTokenPredictionIsALayerBehindTheLastOne) {
  const Architecture model = test::model_of(test::kSmallLlama);
  const auto stage = [&](std::int64_t pipeline, std::int64_t at, std::int64_t depths) {
    return megatron_stage(model, {.tensor = 2, .pipeline = pipeline}, VocabularyRule::megatron(), at,
                          MegatronLayers::transformer_engine, true, depths)
        .value();
  };
  const MegatronStage plain = stage(1, 0, 0), predicting = stage(1, 0, 2);
  std::int64_t layer = 0;
  for (const MegatronWeight& w : plain.weights) layer += w.layer == 0 ? w.count() : 0;
  // Three norms, and two hidden vectors to one, cut by columns.
  EXPECT_EQ(predicting.dense_elements() - plain.dense_elements(), 2 * (layer + 3 * 64 + 2 * 64 * 64 / 2));
  EXPECT_THAT(weight(predicting, "mtp.layers.1.eh_proj.weight").shape, ElementsAre(32, 128));
  EXPECT_EQ(weight(predicting, "mtp.layers.1.transformer_layer.mlp.linear_fc1.weight").depth, 1);
  // The last of several stages has an embedding too.
  EXPECT_EQ(stage(2, 0, 1).dense_elements(), stage(2, 0, 0).dense_elements());
  EXPECT_THAT(weight(stage(2, 1, 1), "embedding.word_embeddings.weight").shape,
              ElementsAre(weight(plain, "embedding.word_embeddings.weight").shape[0], 64));
}

TEST(Megatron, CopiesATiedEmbeddingToTheLastStage) {
  const Architecture model = test::model_of(test::kSmallGemma);
  const auto one = megatron_stage(model, {}, VocabularyRule::mbridge(), 0).value();
  const auto first = megatron_stage(model, {.pipeline = 2}, VocabularyRule::mbridge(), 0).value();
  const auto last = megatron_stage(model, {.pipeline = 2}, VocabularyRule::mbridge(), 1).value();
  EXPECT_EQ(first.dense_elements() + last.dense_elements() - one.dense_elements(), 1000 * 64);
}

TEST(Megatron, RefusesParallelBranches) {
  const Architecture model = test::model_of(test::kSmallFalcon);
  EXPECT_EQ(megatron_stage(model, {}, VocabularyRule::mbridge(), 0).error().key, "model_type");
}

/// Summed over a replica's ranks, each weight weighed by how many of them share a piece, the fused and cut
/// weights are the whole model plus vocabulary padding and the tied copy.
TEST(Megatron, RanksSumToTheWholeModel) {
  int layouts = 0;
  for (const char* config : {test::kSmallLlama, test::kSmallDeepseek, test::kSmallQwenMoe, test::kSmallGptOss,
                             test::kSmallGemma}) {
    const Architecture model = test::model_of(config);
    for (std::int64_t tensor : {1, 2, 4, 8})
      for (std::int64_t pipeline : {1, 2})
        for (std::int64_t expert : {1, 2, 4})
          for (std::int64_t expert_tensor : {0, 1, 2})
            for (std::int64_t multiple : {8, 128}) {
              const Parallel parallel{
                  .tensor = tensor, .pipeline = pipeline, .expert = expert, .expert_tensor = expert_tensor};
              const VocabularyRule rule = VocabularyRule::megatron(multiple);
              const TensorCut cut{tensor, expert, expert_tensor_of(parallel), rule, false};
              std::int64_t expected = 0, sum = 0;
              for (const Tensor& t : model.tensors) {
                if (t.buffer || (!t.tied_to.empty() && pipeline == 1)) continue;
                expected += local_tensor(model, t, cut)->count();
              }
              for (std::int64_t stage = 0; stage < pipeline; ++stage) {
                const auto held = megatron_stage(model, parallel, rule, stage);
                ASSERT_TRUE(held) << held.error().text();
                sum += held->dense_elements() + held->expert_elements();
              }
              EXPECT_EQ(sum, expected)
                  << model.family << " tp " << tensor << " pp " << pipeline << " ep " << expert;
              ++layouts;
            }
  }
  EXPECT_GT(layouts, 500);
}

TEST(Ranks, FoldContextIntoTheExpertGrid) {
  const Parallel parallel{.tensor = 2, .pipeline = 2, .context = 2, .expert = 4, .expert_tensor = 1};
  EXPECT_EQ(data_parallel(parallel, 32).value().dense, 4);
  EXPECT_EQ(data_parallel(parallel, 32).value().expert, 4);
  const RankPlace place = rank_place(parallel, 32, 23).value();
  EXPECT_EQ(place, (RankPlace{.tensor = 1,
                              .context = 1,
                              .data = 1,
                              .pipeline = 1,
                              .expert_tensor = 0,
                              .expert = 3,
                              .expert_data = 1}));
  EXPECT_EQ(data_parallel({.tensor = 3}, 32).error().key, "tensor × context × pipeline");
}

/// One rank holds all: what Transformers holds, in Megatron's matrices.
TEST(Megatron, HoldsLayersWithAStateWhole) {
  for (const char* config : {test::kSmallNext, test::kSmallNemotron}) {
    const Architecture model = test::model_of(config);
    VocabularyRule rule = VocabularyRule::megatron();
    rule.multiple = 1;
    const auto stage = megatron_stage(model, {}, rule, 0).value();
    EXPECT_EQ(stage.dense_elements() + stage.expert_elements(), model.parameters()) << model.family;
  }
}

TEST(Megatron, CutsAStateWithItsHeads) {
  const auto next =
      megatron_stage(test::model_of(test::kSmallNext), {.tensor = 2}, VocabularyRule::megatron(), 0).value();
  const std::string delta = "decoder.layers.0.self_attention.";
  // Half of 2 · 4 · 16 + 8 · 32 channels, 256 gates and 2 · 8 numbers a head.
  EXPECT_THAT(weight(next, delta + "in_proj.weight").shape, ElementsAre(192 + 128 + 8, 64));
  EXPECT_THAT(weight(next, delta + "conv1d.weight").shape, ElementsAre(192, 1, 4));
  EXPECT_THAT(weight(next, delta + "out_norm.weight").shape, ElementsAre(32));
  EXPECT_THAT(weight(next, delta + "out_proj.weight").shape, ElementsAre(64, 128));
  // Queries with their gates.
  EXPECT_THAT(weight(next, "decoder.layers.3.self_attention.linear_qkv.weight").shape,
              ElementsAre((2 * 8 + 2 * 2) * 16 / 2, 64));
  const auto mamba =
      megatron_stage(test::model_of(test::kSmallNemotron), {.tensor = 2}, VocabularyRule::megatron(), 0)
          .value();
  EXPECT_THAT(weight(mamba, "decoder.layers.0.mixer.norm.weight").shape, ElementsAre(64));
  EXPECT_THAT(weight(mamba, "decoder.layers.0.mixer.D").shape, ElementsAre(4));
  EXPECT_THAT(weight(mamba, "decoder.layers.1.mlp.experts.linear_fc1.weight").shape, ElementsAre(16, 24));
}

}  // namespace
}  // namespace headroom
