#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "planner/frameworks/chatlearn/rlhf/placeholders.h"
#include "planner/frameworks/chatlearn/rlhf/settings.h"
#include "simulator/hardware/library.h"
#include "simulator/phases/simulate.h"
#include "tests/planner/frameworks/openrlhf/run.h"

namespace headroom {
namespace {

using chatlearn::rlhf::placeholder_name;
using chatlearn::rlhf::with_default;
using chatlearn::rlhf::without_placeholders;
using testing::Contains;
using testing::HasSubstr;

namespace fs = std::filesystem;

/// A run's files in a folder of their own.
class Files : public testing::Test {
 protected:
  Files() {
    folder_ = fs::path(testing::TempDir()) / ("rlhf-" + std::to_string(::getpid()));
    fs::create_directories(folder_);
    write("base.yaml", "seq_length: ${seq_length:1024}\nmax_new_tokens: 512\nnum_layers: ${layers:4}\nhidden_size: 1024\n"
                       "num_attention_heads: 16\nffn_hidden_size: 2816\nuntie_embeddings_and_output_weights: True\n"
                       "make_vocab_size_divisible_by: 32\ntensor_model_parallel_size: ${tp:2}\n");
    write("policy.yaml", "includes: [base.yaml]\nuse_distributed_optimizer: True\nrecompute_granularity: selective\n"
                         "recompute_granularity: ${granularity:None}\nsequence_parallel: True\n");
    write("value.yaml", "includes:\n  - base.yaml\nuse_distributed_optimizer: False\n");
    write("vllm.yaml", "includes: [base.yaml]\ngpu_memory_utilization: 0.3\nswap_space: 4\nmax_num_batched_tokens: 8192\n");
    std::string main = "runtime_env: {platform: DLC}\nmodels:\n";
    const auto model = [&](const char* name, const char* file, bool trained) {
      main += std::string("  ") + name + ":\n    model_config_file: " + file + "\n    num_gpu: ${num_gpu:4}\n    trainable: " +
              (trained ? "True" : "False") + "\n    free_memory: ${free_memory_" + name + ":False}\n";
    };
    model("policy", "vllm.yaml", false);
    model("reference", "policy.yaml", false);
    model("reward", "value.yaml", false);
    model("value", "value.yaml", false);
    model("ppo_policy", "policy.yaml", true);
    model("ppo_value", "value.yaml", true);
    main += "runtime:\n  colocation:\n    - policy,ppo_policy,reward,reference,value,ppo_value\n"
            "  generation_batch_size: 4\n  train_micro_batch_size: ${micro:2}\n  train_global_batch_size: 32\n"
            "  sample_per_episode: 64\n  data_path: ${data_path}\n";
    write("rlhf.yaml", main);
  }
  ~Files() override { fs::remove_all(folder_); }

  void write(const std::string& name, const std::string& text) const { std::ofstream(folder_ / name) << text; }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  Result<ReadJob> read(std::map<std::string, std::string> environment = {}, std::vector<std::string> overrides = {}) const {
    JobOptions options;
    options.environment = std::move(environment);
    options.overrides = std::move(overrides);
    options.gpu = "h100";
    return read_job(std::vector<std::string>{path("rlhf.yaml")}, options);
  }

