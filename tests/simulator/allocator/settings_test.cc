#include "simulator/allocator/settings.h"

#include <gmock/gmock.h>

namespace headroom::allocator {
namespace {

using testing::HasSubstr;

AllocatorSettings parsed(std::string_view text) {
  return parse_allocator_settings(text).value();
}

TEST(AllocatorSettings, EmptyIsPyTorchsDefault) {
  EXPECT_EQ(parsed(""), AllocatorSettings{});
  EXPECT_EQ(parsed("  "), AllocatorSettings{});
}

TEST(AllocatorSettings, ACommaAtTheEndIsAccepted) {
  EXPECT_TRUE(parsed("expandable_segments:True,").expandable_segments);
}

TEST(AllocatorSettings, EveryOptionIsRead) {
  const AllocatorSettings s = parsed(
      "max_split_size_mb:64, large_segment_size_mb:32, max_non_split_rounding_mb:40, "
      "expandable_segments:True,"
      "garbage_collection_threshold:0.8, per_process_memory_fraction:0.5, "
      "graph_capture_record_stream_reuse:True,"
      "backend:cudaMallocAsync, release_lock_on_cudamalloc:True, pinned_use_cuda_host_register:True,"
      "pinned_num_register_threads:8, pinned_use_background_threads:True, pinned_reserve_segment_size_mb:100,"
      "pinned_max_round_threshold_mb:512, pinned_max_cached_size_mb:1024, roundup_power2_divisions:8");
  EXPECT_EQ(s.max_split_size, 64 * kMiB);
  EXPECT_EQ(s.large_segment_size, 32 * kMiB);
  EXPECT_EQ(s.max_non_split_rounding, 40 * kMiB);
  EXPECT_TRUE(s.expandable_segments);
  EXPECT_EQ(s.garbage_collection_threshold, 0.8);
  EXPECT_EQ(s.per_process_memory_fraction, 0.5);
  EXPECT_TRUE(s.graph_capture_record_stream_reuse);
  EXPECT_EQ(s.backend, AllocatorSettings::Backend::cuda_malloc_async);
  EXPECT_TRUE(s.release_lock_on_cudamalloc);
  EXPECT_TRUE(s.pinned_use_cuda_host_register);
  EXPECT_EQ(s.pinned_num_register_threads, 8);
  EXPECT_TRUE(s.pinned_use_background_threads);
  EXPECT_EQ(s.pinned_reserve_segment_size, 100 * kMiB);
  EXPECT_EQ(s.pinned_max_round_threshold, 512 * kMiB);
  EXPECT_EQ(s.pinned_max_cached_size, 1024 * kMiB);
  EXPECT_THAT(s.roundup_power2_divisions, testing::Each(8));
}

TEST(AllocatorSettings, LargeSegmentSizeIsTheDefaultOfNonSplitRounding) {
  EXPECT_EQ(parsed("large_segment_size_mb:64").max_non_split_rounding, 64 * kMiB);
}

TEST(AllocatorSettings, DivisionListFillsBelowItsFirstAndAboveItsLastSize) {
  const auto d = parsed("roundup_power2_divisions:[256:1,512:2,2048:4,>:8]").roundup_power2_divisions;
  EXPECT_THAT(d, testing::ElementsAre(1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 0, 4, 8, 8, 8, 8));
}

TEST(AllocatorSettings, ChangedAtRunTimeKeepSomeAndResetSome) {
  const AllocatorSettings before = parsed(
      "expandable_segments:True,large_segment_size_mb:32,max_split_size_mb:64,garbage_collection_threshold:0."
      "5,"
      "roundup_power2_divisions:4,max_non_split_rounding_mb:100");
  const AllocatorSettings after = change_allocator_settings(before, "max_split_size_mb:100").value();
  EXPECT_TRUE(after.expandable_segments);
  EXPECT_EQ(after.large_segment_size, 32 * kMiB);
  EXPECT_EQ(after.max_split_size, 100 * kMiB);
  EXPECT_EQ(after.max_non_split_rounding, 32 * kMiB);
  EXPECT_EQ(after.garbage_collection_threshold, 0);
  EXPECT_THAT(after.roundup_power2_divisions, testing::Each(0));
}

struct Refusal {
  const char* text;
  const char* key;
  const char* message;
};

class Refused : public testing::TestWithParam<Refusal> {};

TEST_P(Refused, NamesTheOptionAndWhatWasExpected) {
  const auto result = parse_allocator_settings(GetParam().text);
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().key, GetParam().key);
  EXPECT_THAT(result.error().message, HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    AllocatorSettings, Refused,
    testing::Values(
        Refusal{"max_split_size:64", "max_split_size", "did you mean `max_split_size_mb`?"},
        Refusal{"max_split_size_mb:19", "max_split_size_mb", "at least 20"},
        Refusal{"max_split_size_mb:25,large_segment_size_mb:30", "max_split_size_mb", "at least 30"},
        Refusal{"max_split_size_mb:64MB", "max_split_size_mb", "found `64MB`"},
        Refusal{"max_split_size_mb:-1", "max_split_size_mb", "found `-1`"},
        Refusal{"max_split_size_mb:", "max_split_size_mb", "found ``"},
        Refusal{"max_split_size_mb", "max_split_size_mb", "expected `option:value`"},
        Refusal{"max_split_size_mb:[64]", "max_split_size_mb", "found a list"},
        Refusal{"large_segment_size_mb:10", "large_segment_size_mb", "at least 11"},
        Refusal{"max_non_split_rounding_mb:8", "max_non_split_rounding_mb", "at least 20"},
        Refusal{"expandable_segments:true", "expandable_segments", "True or False"},
        Refusal{"garbage_collection_threshold:1.0", "garbage_collection_threshold", "between 0 and 1"},
        Refusal{"garbage_collection_threshold:nan", "garbage_collection_threshold", "found `nan`"},
        Refusal{"per_process_memory_fraction:1.5", "per_process_memory_fraction", "from 0 to 1"},
        Refusal{"roundup_power2_divisions:3", "roundup_power2_divisions", "power of two"},
        Refusal{"roundup_power2_divisions:[256:1", "roundup_power2_divisions", "`]`"},
        Refusal{"roundup_power2_divisions:[300:1]", "roundup_power2_divisions", "`300`"},
        Refusal{"roundup_power2_divisions:[256]", "roundup_power2_divisions", "`256`"},
        Refusal{"roundup_power2_divisions:[>:4,256:2]", "roundup_power2_divisions", "last item"},
        Refusal{"roundup_power2_divisions:[256:2]x", "roundup_power2_divisions", "`x`"},
        Refusal{"backend:jemalloc", "backend", "native or cudaMallocAsync"},
        Refusal{"pinned_num_register_threads:3", "pinned_num_register_threads", "power of two"},
        Refusal{"zzz:1", "zzz", "unknown allocator option"}, Refusal{":1", "", "`:1`"},
        Refusal{",", "", "expected `option:value`"}));

TEST(RoundRequest, WorkedSizes) {
  const AllocatorSettings plain,
      d4 = parsed("roundup_power2_divisions:4"), d8 = parsed("roundup_power2_divisions:8"),
      d2 = parsed("roundup_power2_divisions:2"), d1 = parsed("roundup_power2_divisions:1"),
      d256 = parsed("roundup_power2_divisions:256");
  EXPECT_EQ(round_request(plain, 1), 512);
  EXPECT_EQ(round_request(plain, 512), 512);
  EXPECT_EQ(round_request(plain, 513), 1024);
  EXPECT_EQ(round_request(d4, 1200), 1536);
  EXPECT_EQ(round_request(d4, 2048), 2048);
  EXPECT_EQ(round_request(d4, 2049), 2560);
  EXPECT_EQ(round_request(d4, 5000), 5120);
  EXPECT_EQ(round_request(d4, 20971521), 25165824);
  EXPECT_EQ(round_request(d4, 16777216), 16777216);
  EXPECT_EQ(round_request(d8, 20971521), 23068672);
  EXPECT_EQ(round_request(d2, 538968064), 805306368);
  EXPECT_EQ(round_request(d1, 3145729), 3146240);
  EXPECT_EQ(round_request(d256, 200000), 200192);
}

TEST(RoundRequest, ListedSizesUseTheirOwnDivisions) {
  const AllocatorSettings s = parsed("roundup_power2_divisions:[256:1,512:2,1024:4,>:8]");
  EXPECT_EQ(round_request(s, 300 * kMiB), 300 * kMiB);
  EXPECT_EQ(round_request(s, 600 * kMiB), 768 * kMiB);
  EXPECT_EQ(round_request(s, 1025 * kMiB), 1280 * kMiB);
  EXPECT_EQ(round_request(s, 2049 * kMiB), 2304 * kMiB);
}

TEST(SegmentSize, ChangesAtOneAndTenMebibytes) {
  const AllocatorSettings s;
  EXPECT_EQ(segment_size(s, 512), 2 * kMiB);
  EXPECT_EQ(segment_size(s, kMiB), 2 * kMiB);
  EXPECT_EQ(segment_size(s, kMiB + 512), 20 * kMiB);
  EXPECT_EQ(segment_size(s, 10 * kMiB - 512), 20 * kMiB);
  EXPECT_EQ(segment_size(s, 10 * kMiB), 10 * kMiB);
  EXPECT_EQ(segment_size(s, 10 * kMiB + 512), 12 * kMiB);
  EXPECT_EQ(segment_size(parsed("large_segment_size_mb:32"), 2 * kMiB), 32 * kMiB);
}

}  // namespace
}  // namespace headroom::allocator
