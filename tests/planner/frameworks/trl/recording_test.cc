#include "planner/frameworks/trl/recording.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "models/document/document.h"
#include "planner/frameworks/registry.h"
#include "tests/support/data.h"

namespace headroom::trl {
namespace {

using testing::HasSubstr;

Result<ReadJob> read_text(const std::string& words) {
  return read_job_text("{case: {trainer: dpo, words: [" + words +
                           "], model: {model_type: llama, hidden_size: 64, intermediate_size: 128, num_hidden_layers: "
                           "2, num_attention_heads: 4, vocab_size: 256}}, device: NVIDIA H200, phases: []}",
                       "run.json", {});
}

/// A recording states the command that it was, its model, card and releases.
TEST(TrlRecording, IsReadAsTheRunThatItWas) {
  const std::string path = test::data("trl-trainers/dpo-ll1b-bf16w-acc2.json");
  const ReadJob read = read_job(std::array{path}, {}).value();
  EXPECT_EQ(read.job.framework, "trl");
  EXPECT_EQ(read.job.gpu, "NVIDIA H200");
  EXPECT_EQ(read.job.steps, 3);
  EXPECT_EQ(read.job.versions.framework, "1.9.0");
  EXPECT_EQ(read.job.versions.torch, "2.11.0");
  EXPECT_EQ(read.job.role("actor")->model->decoder.hidden, 2048);
  EXPECT_EQ(read.job.role("actor")->precision.weights, DType::bf16);
}

/// Adapters are dropped out by the command's default, but where the trainer switches dropout off.
TEST(TrlRecording, DropsOutWhatAdaptersGet) {
  for (const auto& [name, dropout] : {std::pair{"sft-q05-lora", true}, std::pair{"dpo-q05-lora", false},
                                      std::pair{"reward-q05-lora", false}}) {
    const std::string path = test::data(std::string("trl-trainers/") + name + ".json");
    const ReadJob read = read_job(std::array{path}, {}).value();
    EXPECT_EQ(read.job.role("actor")->lora->dropout, dropout) << name;
  }
}

TEST(TrlRecording, NamesAWordThatIsNoFlag) {
  EXPECT_TRUE(read_text("--max_length, 64"));
  const Result<ReadJob> alone = read_text("--max_length");
  ASSERT_FALSE(alone);
  EXPECT_THAT(alone.error().text(), HasSubstr("case.words: expected --flag and its value in turn"));
  EXPECT_THAT(read_text("max_length, 64").error().text(), HasSubstr("found \"max_length\""));
}

TEST(TrlRecording, IsAsLongAsItsWordsSay) {
  EXPECT_EQ(read_text("--max_steps, 7")->job.steps, 7);
  EXPECT_NE(read_text("--max_steps, 100000000000000")->job.steps, 0);
}

}  // namespace
}  // namespace headroom::trl