  fs::path folder_;
};

void expect_same(Job expected, Job found) {
  found.name = expected.name;
  EXPECT_TRUE(expected == found);
}

Bytes most(const Report& report, const std::string& phase, Component component) {
  Bytes out = 0;
  for (const PhaseReport& row : report.devices.front().phases)
    if (row.phase == phase) out = std::max(out, row.at_peak_device[component]);
  return out;
}

TEST(RlhfPlaceholders, AreTheEnvironmentOrTheirDefault) {
  const Document document = *parse_document("{a: '${x:1}', b: '${y:None}', c: '${z}', d: ['${x:1}'], e: None}", "t");
  const Document plain = without_placeholders(document, {{"x", "7"}});
  EXPECT_EQ(plain.find("a")->as_int(), 7);
  EXPECT_TRUE(plain.find("b")->is_null());
  EXPECT_TRUE(plain.find("c")->is_null());
  EXPECT_EQ(plain.find("d")->items().front().text(), "${x:1}");  // lists are left alone
  EXPECT_TRUE(plain.find("e")->is_null());
  EXPECT_EQ(without_placeholders(document, {}).find("a")->as_int(), 1);
  EXPECT_EQ(placeholder_name(" ${free_memory_policy:False} "), "free_memory_policy");
  EXPECT_EQ(placeholder_name("plain"), "");
  EXPECT_EQ(with_default("${free_memory_policy:False}", "True"), "${free_memory_policy:True}");
}

TEST_F(Files, IncludesAndTheLastOfEqualKeysCount) {
  const Result<ReadJob> read = this->read();
  ASSERT_TRUE(read) << read.error().text();
  const Job& job = read->job;
  EXPECT_EQ(job.framework, "chatlearn");
  ASSERT_EQ(job.roles.size(), 5u);
  EXPECT_EQ(job.role("actor")->recompute.kind, RecomputeKind::none);  // the second one says None
  EXPECT_EQ(job.role("actor")->parallel.tensor, 2);
  EXPECT_EQ(job.role("actor")->model->decoder.layers, 4);
  EXPECT_TRUE(job.role("actor")->sharding.distributed_optimizer);
  EXPECT_FALSE(job.role("critic")->sharding.distributed_optimizer);
  EXPECT_EQ(job.role("critic")->head, HeadKind::scalar);
  EXPECT_EQ(job.batch.prompt_length, 512);
  EXPECT_EQ(job.pools.size(), 1u);
  EXPECT_EQ(job.processes.size(), 6u);  // every model is one
  EXPECT_DOUBLE_EQ(job.engine("rollout")->utilization, 0.3);
  EXPECT_EQ(job.engine("rollout")->host_swap, 4 * kGiB);
  const Result<ReadJob> other = this->read({{"granularity", "full"}, {"layers", "6"}, {"micro", "4"}});
  ASSERT_TRUE(other) << other.error().text();
  EXPECT_EQ(other->job.role("actor")->recompute.kind, RecomputeKind::full);
  EXPECT_EQ(other->job.role("actor")->model->decoder.layers, 6);
  EXPECT_EQ(other->job.role("actor")->train.sequences, 4);
}

/// EMS leaves on the GPUs only the model that works; without it all of them stay.
TEST_F(Files, FreeMemoryLeavesTheGpuToOneModelAtATime) {
  const auto run = [&](const std::map<std::string, std::string>& environment) {
    const Result<ReadJob> read = this->read(environment);
    EXPECT_TRUE(read) << read.error().text();
    Result<Report> report = simulate(read->job, *load_hardware("h100"));
    EXPECT_TRUE(report) << report.error().text();
    return report ? std::move(*report) : Report{};
  };
  const Report none = run({});
  std::map<std::string, std::string> all;
  for (const char* name : {"policy", "reference", "reward", "value", "ppo_policy", "ppo_value"})
    all[std::string("free_memory_") + name] = "True";
  const Report freed = run(all);
  for (const char* phase : {"ref_logprob", "reward", "critic_values"}) {
    EXPECT_GT(most(none, phase, Component::optimizer), 0) << phase;
    EXPECT_EQ(most(freed, phase, Component::optimizer), 0) << phase;
    EXPECT_EQ(most(freed, phase, Component::master_weights), 0) << phase;
    EXPECT_LT(most(freed, phase, Component::weights), most(none, phase, Component::weights) / 2) << phase;
  }
  // The value trainer alone keeps whole states: no distributed optimizer.
  EXPECT_GT(most(freed, "train_critic", Component::optimizer), most(freed, "train_actor", Component::optimizer));
  Bytes host_none = 0, host_freed = 0;
  for (const PhaseReport& row : none.devices.front().phases) host_none = std::max(host_none, row.peak_host);
  for (const PhaseReport& row : freed.devices.front().phases) host_freed = std::max(host_freed, row.peak_host);
  EXPECT_GT(host_freed, host_none);
}

TEST_F(Files, TheAnswerIsWrittenAsDefaultsAndAsExports) {
  const Result<ReadJob> read = this->read();
  ASSERT_TRUE(read) << read.error().text();
  const Framework& chatlearn = *find_framework("chatlearn");
  const std::vector<Choice> choices{{"free_memory_ppo_policy", "true"}, {"free_memory_reward", "true"}};
  const std::vector<Setting> settings = *chatlearn.settings_of(*read, choices);
  const Result<std::string> text = chatlearn.write(*read, settings, {});
  ASSERT_TRUE(text) << text.error().text();
  EXPECT_THAT(*text, HasSubstr("${free_memory_ppo_policy:True}"));
  EXPECT_THAT(*text, HasSubstr("${free_memory_reward:True}"));
  EXPECT_THAT(*text, HasSubstr("${free_memory_policy:False}"));
  write("rlhf.yaml", *text);
  const Result<ReadJob> again = this->read();
  ASSERT_TRUE(again) << again.error().text();
  expect_same(*chatlearn.with(*read, choices), again->job);
  const Result<std::string> exports = chatlearn.write_overrides(*read, settings, {});
  ASSERT_TRUE(exports);
  EXPECT_THAT(*exports, HasSubstr("export free_memory_ppo_policy=True\n"));
}

TEST_F(Files, AScriptNamesTheFileAndSetsItsVariables) {
  const std::string script = "set -x\nexport micro=8\nexport num_gpu=4\npython entry/train_rlhf.py -c rlhf.yaml\n";
  const Result<ReadJob> read = test::read_launch(script, {}, path("run.sh"));
  ASSERT_TRUE(read) << read.error().text();
  EXPECT_EQ(read->job.role("actor")->train.sequences, 8);
  const Framework& chatlearn = *find_framework("chatlearn");
  const std::vector<Choice> choices{{"free_memory_value", "true"}};
  const Result<std::string> text = chatlearn.write(*read, *chatlearn.settings_of(*read, choices), {});
  ASSERT_TRUE(text) << text.error().text();
  EXPECT_THAT(*text, HasSubstr("export free_memory_value=True\npython entry/train_rlhf.py"));
  const Result<ReadJob> again = test::read_launch(*text, {}, path("run.sh"));
  ASSERT_TRUE(again) << again.error().text();
  expect_same(*chatlearn.with(*read, choices), again->job);
}

TEST_F(Files, WhatIsWrongIsSaidAtItsPlace) {
  const auto complaint = [&](std::map<std::string, std::string> environment, std::vector<std::string> overrides = {}) {
    const Result<ReadJob> read = this->read(std::move(environment), std::move(overrides));
    return read ? std::string() : read.error().text();
  };
  EXPECT_THAT(complaint({{"num_gpu", "3"}}), HasSubstr("num_gpu: expected a multiple of TP x PP (2), found 3"));
  EXPECT_THAT(complaint({{"micro", "3"}}), HasSubstr("train_global_batch_size: expected a multiple"));
  EXPECT_THAT(complaint({{"layers", ""}}), HasSubstr("num_layers: is not known: set its variable with --env"));
  EXPECT_THAT(complaint({}, {"runtime.colocation=[policy,nobody]"}), testing::AnyOf("", HasSubstr("colocation")));
  write("policy.yaml", "includes: [value.yaml]\n");
  write("value.yaml", "includes: [policy.yaml]\n");
  EXPECT_THAT(complaint({}), HasSubstr("includes go in a circle"));
  write("policy.yaml", "includes: [gone.yaml]\n");
  EXPECT_THAT(complaint({}), HasSubstr("expected the file gone.yaml, found none; tried"));
}

}  // namespace
}  // namespace headroom
