#include "planner/cli/dataset_lengths.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "planner/cli/lengths.h"
#include "planner/frameworks/registry.h"
#include "tests/planner/cli/outcome.h"
#include "tests/support/data.h"

namespace headroom::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string words(const std::string& data, const std::string& model = "Qwen/Qwen2.5-7B-Instruct") {
  return "headroom.versions.verl=0.5.0\nactor_rollout_ref.model.path=" + model + "\ndata.train_files=" + data +
         "\nactor_rollout_ref.rollout.name=vllm\nactor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=40\n"
         "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=40\ndata.max_response_length=3072\n"
         "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu=40\nactor_rollout_ref.rollout.n=5\n"
         "algorithm.adv_estimator=grpo\nactor_rollout_ref.model.use_remove_padding=true\n";
}

ReadJob read(const std::string& data, const std::string& model = "Qwen/Qwen2.5-7B-Instruct") {
  Result<ReadJob> out = read_job_text(words(data, model), "run.args", {});
  EXPECT_TRUE(out) << out.error().text();
  return std::move(*out);
}

TEST(DatasetLengths, ADatasetIsNamedByItsFolderOrFile) {
  EXPECT_THAT(training_data(read("/home/me/data/gsm8k/train.parquet")), ElementsAre("gsm8k"));
  EXPECT_THAT(training_data(read("openai/GSM8K")), ElementsAre("gsm8k"));
  EXPECT_THAT(training_data(read("data/dapo-math-17k.parquet")), ElementsAre("dapo-math-17k"));
  EXPECT_THAT(training_data(read("['a/gsm8k/train.parquet','b/math/train.parquet']")), ElementsAre("gsm8k", "math"));
  EXPECT_THAT(training_data(read("a/gsm8k_multi_turn/train.parquet")), ElementsAre("gsm8k_multi_turn"));
}

/// What stands before the dataset's name is often known only when the script runs.
TEST(DatasetLengths, AnUnknownFolderHidesNoDataset) {
  const std::string path = test::scratch() / "dataset_lengths.sh";
  std::string line = words("\"['$UNSET/gsm8k/train.parquet']\"");
  std::replace(line.begin(), line.end(), '\n', ' ');
  std::ofstream(path) << "python3 -m verl.trainer.main_ppo " << line << "\n";
  const Result<ReadJob> read = read_job(std::vector<std::string>{path}, {});
  ASSERT_TRUE(read) << read.error().text();
  EXPECT_THAT(training_data(*read), ElementsAre("gsm8k"));
}

TEST(DatasetLengths, SeveralCountByTheirSizes) {
  const double one = lengths_of_data(read("gsm8k"))->mean_prompt, other = lengths_of_data(read("math"))->mean_prompt;
  const Lengths both = lengths_of_data(read("[gsm8k,math]")).value();
  EXPECT_NEAR(both.mean_prompt, (one + other) / 2, 0.1);  // about as many
  EXPECT_THAT(both.source, HasSubstr("math: "));
  EXPECT_FALSE(lengths_of_data(read("[gsm8k,mine]")));
}

/// Base models, models that think and the smallest answer at other lengths than those measured.
TEST(DatasetLengths, ResponsesAreKnownOfPlainChatModelsOnly) {
  EXPECT_GT(lengths_of_data(read("gsm8k"))->mean_response, 0);
  for (const char* model : {"Qwen/Qwen2.5-7B", "Qwen/Qwen3-8B", "deepseek-ai/DeepSeek-R1-Distill-Qwen-7B",
                            "Qwen/Qwen2-0.5B-Instruct"})
    EXPECT_EQ(lengths_of_data(read("gsm8k", model))->mean_response, 0) << model;
}

/// Templates and answers differ between families; what was measured of one is not taken for another's.
TEST(DatasetLengths, AreThoseOfTheModelWhereItsOwnAreKnown) {
  const Lengths newer = *lengths_of_data(read("gsm8k")), older = *lengths_of_data(read("gsm8k", "Qwen/Qwen2-7B-Instruct"));
  EXPECT_LT(older.mean_prompt, newer.mean_prompt);
  EXPECT_LT(older.mean_response, newer.mean_response / 1.5);
  EXPECT_GT(lengths_of_data(read("gsm8k", "Qwen/Qwen2.5-0.5B-Instruct"))->mean_response, newer.mean_response);
  EXPECT_EQ(lengths_of_data(read("math", "Qwen/Qwen2.5-0.5B-Instruct"))->mean_response, 0);  // not measured
}

/// Known lengths decide where the caps do not fit, and it is said; `--lengths caps` asks for the caps alone.
TEST(DatasetLengths, DecideWhereTheCapsDoNotFit) {
  const std::string path = test::scratch() / "dataset_lengths.args";
  std::ofstream(path) << words("data/gsm8k/train.parquet");
  for (const char* command : {"estimate", "check"}) {
    const Outcome known = run_words({command, path, "--gpu", "h100"});
    EXPECT_EQ(known.code, kDone) << known.out << known.err;
    EXPECT_THAT(known.out + known.err, HasSubstr("decided at the lengths that are known (prompts of 104, responses of 313 tokens)"));
    EXPECT_THAT(known.out + known.err, HasSubstr("with every sequence at its cap (512 + 3072 tokens) it does not fit"));
    EXPECT_EQ(run_words({command, path, "--gpu", "h100", "--lengths", "caps"}).code, kOver);
  }
  std::ofstream(path) << words("data/mine/train.parquet");
  EXPECT_EQ(run_words({"check", path, "--gpu", "h100"}).code, kOver);
}

/// A log is held against the run at the lengths that it tells: shorter responses than the caps', less of everything.
TEST(DatasetLengths, ALogTellsItsOwn) {
  const std::string path = test::scratch() / "dataset_lengths.args", log = test::scratch() / "dataset_lengths.log";
  std::ofstream(path) << words("data/mine/train.parquet");
  std::ofstream(log) << "step:1 - timing_s/update_actor:30.0 - response_length/mean:300.0 - prompt_length/mean:100.0\n"
                        "step:2 - timing_s/update_actor:30.0 - response_length/mean:310.0 - prompt_length/mean:100.0\n";
  const auto predicted = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = {"compare", path, log, "--gpu", "h200", "--steps", "1", "--json", "-"};
    all.insert(all.end(), more.begin(), more.end());
    const Outcome outcome = run_words(all);
    EXPECT_EQ(outcome.code, kDone) << outcome.err;
    return nlohmann::json::parse(outcome.out)["rows"][0]["predicted"].get<double>();
  };
  const double logged = predicted({});
  EXPECT_LT(logged, 0.7 * predicted({"--lengths", "caps"}));
  EXPECT_THAT(run_words({"compare", path, log, "--gpu", "h200", "--steps", "1"}).out,
              HasSubstr("at the lengths logged: prompts of 100, responses of 310 tokens"));
}

}  // namespace
}  // namespace headroom::cli
