#include "planner/cli/lengths.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/planner/cli/outcome.h"
#include "tests/support/data.h"

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

Job of(const Batch& batch) {
  Job job;
  job.batch = batch;
  return job;
}

Job capped() {
  return of(caps());
}

TEST(Lengths, AMeanIsSharedOutAsTheCapsAre) {
  const Lengths lengths = read_lengths("mean=2000,max=3500", capped()).value();
  EXPECT_EQ(lengths.mean_prompt, 500);
  EXPECT_EQ(lengths.mean_response, 1500);
  EXPECT_EQ(lengths.max_total, 3500);
}

TEST(Lengths, WhatIsNotGivenStaysAtTheCap) {
  Job job;
  job.batch = caps();
  const Job expected = at_expected_lengths(job, read_lengths("response=700.5", capped()).value());
  EXPECT_EQ(expected.batch.prompt_length, 1000);
  EXPECT_EQ(expected.batch.response_length, 701);
}

TEST(Lengths, ComeFromAFileWithItsSource) {
  const std::filesystem::path path = test::scratch() / "lengths.yaml";
  std::ofstream(path) << "prompt: 90\nresponse: 210\nsource: measured on the training set\n";
  const Lengths lengths = read_lengths(path, capped()).value();
  EXPECT_EQ(lengths.mean_response, 210);
  EXPECT_EQ(lengths.source, "measured on the training set");
  std::ofstream(path) << "prompt: 90\nrespons: 210\n";
  EXPECT_EQ(read_lengths(path, capped()).error().text(),
            path.string() +
                ":2: respons: expected one of prompt, response, mean, max, spread, prompt_max, source; did you mean "
                "'response'?");
}

TEST(Lengths, AreMeasuredFromLists) {
  const std::filesystem::path path = test::scratch() / "lengths.txt";
  std::ofstream(path) << "# prompt and response\n1000\n3000\n\n9000\n";  // the last one is cut at the cap
  const Lengths lines = read_lengths(path, capped()).value();
  EXPECT_NEAR(lines.mean_prompt + lines.mean_response, (1000 + 3000 + 4000) / 3.0, 1e-6);
  EXPECT_EQ(lines.max_total, 4000);
  EXPECT_NEAR(lines.spread, 1247.2, 0.1);
  std::ofstream(path) << R"({"prompt": [100, 300], "response": [1000, 2000, 3000]})";
  const Lengths parts = read_lengths(path, capped()).value();
  EXPECT_EQ(parts.mean_prompt, 200);
  EXPECT_EQ(parts.mean_response, 2000);
  EXPECT_EQ(parts.max_total, 3300);
  std::ofstream(path) << "100\nmany\n";
  EXPECT_FALSE(read_lengths(path, capped()).has_value());
}

TEST(Lengths, AreKnownOfADataset) {
  Batch batch = caps();
  const Lengths gsm8k = read_lengths("gsm8k", of(batch)).value();
  EXPECT_GT(gsm8k.mean_response, gsm8k.mean_prompt);
  EXPECT_FALSE(gsm8k.source.empty());
  EXPECT_THAT(read_lengths("gsm9k", of(batch)).error().text(), HasSubstr("gsm8k"));
}

/// Fewer sequences in a micro-batch vary more; a token budget does not.
TEST(Lengths, TheLargestMicroBatchExceedsTheMean) {
  const auto response = [](std::int64_t sequences, std::int64_t tokens) {
    Job job;
    job.pools.emplace_back();
    job.batch = caps();
    job.batch.prompts = 1024;
    Role& role = job.roles.emplace_back();
    role.packed = true;
    role.forward = {.sequences = sequences, .tokens = tokens};
    return at_expected_lengths(job, read_lengths("prompt=100,response=300,spread=150", job).value())
        .batch.response_length;
  };
  EXPECT_EQ(response(0, 16384), 300);
  EXPECT_GT(response(64, 0), 300 + 2 * 150 / 8);
  EXPECT_LT(response(64, 0), 300 + 3 * 150 / 8);
  EXPECT_GT(response(16, 0), response(64, 0));
}

/// Responses that are cut leave the rest of the variation to prompts.
TEST(Lengths, WhatExceedsTheResponsesCapLiesInPrompts) {
  Job job;
  job.pools.emplace_back();
  job.batch = caps();
  job.batch.prompts = 1024;
  Role& role = job.roles.emplace_back();
  role.packed = true;
  role.forward = {.sequences = 16};
  const auto batch = [&](double response) {
    return at_expected_lengths(
               job, read_lengths("prompt=100,spread=400,response=" + std::to_string(response), job).value())
        .batch;
  };
  EXPECT_EQ(batch(300).prompt_length, 100);
  EXPECT_EQ(batch(2990).response_length, job.batch.response_length);
  EXPECT_EQ(batch(2990).sequence_length(), batch(300).sequence_length() + 2690);
}

