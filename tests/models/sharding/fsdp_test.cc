#include "models/sharding/fsdp.h"

#include <gmock/gmock.h>

#include "models/sharding/zero.h"
#include "tests/models/support/models.h"

namespace headroom {
namespace {

using testing::ElementsAre;

TEST(FsdpUnits, AreTheRootAndEveryLayer) {
  const Architecture model = test::model_of(test::kSmallLlama);
  const auto units = fsdp_units(model, {});
  ASSERT_EQ(units.size(), 9U);
  EXPECT_EQ(units[0].name, "");
  EXPECT_EQ(units[0].elements, 2 * 1000 * 64 + 64);  // embedding, head, final norm
  EXPECT_EQ(units[4].name, "model.layers.3");
  EXPECT_EQ(units[4].tensors.size(), 9U);
  EXPECT_EQ(model.tensors[static_cast<size_t>(units[4].tensors[0])].name,
            "model.layers.3.self_attn.q_proj.weight");
}

TEST(FsdpUnits, HoldUntiedEmbeddingsApartWhenAsked) {
  const auto untied = fsdp_units(test::model_of(test::kSmallLlama), {.untied_embeddings = true});
  EXPECT_EQ(untied[1].name, "model.embed_tokens");
  EXPECT_EQ(untied[0].elements, 1000 * 64 + 64);
  const auto tied = fsdp_units(test::model_of(test::kSmallGemma), {.untied_embeddings = true});
  EXPECT_EQ(tied[0].elements, 1000 * 64 + 64);
  EXPECT_EQ(tied[1].name, "model.layers.0");
}

TEST(FsdpUnits, WrapVisionBlocks) {
  const Architecture model = test::model_of(
      "{model_type: qwen2_vl, vocab_size: 100, hidden_size: 64, intermediate_size: 96, num_hidden_layers: 2, "
      "num_attention_heads: 8, num_key_value_heads: 2, vision_config: {depth: 3, embed_dim: 32, num_heads: "
      "2, "
      "hidden_size: 64}}");
  const auto units = fsdp_units(model, {});
  ASSERT_EQ(units.size(), 6U);
  EXPECT_EQ(units[1].name, "model.visual.blocks.0");
  EXPECT_EQ(units[4].name, "model.language_model.layers.0");
}

TEST(FlatShard, PadsAUnitToTheRanks) {
  const Architecture model = test::model_of(test::kSmallLlama);
  const FsdpUnit root = fsdp_units(model, {})[0];
  const FlatShard flat = flat_shard(model, root, 7, 0, DType::bf16);
  EXPECT_EQ(flat.local, 18295);  // ceil(128064 / 7)
  EXPECT_EQ(flat.padding, 1);
}

TEST(FlatShard, AlignsOriginalParameters) {
  const Architecture model = test::model_of(
      "{model_type: llama, vocab_size: 5, hidden_size: 6, intermediate_size: 7, "
      "num_hidden_layers: 1, num_attention_heads: 1}");
  const FsdpUnit root = fsdp_units(model, {})[0];  // 30, 6, 30 elements
  EXPECT_EQ(flat_shard(model, root, 1, 16, DType::bf16).elements, 32 + 8 + 32);
  EXPECT_EQ(flat_shard(model, root, 1, 16, DType::fp32).elements, 32 + 8 + 32);
}

TEST(RowShard, CutsAsTorchChunkDoes) {
  EXPECT_THAT(row_shard_shape({10, 3}, 0, 4), ElementsAre(3, 3));
  EXPECT_THAT(row_shard_shape({10, 3}, 3, 4), ElementsAre(1, 3));
  EXPECT_THAT(row_shard_shape({5, 3}, 3, 4), ElementsAre(0, 3));
  EXPECT_EQ(row_shard_elements({5, 3}, 4), 6);
}

/// Local parts are whole together; what every rank stores beyond them is the stated padding.
TEST(FsdpShards, SumToTheWholePlusPadding) {
  for (const char* config : test::kSmallModels) {
    const Architecture model = test::model_of(config);
    for (const FsdpPolicy& policy :
         {FsdpPolicy{}, FsdpPolicy{.layers = false}, FsdpPolicy{.untied_embeddings = true}}) {
      std::int64_t whole = 0;
      for (const FsdpUnit& unit : fsdp_units(model, policy)) {
        whole += unit.elements;
        for (std::int64_t ranks : {1, 2, 3, 8, 48}) {
          const FlatShard flat = flat_shard(model, unit, ranks, 0, DType::fp32);
          EXPECT_EQ(flat.local * ranks, unit.elements + flat.padding);
          EXPECT_LT(flat.padding, ranks);
          std::int64_t rows = 0;
          for (std::int32_t index : unit.tensors)
            for (std::int64_t rank = 0; rank < ranks; ++rank) {
              std::int64_t part = 1;
              for (std::int64_t size :
                   row_shard_shape(model.tensors[static_cast<size_t>(index)].shape, rank, ranks))
                part *= size;
              rows += part;
            }
          EXPECT_EQ(rows, unit.elements);
          EXPECT_GE(row_shard_elements(model, unit, ranks) * ranks, unit.elements);
        }
      }
      EXPECT_EQ(whole, model.parameters());
    }
  }
}

TEST(Zero, DividesWhatItsStageSays) {
  const std::vector<std::int64_t> counts = {1000, 7, 300};
  const ZeroShare one = zero_share(1, counts, 4);
  EXPECT_EQ(one.parameters, 1307);
  EXPECT_EQ(one.gradients, 1307);
  EXPECT_EQ(one.optimizer, 328);  // 1307 padded to 1312
  EXPECT_EQ(one.padding, 5);
  EXPECT_EQ(zero_share(2, counts, 4).gradients, 328);
  const ZeroShare three = zero_share(3, counts, 4, 100);
  EXPECT_EQ(three.optimizer, 250 + 2 + 75);
  EXPECT_EQ(three.parameters, three.optimizer + 7);  // the small one stays whole as well
  EXPECT_EQ(three.padding, 1);
}

TEST(Zero, RanksSumToTheGroupPlusPadding) {
  for (int stage = 1; stage <= 3; ++stage)
    for (std::int64_t ranks : {1, 2, 3, 8, 64}) {
      const std::vector<std::int64_t> counts = {12345, 1, 64, 63, 4096};
      const ZeroShare share = zero_share(stage, counts, ranks);
      EXPECT_EQ(share.optimizer * ranks, 16569 + share.padding) << stage << " " << ranks;
    }
}

}  // namespace
}  // namespace headroom
