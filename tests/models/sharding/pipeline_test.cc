#include "models/sharding/pipeline.h"

#include <gmock/gmock.h>

namespace headroom {
namespace {

using testing::ElementsAre;

std::vector<std::int64_t> counts(const std::vector<PipelineStage>& stages) {
  std::vector<std::int64_t> out;
  for (const PipelineStage& stage : stages) out.push_back(stage.layers());
  return out;
}

TEST(Pipeline, SplitsEvenly) {
  const auto stages = pipeline_stages(32, {.pipeline = 4}).value();
  EXPECT_THAT(counts(stages), ElementsAre(8, 8, 8, 8));
  EXPECT_TRUE(stages.front().embedding && stages.back().head);
  EXPECT_FALSE(stages[1].embedding || stages[1].head);
}

TEST(Pipeline, TakesCountsOfTheFirstAndLastStage) {
  EXPECT_THAT(
      counts(pipeline_stages(61, {.pipeline = 8, .first_stage_layers = 6, .last_stage_layers = 7}).value()),
      ElementsAre(6, 8, 8, 8, 8, 8, 8, 7));
  EXPECT_THAT(counts(pipeline_stages(30, {.pipeline = 4, .last_stage_layers = 6}).value()),
              ElementsAre(8, 8, 8, 6));
}

TEST(Pipeline, GivesEmbeddingAndLossASlotEach) {
  EXPECT_THAT(
      counts(pipeline_stages(30, {.pipeline = 4, .account_for_embedding = true, .account_for_loss = true})
                 .value()),
      ElementsAre(7, 8, 8, 7));
}

TEST(Pipeline, DealsVirtualStagesRoundByRound) {
  const auto stages = pipeline_stages(16, {.pipeline = 2, .virtual_pipeline = 4}).value();
  EXPECT_THAT(stages[0].chunks,
              ElementsAre(LayerRange{0, 2}, LayerRange{4, 2}, LayerRange{8, 2}, LayerRange{12, 2}));
  EXPECT_THAT(stages[1].chunks,
              ElementsAre(LayerRange{2, 2}, LayerRange{6, 2}, LayerRange{10, 2}, LayerRange{14, 2}));
}

TEST(Pipeline, NamesWhatDoesNotDivide) {
  EXPECT_EQ(pipeline_stages(30, {.pipeline = 4}).error().key, "pipeline");
  EXPECT_EQ(pipeline_stages(32, {.pipeline = 4, .virtual_pipeline = 3}).error().key, "virtual_pipeline");
  EXPECT_EQ(pipeline_stages(4, {.pipeline = 8}).error().key, "pipeline");
  EXPECT_EQ(
      pipeline_stages(32, {.pipeline = 4, .first_stage_layers = 8, .account_for_loss = true}).error().key,
      "first_stage_layers");
}

/// Every layer lies in exactly one chunk of one stage, whatever the layout.
TEST(Pipeline, CoversEveryLayerOnce) {
  int valid = 0;
  for (std::int64_t layers : {1, 2, 7, 12, 24, 61})
    for (std::int64_t stages : {1, 2, 3, 4, 8})
      for (std::int64_t chunks : {1, 2, 3})
        for (std::int64_t first : {0, 1, 3, 6})
          for (std::int64_t last : {0, 2, 5})
            for (bool account : {false, true}) {
              const auto split = pipeline_stages(layers, {.pipeline = stages,
                                                          .virtual_pipeline = chunks,
                                                          .first_stage_layers = first,
                                                          .last_stage_layers = last,
                                                          .account_for_embedding = account});
              if (!split) continue;
              ++valid;
              std::vector<int> seen(static_cast<size_t>(layers), 0);
              for (const PipelineStage& stage : *split)
                for (const LayerRange& chunk : stage.chunks)
                  for (std::int64_t i = chunk.first; i < chunk.first + chunk.count; ++i)
                    ++seen.at(static_cast<size_t>(i));
              EXPECT_THAT(seen, testing::Each(1)) << layers << " layers, " << stages << " stages, " << chunks;
            }
  EXPECT_GT(valid, 100);
}

}  // namespace
}  // namespace headroom
