#include "models/kv_cache/kv_cache.h"

#include <gtest/gtest.h>

#include "tests/models/support/models.h"

namespace headroom {
namespace {

TEST(KvCache, CountsKeysAndValuesOfTheHeadsOfARank) {
  const Decoder decoder = test::model_of(test::kSmallLlama).decoder;  // 8 layers, 2 heads of 8
  EXPECT_EQ(kv_bytes_per_token(decoder, {}), 8 * 2 * 2 * 8 * 2);
  EXPECT_EQ(kv_bytes_per_token(decoder, {.tensor = 2}), 8 * 2 * 1 * 8 * 2);
  EXPECT_EQ(kv_bytes_per_token(decoder, {.tensor = 8}), 8 * 2 * 1 * 8 * 2);  // heads are repeated
  EXPECT_EQ(kv_bytes_per_token(decoder, {.dtype = DType::fp8}), 8 * 2 * 2 * 8);
  EXPECT_EQ(kv_bytes_per_token(decoder, {.dtype = DType::fp8, .head_scales = true}),
            8 * (2 * 2 * 8 + 2 * 2 * 4));
}

TEST(KvCache, KeepsOneLatentWholeOnEveryRank) {
  const Decoder decoder = test::model_of(test::kSmallDeepseek).decoder;
  EXPECT_EQ(kv_bytes_per_token(decoder, {}), 8 * (16 + 4) * 2);
  EXPECT_EQ(kv_bytes_per_token(decoder, {.tensor = 8}), 8 * (16 + 4) * 2);
}

TEST(KvCache, RoundsToBlocks) {
  const Decoder decoder = test::model_of(test::kSmallLlama).decoder;
  const Bytes token = kv_bytes_per_token(decoder, {});
  EXPECT_EQ(kv_bytes(decoder, 17, {.block = 16}), 32 * token);
  EXPECT_EQ(kv_bytes(decoder, 17, {.block = 1}), 17 * token);
}

TEST(KvCache, KeepsOnlyAWindowInLayersThatSlide) {
  const Decoder decoder = test::model_of(test::kSmallGemma).decoder;  // 3 of 6 layers slide over 32 tokens
  const Bytes layer = kv_bytes_per_token(decoder.layer(0).attention, {});
  EXPECT_EQ(kv_bytes(decoder, 1000, {.block = 1}), (3 * 32 + 3 * 1000) * layer);
  EXPECT_EQ(kv_bytes(decoder, 20, {.block = 1}), 6 * 20 * layer);
  // 31 + 64 tokens in blocks of 16 and one block for the window's uneven start.
  EXPECT_EQ(kv_bytes(decoder, 1024, {.block = 16, .step_tokens = 64}), (3 * (96 + 16) + 3 * 1024) * layer);
}

TEST(KvCache, KeepsKeysAndValuesInLayersThatAttendAlone) {
  const Decoder decoder = test::model_of(test::kSmallNext).decoder;
  EXPECT_EQ(kv_bytes_per_token(decoder, {}), 2 * 2 * 2 * 16 * 2);  // 2 of 8 layers
  EXPECT_EQ(kv_bytes_per_token(decoder.layer(0).attention, {.head_scales = true}), 0);
}

TEST(StateCache, HoldsThreeTokensChannelsAndAStateAHead) {
  const Decoder decoder = test::model_of(test::kSmallNext).decoder;
  const StateMixer& state = decoder.layer(0).state;
  const Bytes channels = 2 * 4 * 16 + 8 * 32, states = 8 * 16 * 32;
  EXPECT_EQ(state_bytes(state, {}), 3 * channels * 2 + states * 2);
  EXPECT_EQ(state_bytes(state, {.recurrence = DType::fp32}), 3 * channels * 2 + states * 4);
  EXPECT_EQ(state_bytes(decoder, {}), 6 * state_bytes(state, {}));
  EXPECT_EQ(state_bytes(state, {.tensor = 2}), state_bytes(state, {}) / 2);
  // More ranks than groups: each keeps one group of keys.
  EXPECT_EQ(state_bytes(state, {.tensor = 8}), 3 * (2 * 16 + 32) * 2 + 16 * 32 * 2);
  EXPECT_EQ(state_bytes(test::model_of(test::kSmallLlama).decoder, {}), 0);
}

}  // namespace
}  // namespace headroom