TEST(Lengths, WhatIsPaddedIsPaddedToTheLongest) {
  Job job;
  job.batch = caps();
  EXPECT_EQ(at_expected_lengths(job, read_lengths("mean=400,max=900", capped()).value()).lengths.max_total,
            900);
  EXPECT_EQ(at_expected_lengths(job, read_lengths("mean=400", capped()).value()).lengths.max_total, 4000);
}

// At expected lengths the batch forgets the caps: how long a response may become stays known.
TEST(Lengths, TheLongestResponseStaysTheCap) {
  Job job;
  job.batch = caps();
  EXPECT_EQ(at_expected_lengths(job, read_lengths("mean=400", capped()).value()).lengths.max_response,
            job.batch.response_length);
}

TEST(Lengths, RefusesWhatMakesNoSense) {
  for (const char* text : {"mean=-1", "mean=x", "max=100", "mean=5000", "response=3001", "mean", "=",
                           "mean=1,", "mean=100,max=10"})
    EXPECT_FALSE(read_lengths(text, capped()).has_value()) << text;
  EXPECT_THAT(read_lengths("prompt=2000", capped()).error().text(), HasSubstr("at most the caps"));
}

// NeMo RL's recipes let responses fill the whole sequence, which leaves prompts a cap of one token.
TEST(Lengths, PromptsShareASequenceThatResponsesMayFill) {
  Job job;
  job.batch = caps();
  job.batch.response_length += job.batch.prompt_length - 1;
  job.batch.prompt_length = 1;
  const Result<Lengths> lengths = read_lengths("prompt=130,response=1000,max=3000", of(job.batch));
  ASSERT_TRUE(lengths) << lengths.error().text();
  const Job expected = at_expected_lengths(job, *lengths);
  EXPECT_EQ(expected.batch.prompt_length, 130);
  EXPECT_EQ(expected.batch.response_length, 1000);
  EXPECT_FALSE(read_lengths("prompt=130,response=3990", of(job.batch)));  // more than 4,000 together
}

/// Where the caps fit, every command that takes the flag tells what the lengths change.
TEST(Lengths, ShowBesideTheVerdictOfEveryCommand) {
  const std::string config = test::source("configs/examples/verl/qwen2.5-0.5b-grpo-1x4090.yaml");
  const std::string file = test::scratch() / "flag_lengths.txt";
  std::ofstream(file) << "# tokens\n300\n400\n";
  const std::string json = test::scratch() / "flag_lengths.json";
  for (const char* command : {"estimate", "simulate", "check", "explain"}) {
    const Outcome outcome =
        run_words(commands(), {command, config, "--steps", "1", "--lengths", file, "--json", json});
    ASSERT_THAT(outcome.code, ::testing::AnyOf(kDone, kOver, kUndetermined)) << command << outcome.err;
    std::ifstream stream(json);
    const std::string text{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
    EXPECT_THAT(text, HasSubstr("expected_peak_device")) << command;
    EXPECT_THAT(text, HasSubstr("at expected lengths")) << command;
  }
  const Outcome planned = run_words(commands(), {"plan", config, "--steps", "1", "--lengths", file, "--vary",
                                                 "token_budget", "--top", "1"});
  EXPECT_THAT(planned.code, ::testing::AnyOf(kDone, kOver, kUndetermined)) << planned.err;
  std::filesystem::remove(file);
  std::filesystem::remove(json);
}

/// The file is read once, and no further than any other input.
TEST(Lengths, AFileIsAsBoundedAsAConfiguration) {
  const std::string config = test::source("configs/examples/verl/qwen2.5-0.5b-grpo-1x4090.yaml");
  const std::string file = test::scratch() / "huge_lengths.txt";
  std::ofstream(file).close();
  std::filesystem::resize_file(file, std::uintmax_t{1} << 32);  // sparse
  for (const std::string& name : {file, test::scratch().string()}) {
    const Outcome outcome = run_words(commands(), {"check", config, "--lengths", name});
    EXPECT_EQ(outcome.code, kBadInput);
    EXPECT_THAT(outcome.err, ::testing::StartsWith("headroom: " + name));
  }
  std::filesystem::remove(file);
}

}  // namespace
}  // namespace headroom::cli
