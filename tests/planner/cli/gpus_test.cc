#include "planner/cli/gpus.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "simulator/hardware/library.h"
#include "tests/planner/cli/outcome.h"

namespace headroom::cli {
namespace {

using testing::HasSubstr;
using testing::Not;

Outcome run_gpus(std::vector<std::string> words) {
  words.insert(words.begin(), "gpus");
  return run_words(std::vector<Command>{gpus_command()}, words);
}

TEST(Gpus, ListsEveryProfileOnALine) {
  const Outcome outcome = run_gpus({});
  EXPECT_EQ(outcome.code, kDone);
  EXPECT_EQ(std::count(outcome.out.begin(), outcome.out.end(), '\n'),
            static_cast<std::ptrdiff_t>(hardware_profiles().size()) + 1);
  EXPECT_THAT(outcome.out,
              ::testing::ContainsRegex("NVIDIA H100 80GB HBM3 +79.18 GiB +989.4 T +3.35 T +450 G\n"));
}

TEST(Gpus, ShowsOneWithItsSources) {
  const Outcome outcome = run_gpus({"a100-40gb"});
  EXPECT_EQ(outcome.code, kDone);
  EXPECT_THAT(outcome.out, HasSubstr("NVIDIA A100-SXM4-40GB\nalso: a100-40gb"));
  EXPECT_THAT(outcome.out, HasSubstr("\nmemory (measured, published with AgileRL's memory profiles)\n"));
  EXPECT_THAT(outcome.out, HasSubstr("fp8              none\n"));
  EXPECT_THAT(outcome.out, Not(HasSubstr("\nhost (")));
}

TEST(Gpus, WritesJsonAlone) {
  const Outcome outcome = run_gpus({"h200", "--json", "-"});
  EXPECT_EQ(outcome.code, kDone);
  const auto json = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(json["schema"], "headroom.gpus/1");
  ASSERT_EQ(json["gpus"].size(), 1u);
  EXPECT_EQ(json["gpus"][0]["name"], "NVIDIA H200");
  EXPECT_EQ(json["gpus"][0]["memory"]["total"], 150109880320);
  EXPECT_EQ(json["gpus"][0]["rates"]["memory"], 4.8e12);
  EXPECT_EQ(json["gpus"][0]["process"]["context"], 552468480);
  EXPECT_EQ(json["gpus"][0]["efficiency"]["matrix"][0].size(), 2u);
  EXPECT_THAT(json["gpus"][0]["nccl"]["source"], HasSubstr("measured"));
}

TEST(Gpus, AnUnknownNameIsBadInput) {
  const Outcome outcome = run_gpus({"h1000"});
  EXPECT_EQ(outcome.code, kBadInput);
  EXPECT_EQ(outcome.out, "");
  EXPECT_THAT(outcome.err, HasSubstr("headroom: no hardware profile named h1000; nearest: h100"));
}

}  // namespace
}  // namespace headroom::cli
