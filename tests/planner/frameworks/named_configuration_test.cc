#include "planner/frameworks/named_configuration.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "planner/frameworks/registry.h"
#include "tests/support/data.h"

namespace headroom {
namespace {

namespace fs = std::filesystem;

using testing::Contains;
using testing::Field;
using testing::HasSubstr;

/// A checkout with a program's configurations, and what is run in it.
class NamedConfiguration : public testing::Test {
 protected:
  void SetUp() override {
    fs::remove_all(folder_);
    fs::create_directories(folder_ / "examples" / "configs");
    copy("nemo-rl/qwen2.5-1.5b-grpo-1xh100.yaml", "grpo_math_1B.yaml");
    copy("nemo-rl/qwen2.5-1.5b-grpo-1xh100.yaml", "qwen2.5-1.5b-grpo-1xh100.yaml");
    copy("nemo-rl/qwen2.5-7b-grpo-tp2-8xh100.yaml", "mine.yaml");
    copy("easyr1/qwen2.5-7b-grpo-8xh100.yaml", "easyr1.yaml");
    copy("chatlearn/qwen2.5-7b-grpo-fsdp-8xh100.yaml", "chatlearn.yaml");
    copy("trl/qwen2.5-0.5b-grpo-1xh100.yaml", "trl.yaml");
  }

  void copy(const std::string& example, const std::string& name) {
    fs::copy_file(test::source("configs/examples/" + example), folder_ / "examples" / "configs" / name);
  }

  /// What the script `text`, in a folder of the checkout, is read as.
  Result<ReadJob> read(const std::string& text, JobOptions options = {}) {
    fs::create_directories(folder_ / "scripts");
    const std::string path = folder_ / "scripts" / "run.sh";
    std::ofstream(path) << text;
    options.gpu = "h100";
    return read_job(std::vector<std::string>{path}, options);
  }

  std::string complaint(const std::string& text) {
    const Result<ReadJob> one = read(text);
    return one ? "read as " + one->job.framework : one.error().text();
  }

