#include "planner/cli/lengths.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace headroom::cli {
namespace {

using ::testing::HasSubstr;

Batch caps() {
  Batch batch;
  batch.prompts = 8;
  batch.prompt_length = 1000;
  batch.response_length = 3000;
  return batch;
}

TEST(Lengths, AMeanIsSharedOutAsTheCapsAre) {
  const Lengths lengths = read_lengths("mean=2000,max=3500", caps()).value();
  EXPECT_EQ(lengths.mean_prompt, 500);
  EXPECT_EQ(lengths.mean_response, 1500);
  EXPECT_EQ(lengths.max_total, 3500);
}

TEST(Lengths, WhatIsNotGivenStaysAtTheCap) {
  Job job;
  job.batch = caps();
  const Job expected = at_expected_lengths(job, read_lengths("response=700.5", caps()).value());
  EXPECT_EQ(expected.batch.prompt_length, 1000);
  EXPECT_EQ(expected.batch.response_length, 701);
}

TEST(Lengths, ComeFromAFileWithItsSource) {
  const std::filesystem::path path = std::filesystem::path(::testing::TempDir()) / "lengths.yaml";
  std::ofstream(path) << "prompt: 90\nresponse: 210\nsource: measured on the training set\n";
  const Lengths lengths = read_lengths(path, caps()).value();
  EXPECT_EQ(lengths.mean_response, 210);
  EXPECT_EQ(lengths.source, "measured on the training set");
  std::ofstream(path) << "prompt: 90\nrespons: 210\n";
  EXPECT_EQ(read_lengths(path, caps()).error().text(),
            path.string() +
                ":2: respons: expected one of prompt, response, mean, max, source; did you mean 'response'?");
}

TEST(Lengths, RefusesWhatMakesNoSense) {
  for (const char* text :
       {"mean=-1", "mean=x", "max=100", "mean=5000", "response=3001", "mean", "=", "mean=1,"})
    EXPECT_FALSE(read_lengths(text, caps()).has_value()) << text;
  EXPECT_THAT(read_lengths("prompt=2000", caps()).error().text(), HasSubstr("at most the caps"));
}

}  // namespace
}  // namespace headroom::cli
