#include "planner/frameworks/shell/launch.h"

#include <gmock/gmock.h>

#include <array>
#include <filesystem>
#include <fstream>

#include "planner/frameworks/input.h"
#include "planner/frameworks/registry.h"
#include "planner/frameworks/verl/read.h"
#include "tests/support/data.h"

namespace headroom {
namespace {

using testing::HasSubstr;

constexpr const char* kWords =
    " algorithm.adv_estimator=grpo actor_rollout_ref.model.path=Qwen/Qwen2.5-7B-Instruct"
    " actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=4"
    " actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=4 actor_rollout_ref.rollout.name=vllm"
    " trainer.n_gpus_per_node=8";

Result<ReadJob> script(const std::string& text, JobOptions options = {}) {
  return read_job_text(text, "run.sh", options);
}

std::string complaint(const std::string& text, JobOptions options = {}) {
  const auto read = script(text, std::move(options));
  EXPECT_FALSE(read) << text;
  return read ? "" : read.error().text();
}

const verl::Settings& settings(const Result<ReadJob>& read) {
  return verl::settings_of(*read);
}

TEST(VerlLaunch, ReadsAScriptLikeItsConfiguration) {
  const auto read = script("BS=64\npython3 -m verl.trainer.main_ppo data.train_batch_size=$((BS * 8)) \\\n " +
                           std::string(kWords) + " trainer.experiment_name=x-$(date) \"$@\"");
  ASSERT_TRUE(read) << read.error().text();
  EXPECT_EQ(settings(read).train_batch_size, 512);
}

TEST(VerlLaunch, TakesWordsBehindTheDashes) {
  JobOptions options;
  options.words = {"trainer.nnodes=2"};
  const auto read = script("python3 -m verl.trainer.main_ppo" + std::string(kWords) + " $@", options);
  ASSERT_TRUE(read) << read.error().text();
  EXPECT_EQ(settings(read).nodes, 2);
}

/// Where a folder lies does not matter where its last part names a known model.
TEST(VerlLaunch, TakesAModelBelowAnUnknownFolder) {
  const std::string words = kWords;
  const auto read = script("python3 -m verl.trainer.main_ppo" + words +
                           " actor_rollout_ref.model.path=$DATA_HOME/models/Qwen3-8B");
  ASSERT_TRUE(read) << read.error().text();
  EXPECT_EQ(settings(read).actor.model.path, "Qwen3-8B");
  EXPECT_THAT(complaint("python3 -m verl.trainer.main_ppo" + words + " actor_rollout_ref.model.path=$HOME/x-$MODEL"),
              HasSubstr("give --env MODEL=VALUE"));
}

/// A release that refuses a launch is not the one that it was written for, where others have its keys too.
TEST(VerlLaunch, IsOfTheNewestReleaseThatTakesIt) {
  const std::string text = "python3 -m verl.trainer.main_ppo" + std::string(kWords) +
                           " data.train_batch_size=24 actor_rollout_ref.actor.ppo_mini_batch_size=24"
                           " actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=3";  // 4 do not divide 3 log-probs
  const auto read = script(text);
  ASSERT_TRUE(read) << read.error().text();
  EXPECT_LT(settings(read).version, (Version{0, 9, 0}));
  EXPECT_THAT(read->warnings.back().message, HasSubstr("newer releases than"));
  JobOptions stated;
  stated.versions.framework = "0.9.0";
  EXPECT_THAT(complaint(text, stated), HasSubstr("expected a divisor of the 3 sequences"));
}

/// Only the configuration for Megatron has its sections; without it Hydra stops.
TEST(VerlLaunch, NeedsMegatronsConfigurationForMegatronsKeys) {
  const std::string start = "python3 -m verl.trainer.main_ppo", key = "actor_rollout_ref.actor.megatron.tensor_model_parallel_size";
  const std::string words = std::string(kWords) + " " + key + "=2";
  JobOptions old;
  old.versions.framework = "0.5.0";
  EXPECT_THAT(complaint(start + words, old), HasSubstr("start with --config-name=ppo_megatron_trainer"));
  EXPECT_THAT(complaint(start + words), HasSubstr("model_engine=megatron"));
  const auto read = script(start + " --config-name=ppo_megatron_trainer" + words, old);
  ASSERT_TRUE(read) << read.error().text();
  EXPECT_EQ(settings(read).actor.strategy, verl::Strategy::megatron);
  EXPECT_TRUE(script("python3 -m their.own_trainer" + words));  // whose configuration nobody knows
}

/// A cluster's variables need no value where the command line gives the machines.
TEST(VerlLaunch, TakesMachinesFromTheCommandLine) {
  JobOptions options;
  const std::string text = "python3 -m verl.trainer.main_ppo" + std::string(kWords) + " trainer.nnodes=$SLURM_NNODES";
  EXPECT_THAT(complaint(text, options), HasSubstr("give --env SLURM_NNODES=VALUE"));
  options.nodes = 2;
  const auto read = script(text, options);
  ASSERT_TRUE(read) << read.error().text();
  EXPECT_EQ(settings(read).nodes, 2);
}

TEST(VerlLaunch, ReadsACommand) {
  JobOptions options;
  options.words = {"python3", "-m", "verl.trainer.main_ppo"};
  std::string words = kWords;
  for (std::size_t at = 0; (at = words.find(" ", at)) != std::string::npos; ++at)
    options.words.push_back(words.substr(at + 1, words.find(' ', at + 1) - at - 1));
  const std::vector<std::string> paths{std::string(kCommandLine)};
  const auto read = read_job(paths, options);
  ASSERT_TRUE(read) << read.error().text();
  EXPECT_EQ(read->job.framework, "verl");
}

/// What stands for a name is asked for in the words to type.
TEST(VerlLaunch, AsksForTheModelThatAPlaceholderStandsFor) {
  for (const char* path : {"/path/to/model", "<your_model>", "/YOUR_MODELPATH", "./sft/global_step_105", "model_path"}) {
    const std::string text = "python3 -m verl.trainer.main_ppo" + std::string(kWords) +
                             " actor_rollout_ref.model.path='" + path + "'";
    EXPECT_THAT(complaint(text), testing::AllOf(HasSubstr("stands for a model"),
                                                HasSubstr("--model Qwen/Qwen2.5-7B-Instruct")))
        << path;
    JobOptions options;
    options.model = "Qwen/Qwen2.5-0.5B";
    EXPECT_TRUE(script(text, options)) << path;
  }
}

TEST(VerlLaunch, TakesTheModelThatIsGivenForACriticWithoutOne) {
  JobOptions options;
  options.model = "Qwen/Qwen2.5-0.5B";
  for (const char* path : {"", "$CRITIC"}) {
    const auto read = script("python3 -m verl.trainer.main_ppo" + std::string(kWords) +
                                 " algorithm.adv_estimator=gae critic.ppo_micro_batch_size_per_gpu=4 critic.model.path=" +
                                 path,
                             options);
    ASSERT_TRUE(read) << read.error().text();
    EXPECT_EQ(read->job.role("critic")->model->decoder.hidden, 896);
  }
}

/// Somebody's own trainer over verl's workers cuts its batches itself; verl's refuses such a mini-batch.
TEST(VerlLaunch, LeavesBatchesToATrainerOfSomebodysOwn) {
  const std::string words = std::string(kWords) + " data.train_batch_size=64 actor_rollout_ref.actor.ppo_mini_batch_size=128";
  EXPECT_THAT(complaint("python3 -m verl.trainer.main_ppo" + words), HasSubstr("expected at most data.train_batch_size"));
  const auto read = script("python3 -m our_project.main_selfplay" + words);
  ASSERT_TRUE(read) << read.error().text();
  EXPECT_EQ(settings(read).train_batch_size, 128);
}

/// A script that gives up where a variable is not set is read as if it were: what it stands for is asked for where it
/// matters.
TEST(VerlLaunch, GoesOnWhereAScriptGivesUpForAVariable) {
  const std::string asks = "MODEL_PATH=${MODEL_PATH:-}\nif [ -z \"$MODEL_PATH\" ]; then\n  echo \"MODEL_PATH is not set\"\n"
                           "  exit 1\nfi\npython3 -m verl.trainer.main_ppo" +
                           std::string(kWords);
  EXPECT_TRUE(script(asks));
  const std::string uses = asks + " actor_rollout_ref.model.path=$MODEL_PATH";
  EXPECT_THAT(complaint(uses), HasSubstr("give --env MODEL_PATH=VALUE"));
  JobOptions options;
  options.model = "Qwen/Qwen2.5-0.5B";
  EXPECT_TRUE(script(uses, options));
  EXPECT_THAT(complaint("echo stop\nexit 1\npython3 -m verl.trainer.main_ppo" + std::string(kWords)),
              testing::AllOf(HasSubstr("run.sh:2"), HasSubstr("stop"), HasSubstr("--env NAME=VALUE")));
}

/// SPIN's actor takes log-probs by a pass of its own, which asks for no entropy.
TEST(VerlLaunch, SpinAsksForNoEntropy) {
  const auto spin = script("python3 -m recipe.spin.main_spin" + std::string(kWords));
  ASSERT_TRUE(spin) << spin.error().text();
  EXPECT_EQ(spin->job.role("actor")->loss.logprob_entropy, Entropy::none);
  const auto usual = script("python3 -m verl.trainer.main_ppo" + std::string(kWords));
  EXPECT_EQ(usual->job.role("actor")->loss.logprob_entropy, Entropy::forward);
}

/// Words that a script never looks at change nothing, and that is said.
TEST(VerlLaunch, TellsOfWordsThatTheScriptDoesNotTake) {
  JobOptions options;
  options.words = {"trainer.nnodes=2"};
  const std::string start = "f() { echo $1; }\nf x\npython3 -m verl.trainer.main_ppo" + std::string(kWords);
  const auto read = script(start, options);
  ASSERT_TRUE(read) << read.error().text();
  EXPECT_EQ(settings(read).nodes, 1);
  ASSERT_FALSE(read->warnings.empty());
  EXPECT_THAT(read->warnings.front().text(), HasSubstr("takes no arguments"));
  for (const char* taken : {" $@", " \"$@\"", " trainer.nnodes=${1#*=}"}) {
    const auto takes = script(start + taken, options);
    ASSERT_TRUE(takes) << takes.error().text();
    EXPECT_EQ(settings(takes).nodes, 2) << taken;
  }
}

/// A fork names a rollout after the engine that it runs.
TEST(VerlLaunch, KnowsAForksRolloutByItsEngine) {
  const std::string start = "python3 -m verl.trainer.main_ppo" + std::string(kWords);
  const auto read = script(start + " actor_rollout_ref.rollout.name=vllm_with_tool");
  ASSERT_TRUE(read) << read.error().text();
  EXPECT_EQ(settings(read).rollout.name, "vllm");
  EXPECT_THAT(complaint(start + " actor_rollout_ref.rollout.name=fastgen"), HasSubstr("expected one of"));
}

/// Before the releases that were read: the oldest of them. A development version is near its number, whatever
/// keys a fork has taken from elsewhere.
TEST(VerlLaunch, ReadsForksOfOldReleases) {
  const std::string start = "python3 -m verl.trainer.main_ppo" + std::string(kWords);
  JobOptions options;
  options.versions.framework = "0.1";
  const auto old = script(start + " actor_rollout_ref.actor.use_dynamic_bsz=true", options);
  ASSERT_TRUE(old) << old.error().text();
  EXPECT_TRUE(settings(old).actor.forward.dynamic);
  EXPECT_EQ(settings(old).version, (verl::Version{0, 3, 0}));
  const std::filesystem::path fork = std::filesystem::temp_directory_path() / "headroom-fork";
  std::filesystem::create_directories(fork / "verl" / "version");
  std::ofstream(fork / "verl" / "version" / "version") << "0.3.1.dev\n";
  std::ofstream(fork / "run.sh") << start << " data.gen_batch_size=64\n";
  const std::vector<std::string> paths{(fork / "run.sh").string()};
  const auto read = read_job(paths, {});
  ASSERT_TRUE(read) << read.error().text();
  EXPECT_LE(settings(read).version, (verl::Version{0, 4, 0}));
  std::filesystem::remove_all(fork);
}

TEST(VerlLaunch, AsksForWhatDecidesAlone) {
  const std::string start = "python3 -m verl.trainer.main_ppo" + std::string(kWords);
  EXPECT_EQ(complaint("set -x\n" + start + " \\\n trainer.nnodes=$NNODES"),
            "run.sh:3: trainer.nnodes: $NNODES: nothing sets it; give --env NNODES=VALUE");
  EXPECT_TRUE(script(start + " critic.optim.lr=$LR critic.ppo_epochs=$E trainer.project_name=$P"));
  JobOptions options;
  options.environment["NNODES"] = "2";
  EXPECT_TRUE(script(start + " trainer.nnodes=$NNODES", options));
  EXPECT_THAT(complaint("python3 -m verl.trainer.main_ppo actor_rollout_ref.rollout.name=vllm "
                        "actor_rollout_ref.model.path=$M"),
              HasSubstr("actor_rollout_ref.model.path: $M: nothing sets it"));
  options = {};
  options.model = "Qwen/Qwen2.5-0.5B";
  const auto read = script(start + " actor_rollout_ref.model.path=$M", options);
  ASSERT_TRUE(read) << read.error().text();
}

TEST(VerlLaunch, FollowsNamedConfigurations) {
  const std::string start = "python3 -m verl.trainer.main_ppo --config-path=config ";
  const auto megatron = script(start + "--config-name='ppo_megatron_trainer.yaml'" + kWords);
  ASSERT_TRUE(megatron) << megatron.error().text();
  EXPECT_EQ(settings(megatron).actor.strategy, verl::Strategy::megatron);
  const auto plain = script(start + "--config-name ppo_trainer" + kWords);
  EXPECT_EQ(settings(plain).actor.strategy, verl::Strategy::fsdp);
  EXPECT_THAT(complaint(start + "--config-name=mine" + kWords),
              HasSubstr("run.sh:1: --config-name: no mine.yaml"));
}

TEST(VerlLaunch, FollowsDefaultsToFiles) {
  const auto folder = std::filesystem::temp_directory_path() / "headroom-launch-test";
  std::filesystem::create_directories(folder / "config");
  std::ofstream(folder / "config" / "base.yaml")
      << "defaults: [ppo_megatron_trainer, _self_]\ntrainer: {nnodes: 2}\n";
  std::ofstream(folder / "config" / "mine.yaml")
      << "defaults:\n  - base\n  - _self_\ndata: {train_batch_size: 256}\n";
  std::ofstream(folder / "config" / "loop.yaml") << "defaults: [loop]\n";
  const auto at = [&](const std::string& name) {
    return read_job_text(
        "python3 -m verl.trainer.main_ppo --config-path=config --config-name=" + name + kWords,
        (folder / "run.sh").string(), {});
  };
  const auto read = at("mine");
  ASSERT_TRUE(read) << read.error().text();
  EXPECT_EQ(settings(read).nodes, 2);
  EXPECT_EQ(settings(read).train_batch_size, 256);
  EXPECT_EQ(settings(read).actor.strategy, verl::Strategy::megatron);
  EXPECT_THAT(at("loop").error().text(), HasSubstr("20 levels"));
}

TEST(VerlLaunch, SaysWhichRunsItDoesNotJudge) {
  const auto read = script("python3 prepare.py\npython3 -m verl.trainer.main_ppo" + std::string(kWords) +
                           "\npython3 -m verl.trainer.main_ppo" + kWords + " trainer.nnodes=2");
  ASSERT_TRUE(read) << read.error().text();
  ASSERT_FALSE(read->warnings.empty());
  EXPECT_THAT(read->warnings[0].text(),
              HasSubstr("only this run is judged, not verl.trainer.main_ppo (line 3)"));
  EXPECT_THAT(complaint("python3 prepare.py"),
              HasSubstr("run.sh:1: prepare.py is no program of a framework"));
  EXPECT_THAT(complaint("echo hi"), HasSubstr("starts no Python program"));
}

/// Before 0.3 less was asked at start-up.
TEST(VerlLaunch, OldReleasesAskLess) {
  const std::string start = "python3 -m verl.trainer.main_ppo" + std::string(kWords);
  for (const std::string more : {" data.train_batch_size=16 actor_rollout_ref.actor.ppo_mini_batch_size=256",
                                 " data.max_response_length=16384 actor_rollout_ref.rollout.max_num_batched_tokens=8192"}) {
    const auto read = script(start + more + " +headroom.versions.verl=0.2.0.dev");
    ASSERT_TRUE(read) << read.error().text();
    EXPECT_LE(settings(read).actor.mini_batch, settings(read).train_batch_size);
    EXPECT_THAT(complaint(start + more + " +headroom.versions.verl=0.3.0"), HasSubstr("expected at"));
  }
}

TEST(VerlLaunch, AnAdapterElsewhereHasAnAssumedRank) {
  const auto read = script("python3 -m verl.trainer.main_ppo" + std::string(kWords) +
                           " actor_rollout_ref.model.lora_adapter_path=/adapters/mine");
  ASSERT_TRUE(read) << read.error().text();
  EXPECT_EQ(settings(read).actor.lora.rank, 64);
  const auto folder = std::filesystem::temp_directory_path() / "headroom-adapter-test";
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "adapter_config.json") << R"({"r": 8, "target_modules": ["q_proj"]})";
  const auto own = script("python3 -m verl.trainer.main_ppo" + std::string(kWords) +
                          " actor_rollout_ref.model.lora_adapter_path=" + folder.string());
  ASSERT_TRUE(own) << own.error().text();
  EXPECT_EQ(settings(own).actor.lora.rank, 8);
  EXPECT_EQ(settings(own).actor.lora.targets, std::vector<std::string>{"q_proj"});
}

/// Of a model of more than language the language model is read, and what it lacks leaves the verdict open.
TEST(VerlLaunch, ReadsTheLanguageModelOfOnePartlyKnown) {
  const auto read = script("python3 -m verl.trainer.main_ppo" + std::string(kWords) +
                           " actor_rollout_ref.model.path=openbmb/MiniCPM-o-2_6");
  ASSERT_TRUE(read) << read.error().text();
  EXPECT_EQ(read->job.role("actor")->model->decoder.hidden, 3584);
  EXPECT_THAT(read->job.not_modelled, testing::ElementsAre(HasSubstr("towers")));
}

/// The run's own name may say which model a script leaves to its user.
TEST(VerlLaunch, SuggestsTheModelThatTheRunsNameMentions) {
  EXPECT_THAT(complaint("python3 -m verl.trainer.main_ppo" + std::string(kWords) +
                        " actor_rollout_ref.model.path=/YOUR_MODEL trainer.experiment_name=qwen2.5-32b-grpo"),
              HasSubstr("trainer.experiment_name mentions Qwen/Qwen2.5-32B"));
}

TEST(VerlLaunch, TakesTheEnvironmentOfTheLaunch) {
  const auto read =
      script("export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True\npython3 -m verl.trainer.main_ppo" +
             std::string(kWords));
  ASSERT_TRUE(read) << read.error().text();
  EXPECT_EQ(settings(read).allocator_settings, "expandable_segments:True");
}

/// vLLM's second engine lacks a backend that many scripts still ask for: the first one serves then, and does not count
/// other processes' memory.
TEST(VerlLaunch, FallsBackToTheFirstEngine) {
  const std::string command = "python3 -m verl.trainer.main_ppo" + std::string(kWords) +
                              " headroom.versions.verl=0.4.1 headroom.versions.vllm=0.9.1";
  const auto engine = [&](const std::string& line) {
    const auto read = script(line + command);
    EXPECT_TRUE(read) << read.error().text();
    return read->job.engines.front();
  };
  for (const char* line : {"export VLLM_ATTENTION_BACKEND=XFORMERS\n", "VLLM_USE_V1=0 "}) {
    EXPECT_FALSE(engine(line).counts_others) << line;
  }
  EXPECT_TRUE(engine("VLLM_ATTENTION_BACKEND=FLASH_ATTN ").counts_others);
}

/// Changed copies of old releases say so by keys that later ones do not have, and by those that they leave out.
TEST(VerlLaunch, TellsOldReleasesByTheirKeys) {
  const std::string start = "python3 -m verl.trainer.main_ppo" + std::string(kWords);
  // Before 0.3 gradients could be offloaded, and a mini-batch could be larger than the batch.
  const auto oldest = script(start + " actor_rollout_ref.actor.fsdp_config.grad_offload=false data.train_batch_size=256"
                                     " actor_rollout_ref.actor.ppo_mini_batch_size=1024");
  ASSERT_TRUE(oldest) << oldest.error().text();
  EXPECT_TRUE(settings(oldest).before_checks);
  // A rollout without a name is of a release before 0.6, whatever keys of later ones a recipe brought.
  const std::string unnamed = "python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo "
                              "actor_rollout_ref.model.path=Qwen/Qwen2.5-7B-Instruct trainer.n_gpus_per_node=8 "
                              "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=4 "
                              "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=4 "
                              "data.gen_batch_size=64 data.train_batch_size=64 actor_rollout_ref.actor.ppo_mini_batch_size=64 "
                              "algorithm.filter_groups.enable=true algorithm.filter_groups.metric=acc";
  const auto read = script(unnamed);
  ASSERT_TRUE(read) << read.error().text();
  EXPECT_LT(settings(read).version, (Version{0, 6, 0}));
  // With a model given in place of one that nobody knows, a critic of that name is that model too.
  JobOptions given;
  given.model = "Qwen/Qwen2.5-7B-Instruct";
  const auto critic = script("python3 -m verl.trainer.main_ppo" + std::string(kWords) +
                             " algorithm.adv_estimator=gae actor_rollout_ref.model.path=ours/Unknown-7B "
                             "critic.model.path=ours/Unknown-7B critic.ppo_micro_batch_size_per_gpu=4", given);
  ASSERT_TRUE(critic) << critic.error().text();
  EXPECT_EQ(settings(critic).critic.model.path, "Qwen/Qwen2.5-7B-Instruct");
}

TEST(VerlLaunch, CountsGpusAsAScriptDoes) {
  const auto read = script("N=$(nvidia-smi --query-gpu=name --format=csv,noheader | wc -l)\n"
                           "python3 -m verl.trainer.main_ppo" + std::string(kWords) + " trainer.n_gpus_per_node=$N");
  ASSERT_TRUE(read) << read.error().text();
  EXPECT_EQ(settings(read).gpus_per_node, 8);
}

/// A project's own program starts from the configuration in its package, of the release whose version lies beside it; the
/// launch's words stand above it. Its script may go into a folder first.
TEST(VerlLaunch, TakesTheConfigurationOfAProjectsOwnProgram) {
  namespace fs = std::filesystem;
  const fs::path root = test::scratch() / "project";
  fs::create_directories(root / "scripts");
  fs::create_directories(root / "code/ours/trainer/config");
  fs::create_directories(root / "code/verl/version");
  const auto write = [&](const char* path, const std::string& text) { std::ofstream(root / path) << text; };
  write("code/verl/version/version", "0.2.0.post2\n");
  write("code/ours/trainer/config/ppo_trainer.yaml",
        "data: {train_batch_size: 64}\nactor_rollout_ref:\n  rollout: {log_prob_micro_batch_size_per_gpu: 3, n: 2}\n");
  write("scripts/run.sh", "cd code\npython3 -m ours.trainer.main_ppo algorithm.adv_estimator=grpo "
                          "actor_rollout_ref.model.path=Qwen/Qwen2.5-7B-Instruct actor_rollout_ref.rollout.name=vllm "
                          "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=4 actor_rollout_ref.rollout.n=5\n");
  const auto read = read_job(std::array{(root / "scripts/run.sh").string()}, {});
  ASSERT_TRUE(read) << read.error().text();
  EXPECT_EQ(settings(read).train_batch_size, 64);
  EXPECT_EQ(read->job.role("actor")->forward.sequences, 3);
  EXPECT_EQ(settings(read).n, 5);
  EXPECT_TRUE(settings(read).before_checks);
  // One that is put together from groups says less than what is known of verl's own.
  write("code/ours/trainer/config/ppo_trainer.yaml", "defaults: [actor@actor_rollout_ref.actor: dp_actor, _self_]\n");
  EXPECT_FALSE(read_job(std::array{(root / "scripts/run.sh").string()}, {}));
}

}  // namespace
}  // namespace headroom
