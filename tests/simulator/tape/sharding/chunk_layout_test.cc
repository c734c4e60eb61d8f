#include "simulator/tape/sharding/chunk_layout.h"

#include <gmock/gmock.h>

#include <numeric>

namespace headroom::tape {
namespace {

using testing::ElementsAre;

std::int64_t padded_sum(const std::vector<ChunkPlan>& chunks) {
  return std::accumulate(chunks.begin(), chunks.end(), std::int64_t{0},
                         [](std::int64_t sum, const ChunkPlan& chunk) { return sum + chunk.elements; });
}

/// OPT's parameters in the order of its modules: table, positions, projections, final norm, layers; a head of width
/// `head` behind them.
std::vector<std::int64_t> opt(std::int64_t hidden, std::int64_t layers, std::int64_t projected, bool final_norm,
                              std::int64_t head) {
  constexpr std::int64_t kVocabulary = 50272, kPositions = 2050;
  std::vector<std::int64_t> out{kVocabulary * projected, kPositions * hidden};
  if (projected != hidden) out.insert(out.end(), {projected * hidden, projected * hidden});
  if (final_norm) out.insert(out.end(), {hidden, hidden});
  for (std::int64_t i = 0; i < layers; ++i) {
    for (int j = 0; j < 4; ++j) out.insert(out.end(), {hidden * hidden, hidden});
    out.insert(out.end(), {hidden, hidden, 4 * hidden * hidden, 4 * hidden, 4 * hidden * hidden, hidden, hidden, hidden});
  }
  if (head > 0) out.insert(out.end(), {head, 1});
  return out;
}

// What ColossalAI's search finds for these models on four ranks, worked out from its code by hand.
TEST(ChunkLayout, OfPublicModels) {
  const ChunkSearch four{.ranks = 4};
  const std::vector<ChunkPlan> large = plan_chunks(opt(2048, 24, 2048, true, 0), four);
  EXPECT_EQ(large.size(), 38u);
  EXPECT_EQ(large[1].elements, 33'574'912);
  EXPECT_EQ(large[0].elements, 102'957'056);  // the table alone
  EXPECT_EQ(padded_sum(large), 1'345'228'800);
  const std::vector<ChunkPlan> critic = plan_chunks(opt(1024, 24, 512, false, 512), four);
  EXPECT_EQ(critic.size(), 8u);
  EXPECT_EQ(critic[0].elements, 44'088'320);
  EXPECT_EQ(padded_sum(critic), 352'706'560);
  const std::vector<ChunkPlan> small = plan_chunks(opt(768, 12, 768, true, 0), four);
  EXPECT_EQ(small.size(), 3u);
  EXPECT_EQ(padded_sum(small), 132'304'896);
}

TEST(ChunkLayout, AModelBelowTheSmallestChunkStaysWhole) {
  const std::vector<ChunkPlan> chunks = plan_chunks(std::vector<std::int64_t>{100, 50, 7}, {.ranks = 4});
  ASSERT_EQ(chunks.size(), 1u);
  EXPECT_TRUE(chunks[0].whole);
  EXPECT_EQ(chunks[0].elements, 157);
  EXPECT_THAT(chunks[0].parameters, ElementsAre(0, 1, 2));
}

TEST(ChunkLayout, ALargeParameterClosesTheChunkBefore) {
  const ChunkSearch search{.ranks = 4, .smallest = 64, .range = 0, .interval = 64};
  std::vector<std::int64_t> sizes(20, 30);
  sizes[3] = 1001;
  const std::vector<ChunkPlan> chunks = plan_chunks(sizes, search);
  EXPECT_THAT(chunks[1].parameters, ElementsAre(2));
  EXPECT_EQ(chunks[1].elements, 64);
  EXPECT_THAT(chunks[2].parameters, ElementsAre(3));
  EXPECT_EQ(chunks[2].elements, 1004);  // padded to four parts
  EXPECT_THAT(chunks[3].parameters, ElementsAre(4, 5));
}

/// Every parameter is in one chunk, chunks hold what they are said to, whole ranks' parts are equal.
TEST(ChunkLayout, KeepsEveryParameterOfDrawnModels) {
  std::uint64_t seed = 7;
  const auto draw = [&](std::uint64_t below) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return static_cast<std::int64_t>((seed >> 33) % below);
  };
  for (int model = 0; model < 50; ++model) {
    std::vector<std::int64_t> sizes;
    for (std::int64_t i = 5 + draw(60); i > 0; --i) sizes.push_back(1 + draw(model % 2 == 0 ? 500 : 5000));
    const ChunkSearch search{.ranks = 1 + draw(8), .smallest = 1024, .range = 1024, .interval = 16};
    std::size_t next = 0;
    for (const ChunkPlan& chunk : plan_chunks(sizes, search)) {
      std::int64_t used = 0;
      for (const std::size_t i : chunk.parameters) {
        EXPECT_EQ(i, next++);
        used += sizes[i];
      }
      EXPECT_EQ(used, chunk.used);
      EXPECT_LE(used, chunk.elements);
      EXPECT_TRUE(chunk.whole || chunk.elements % search.ranks == 0);
    }
    EXPECT_EQ(next, sizes.size());
  }
}

}  // namespace
}  // namespace headroom::tape