  const fs::path folder_ = test::scratch() / "named-configuration";
};

TEST_F(NamedConfiguration, WordsAreLaidOverTheFile) {
  const Result<ReadJob> nemo = read(
      "#!/bin/bash\nset -e\nCONFIG=examples/configs/mine.yaml\npython3 prepare_data.py\n"
      "uv run examples/run_grpo.py --config $CONFIG \\\n  policy.train_micro_batch_size=3 ++logger.wandb_enabled=false\n");
  ASSERT_TRUE(nemo) << nemo.error().text();
  EXPECT_EQ(nemo->job.framework, "nemo-rl");
  EXPECT_EQ(nemo->job.name, "run");
  EXPECT_EQ(nemo->job.pools.front().gpus_per_node, 8);
  EXPECT_THAT(nemo->keys, Contains(testing::AllOf(Field(&KeyUse::key, "policy.train_micro_batch_size"),
                                                  Field(&KeyUse::value, "3"), Field(&KeyUse::line, 6))));

  const Result<ReadJob> easyr1 =
      read("python3 -m verl.trainer.main \\\n  config=examples/configs/easyr1.yaml \\\n  trainer.n_gpus_per_node=4\n");
  ASSERT_TRUE(easyr1) << easyr1.error().text();
  EXPECT_EQ(easyr1->job.framework, "easyr1");
  EXPECT_EQ(easyr1->job.pools.front().gpus_per_node, 4);

  for (const char* flag : {"-c ", "--config-file ", "--config-file="}) {
    const Result<ReadJob> chatlearn = read("python chatlearn/entrypoint.py grpo " + std::string(flag) +
                                           "examples/configs/chatlearn.yaml runtime_args.sample_per_episode=512\n");
    ASSERT_TRUE(chatlearn) << flag << chatlearn.error().text();
    EXPECT_EQ(chatlearn->job.framework, "chatlearn");
    EXPECT_THAT(chatlearn->keys, Contains(testing::AllOf(Field(&KeyUse::key, "runtime_args.sample_per_episode"),
                                                         Field(&KeyUse::value, "512"))));
  }
}

TEST_F(NamedConfiguration, WithoutTheFlagTheFileBesideTheProgramIsTaken) {
  const Result<ReadJob> read_without = read("uv run ./examples/run_grpo_math.py cluster.gpus_per_node=2\n");
  ASSERT_TRUE(read_without) << read_without.error().text();
  EXPECT_EQ(read_without->job.pools.front().gpus_per_node, 2);
}

TEST_F(NamedConfiguration, VariablesOfTheScriptReachTheFile) {
  std::ofstream(folder_ / "examples" / "configs" / "variable.yaml")
      << "defaults: mine.yaml\npolicy: {model_name: \"${oc.env:MODEL}\"}\n";
  const Result<ReadJob> one =
      read("export MODEL=Qwen/Qwen2.5-1.5B\nuv run examples/run_grpo.py --config examples/configs/variable.yaml\n");
  ASSERT_TRUE(one) << one.error().text();
  EXPECT_EQ(one->job.role("actor")->model->decoder.hidden, 1536);
}

TEST_F(NamedConfiguration, WhatCanNotBeFoundIsToldAtTheLaunch) {
  EXPECT_THAT(complaint("\nuv run examples/run_grpo.py --config nowhere.yaml\n"),
              testing::AllOf(HasSubstr("run.sh:2: "), HasSubstr("expected the configuration nowhere.yaml")));
  EXPECT_THAT(complaint("uv run elsewhere/run_dpo.py\n"),
              HasSubstr("expected the configuration elsewhere/configs/dpo.yaml that elsewhere/run_dpo.py takes"));
  EXPECT_THAT(complaint("uv run examples/run_grpo.py --config=$(pick)\n"), HasSubstr("its configuration is not known"));
  EXPECT_THAT(complaint("uv run examples/run_grpo.py --config examples/configs/mine.yaml grpo.seed=1 stray\n"), HasSubstr("stray"));
}

TEST_F(NamedConfiguration, AnotherFrameworksProgramsOfThatNameStayItsOwn) {
  EXPECT_EQ(complaint("accelerate launch run_grpo.py --config " + (folder_ / "examples/configs/trl.yaml").string() + " --output_dir o\n"), "read as trl");
  EXPECT_EQ(complaint("accelerate launch run_grpo.py --model_name_or_path Qwen/Qwen2.5-0.5B --dataset_name d\n"),
            "read as trl");
}

TEST_F(NamedConfiguration, ChangesAreWrittenIntoTheScriptAndReadAgain) {
  const std::string script =
      "#!/bin/bash\n# mine\nuv run examples/run_grpo.py --config examples/configs/mine.yaml policy.train_micro_batch_size=3 \"$@\"\n";
  const Result<ReadJob> before = read(script);
  ASSERT_TRUE(before) << before.error().text();
  const std::vector<Setting> changes = {{"policy.train_micro_batch_size", "2"},
                                        {"policy.generation.vllm_cfg.gpu_memory_utilization", "0.4"},
                                        {"policy.new_key", "1"},
                                        {"headroom.gpu", "h100"}};
  const Result<std::string> text = find_framework("nemo-rl")->write_script(*before, changes, {.lines = {"Changed."}});
  ASSERT_TRUE(text) << text.error().text();
  EXPECT_THAT(*text, HasSubstr("#!/bin/bash\n# Changed.\n# mine\n"));
  EXPECT_THAT(*text, HasSubstr(" policy.train_micro_batch_size=2 "));
  EXPECT_THAT(*text, HasSubstr(" policy.generation.vllm_cfg.gpu_memory_utilization=0.4"));
  EXPECT_THAT(*text, HasSubstr(" ++policy.new_key=1"));
  EXPECT_THAT(*text, testing::Not(HasSubstr("headroom.")));
  const Result<ReadJob> again = read(*text);
  ASSERT_TRUE(again) << again.error().text();
  EXPECT_EQ(again->job.engine("rollout")->utilization, 0.4);
}

}  // namespace
}  // namespace headroom
