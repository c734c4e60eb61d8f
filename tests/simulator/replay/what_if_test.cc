#include "simulator/replay/what_if.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "simulator/replay/stream_file.h"
#include "simulator/replay/text_file.h"
#include "simulator/replay/what_if_advice.h"
#include "tests/support/data.h"

namespace headroom::replay {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

AllocationStream parsed(const std::string& events) {
  return parse_stream(R"({"format":3,"phases":["a","b"],"events":[)" + events + "]}", "stream").value();
}

constexpr Bytes kMib = kMiB;

/// 60 MiB and 30 MiB live one after the other, then 70 MiB: the freed 60 MiB cannot serve it.
AllocationStream regrowth() {
  return parsed(R"(["p",0],["a",0,62914560],["f",0],["a",1,31457280],["p",1],["a",2,73400320],["f",2])");
}

const WhatIfOutcome& row(const WhatIf& table, const std::string& name) {
  for (const WhatIfOutcome& outcome : table.outcomes)
    if (outcome.setting.name == name) return outcome;
  ADD_FAILURE() << name;
  return table.baseline;
}

TEST(WhatIf, CountsWhatEachSettingReserves) {
  const WhatIf table = what_if(regrowth(), default_what_if_settings(), std::nullopt, 2).value();
  // 30 MiB are cut from the freed 60: 60 + 70 MiB. One growing range: 100 MiB, in steps of 20.
  EXPECT_EQ(table.baseline.peak_reserved, 130 * kMib);
  EXPECT_EQ(row(table, "default").peak_reserved, 130 * kMib);
  EXPECT_EQ(row(table, "expandable").peak_reserved, 100 * kMib);
  EXPECT_EQ(row(table, "default").peak_allocated, 100 * kMib);
  EXPECT_EQ(row(table, "collect at 80%").skipped, "works only under a limit");
  // Blocks from 32 MiB on are not split: the freed 60 MiB are too large for 30, so 60 + 30 + 70.
  EXPECT_EQ(row(table, "split 32 MiB").peak_reserved, 160 * kMib);
  EXPECT_THAT(table.advice, StartsWith("Keep the recorded settings"));  // 30 MiB are not worth a change.
}

/// A process that switches expandable segments does so where it is replayed as recorded; other settings hold throughout.
TEST(WhatIf, SwitchesAsRecorded) {
  const AllocationStream stream =
      parsed(R"(["x",1],["a",0,62914560],["f",0],["a",1,31457280],["a",2,73400320],["x",0],["f",2])");
  const WhatIf table = what_if(stream, default_what_if_settings(), std::nullopt, 1).value();
  EXPECT_EQ(table.baseline.peak_reserved, 100 * kMib);
  EXPECT_EQ(row(table, "default").peak_reserved, 130 * kMib);
  EXPECT_EQ(parse_stream(stream_text(stream), "again")->events.size(), stream.events.size());
}

TEST(WhatIf, LimitsEndInRetriesOrOutOfMemory) {
  const AllocationStream stream = regrowth();
  const auto run = [&](const char* conf, Bytes limit) {
    return run_setting(stream, {"x", conf, false, false}, limit).value();
  };
  const WhatIfOutcome fails = run("", 129 * kMib);
  ASSERT_TRUE(fails.out_of_memory);
  EXPECT_EQ(fails.out_of_memory->tried, 70 * kMib);
  EXPECT_EQ(fails.failed_phase, "b");
  EXPECT_EQ(stream.events[fails.failed_event].bytes, 70 * kMib);
  EXPECT_EQ(fails.retries, 1);
  EXPECT_FALSE(run("", 130 * kMib).out_of_memory);
  EXPECT_FALSE(run("expandable_segments:True", 100 * kMib).out_of_memory);
  // Unsplit, the freed 60 MiB are whole and go back when 160 MiB do not fit.
  const WhatIfOutcome released = run("max_split_size_mb:32", 129 * kMib);
  EXPECT_FALSE(released.out_of_memory);
  EXPECT_EQ(released.peak_reserved, 100 * kMib);
}

TEST(WhatIf, SaysWhatARunNeedsThatFitsUnderNoSetting) {
  const auto advice = [](Bytes limit) {
    const WhatIfSetting only{"default", "", false, false};
    return what_if(regrowth(), {&only, 1}, limit, 1).value().advice;
  };
  EXPECT_EQ(
      advice(96 * kMib),
      "No setting tried fits in 0.09 GiB: the run allocates 0.10 GiB at one moment, so it has to shrink.");
  EXPECT_THAT(advice(128 * kMib),
              StartsWith("No setting tried fits in 0.12 GiB, though the run never allocates "
                         "more than 0.10 GiB: free memory lies in pieces"));
}

TEST(WhatIf, CollectionNeedsTheLimit) {
  // 50 and 52 MiB come and go; the 60 MiB after them find 102 MiB cached, above 80 % of 120: the older block
  // goes.
  const AllocationStream stream =
      parsed(R"(["a",0,52428800],["f",0],["a",1,54525952],["f",1],["a",2,62914560],["f",2])");
  const WhatIfOutcome outcome =
      run_setting(stream, {"x", "garbage_collection_threshold:0.8", false, false}, 120 * kMib).value();
  EXPECT_EQ(outcome.retries, 0);
  EXPECT_EQ(outcome.device_frees, 1);
  EXPECT_EQ(run_setting(stream, {"x", "", false, false}, 120 * kMib)->retries, 1);
}

TEST(WhatIf, EmptiesTheCacheAtPhaseEnds) {
  const AllocationStream stream =
      parsed(R"(["p",0],["a",0,62914560],["f",0],["p",1],["a",1,73400320],["f",1],["p",-1])");
  EXPECT_EQ(run_setting(stream, {"x", "", false, false}, std::nullopt)->peak_reserved, 130 * kMib);
  const WhatIfOutcome emptied = run_setting(stream, {"x", "", true, false}, std::nullopt).value();
  EXPECT_EQ(emptied.peak_reserved, 70 * kMib);
  EXPECT_EQ(emptied.reserved_end, 0);
}

TEST(WhatIf, BlocksFreedWhileInUseStayUntilCompleted) {
  // The second 60 MiB cannot take the first's place before it is completed.
  const char* early = R"(["a",0,62914560],["q",0],["a",1,62914560],["f",0],["a",2,62914560])";
  EXPECT_EQ(run_setting(parsed(early), {"x", "", false, false}, std::nullopt)->peak_reserved, 120 * kMib);
  const char* late = R"(["a",0,62914560],["q",0],["a",1,62914560],["a",2,62914560],["f",0])";
  EXPECT_EQ(run_setting(parsed(late), {"x", "", false, false}, std::nullopt)->peak_reserved, 180 * kMib);
}

TEST(WhatIf, BlocksUsedOnIdleStreamsAreFreeAtTheNextAllocation) {
  const char* used = R"(["a",0,62914560],["r",0,1],["f",0],["a",1,62914560])";
  EXPECT_EQ(run_setting(parsed(used), {"x", "", false, false}, std::nullopt)->peak_reserved, 60 * kMib);
}

TEST(WhatIf, PoolsDoNotShare) {
  const char* pools = R"(["a",0,62914560,0,-1,1],["f",0],["a",1,62914560],["f",1],["a",2,62914560,0,-1,1])";
  EXPECT_EQ(run_setting(parsed(pools), {"x", "", false, false}, std::nullopt)->peak_reserved, 120 * kMib);
}

TEST(WhatIf, RefusesSettingsThatPyTorchWould) {
  const auto table = what_if(regrowth(), std::vector<WhatIfSetting>{{"x", "max_split_size:1", false, false}},
                             std::nullopt, 1);
  ASSERT_FALSE(table);
  EXPECT_THAT(table.error().text(), HasSubstr("max_split_size"));
}

TEST(WhatIf, RefusesAnAllocatorThatIsNotSimulated) {
  const auto outcome = run_setting(regrowth(), {"x", "backend:cudaMallocAsync", false, false}, std::nullopt);
  ASSERT_FALSE(outcome);
  EXPECT_THAT(outcome.error().text(), HasSubstr("only PyTorch's native one is simulated"));
  EXPECT_TRUE(run_setting(regrowth(), {"x", "backend:native", false, false}, std::nullopt));
}

TEST(WhatIf, ResultsDoNotDependOnThreads) {
  const std::string path = test::data("rlhf/fr-opt.trace.json.gz").string();
  const AllocationStream stream = parse_stream(read_text_file(path).value(), path).value();
  const WhatIf one = what_if(stream, default_what_if_settings(), 6 * kGiB, 1).value();
  const WhatIf many = what_if(stream, default_what_if_settings(), 6 * kGiB, 4).value();
  ASSERT_EQ(one.outcomes.size(), many.outcomes.size());
  for (std::size_t i = 0; i < one.outcomes.size(); ++i)
    EXPECT_EQ(one.outcomes[i].peak_reserved, many.outcomes[i].peak_reserved);
  EXPECT_EQ(one.advice, many.advice);
}

WhatIfOutcome outcome(const char* name, const char* conf, Bytes reserved, std::int64_t retries = 0,
                      bool fails = false, bool emptied = false) {
  WhatIfOutcome o;
  o.setting = {name, conf, emptied, false};
  o.peak_allocated = kGiB;
  o.peak_reserved = reserved;
  o.retries = retries;
  if (fails) o.out_of_memory.emplace();
  return o;
}

WhatIf advised(WhatIfOutcome baseline, std::vector<WhatIfOutcome> outcomes, std::optional<Bytes> limit = {}) {
  WhatIf table;
  table.baseline = std::move(baseline);
  table.outcomes = std::move(outcomes);
  table.limit = limit;
  advise(table);
  return table;
}

TEST(Advice, SavesOrKeeps) {
  const WhatIf saves =
      advised(outcome("as recorded", "", 10 * kGiB), {outcome("e", "expandable_segments:True", 8 * kGiB)});
  EXPECT_EQ(saves.export_conf, "expandable_segments:True");
  EXPECT_EQ(
      saves.advice,
      "Use `export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True`: the reserved peak falls from 10.00 GiB "
      "to 8.00 GiB "
      "(20.0 %), of which 1.00 GiB are allocated.");
  const WhatIf keeps = advised(outcome("as recorded", "", 10 * kGiB),
                               {outcome("e", "expandable_segments:True", 10 * kGiB - kMiB)});
  EXPECT_THAT(keeps.advice, StartsWith("Keep the recorded settings"));
  EXPECT_EQ(keeps.export_conf, "");
}

TEST(Advice, PrefersSettingsToEmptyingWhenNearlyEqual) {
  const auto emptied = outcome("ee", "expandable_segments:True", 8 * kGiB - kMiB, 0, false, true);
  EXPECT_FALSE(
      advised(outcome("r", "", 10 * kGiB), {outcome("e", "expandable_segments:True", 8 * kGiB), emptied})
          .export_emptying);
  const auto far = outcome("ee", "", 7 * kGiB, 0, false, true);
  const WhatIf table =
      advised(outcome("r", "", 10 * kGiB), {outcome("e", "expandable_segments:True", 8 * kGiB), far});
  EXPECT_TRUE(table.export_emptying);
  EXPECT_THAT(table.advice, StartsWith("Call torch.cuda.empty_cache() at the end of every phase"));
}

TEST(Advice, FittingComesBeforeSaving) {
  const WhatIf fits = advised(outcome("r", "", 9 * kGiB, 1, true),
                              {outcome("bad", "max_split_size_mb:32", 5 * kGiB, 1, true),
                               outcome("e", "expandable_segments:True", 9 * kGiB)},
                              10 * kGiB);
  EXPECT_THAT(fits.advice, HasSubstr("then fits in 10.00 GiB"));
  EXPECT_EQ(fits.export_conf, "expandable_segments:True");
  const WhatIf retries =
      advised(outcome("r", "", 9 * kGiB, 3), {outcome("e", "expandable_segments:True", 9 * kGiB)}, 10 * kGiB);
  EXPECT_THAT(retries.advice, HasSubstr("none of its 3 retries"));
  const WhatIf none = advised(outcome("r", "", 9 * kGiB, 1, true),
                              {outcome("e", "expandable_segments:True", 9 * kGiB, 1, true)}, 10 * kGiB);
  EXPECT_EQ(none.advice, "No setting tried fits in 10.00 GiB.");
}

}  // namespace
}  // namespace headroom::replay
