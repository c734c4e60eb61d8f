#include "planner/frameworks/verl/read.h"

#include <gmock/gmock.h>

#include <array>

#include "planner/frameworks/job/file.h"
#include "planner/frameworks/verl/keys.h"
#include "planner/frameworks/verl/release_hints.h"
#include "planner/frameworks/verl/schema.h"
#include "tests/planner/frameworks/verl/run.h"
#include "tests/support/data.h"

namespace headroom {
namespace {

using testing::HasSubstr;
using verl::Version;

Layers layers_of(const char* yaml) {
  Layers layers;
  layers.add_file("run.yaml", parse_document(yaml, "run.yaml").value());
  return layers;
}

std::string inferred(const char* yaml, const std::string& vllm = "") {
  return to_string(verl::infer_version(layers_of(yaml), {.vllm = vllm}).version);
}

TEST(VerlVersion, ComesFromKeysThatOnlySomeReleasesHave) {
  EXPECT_EQ(inferred("trainer: {use_v1: true}"), "0.9.0");
  EXPECT_EQ(inferred("critic: {fsdp: {param_offload: true}}"), "0.9.0");
  EXPECT_EQ(inferred("critic: {model: {fsdp_config: {param_offload: true}}}"), "0.7.1");
  EXPECT_EQ(inferred("actor_rollout_ref: {rollout: {load_format: dummy_dtensor}}"), "0.5.0");
  EXPECT_EQ(inferred("actor_rollout_ref: {rollout: {update_weights_bucket_megabytes: 512}}"), "0.7.0");
  EXPECT_EQ(inferred("actor_rollout_ref: {actor: {checkpoint: {contents: [model]}}}"), "0.4.0");
  EXPECT_EQ(inferred("reward_model: {enable: null}"), "0.9.0");  // nulls of a whole tree tell nothing
  EXPECT_EQ(inferred("data: {train_batch_size: 1}"), "0.9.0");
  EXPECT_EQ(inferred("data: {train_batch_size: 1}", "0.8.2"), "0.3.0");
  EXPECT_EQ(inferred("data: {train_batch_size: 1}", "0.11.2"), "0.6.1");
  EXPECT_EQ(inferred("actor_rollout_ref: {actor: {ppo_micro_batch_size: 8}}"), "0.7.1");
  EXPECT_EQ(inferred("reward_model: {reward_manager: dapo}"), "0.7.0");
}

TEST(VerlVersion, KeysAndTheVllmReleaseDecideTogether) {
  const char* const old = "actor_rollout_ref: {actor: {ppo_micro_batch_size: 8}}";
  EXPECT_EQ(inferred(old, "0.8.5"), "0.5.0");  // whose documentation names images of 0.4
  EXPECT_EQ(inferred(old, "0.24.0"), "0.7.1");
  // Adapters summoned layer by layer came after the image with vLLM 0.8.3.
  EXPECT_EQ(inferred("actor_rollout_ref: {rollout: {layered_summon: true}}", "0.8.3"), "0.4.0");
}

// Releases from 0.6 on stop without the engine's name; files alone may be a part of a run, a launch is whole.
TEST(VerlVersion, ALaunchWithoutWhatLaterReleasesDemandIsOlder) {
  const auto launched = [](const char* yaml, const char* program) {
    return verl::infer_version(layers_of(yaml), {.program = program});
  };
  const char* const bare = "data: {train_batch_size: 1}";
  const auto found = launched(bare, "verl.trainer.main_ppo");
  EXPECT_EQ(to_string(found.version), "0.5.0");
  EXPECT_THAT(found.because, HasSubstr("actor_rollout_ref.rollout.name is not given, which 0.6.0 and later demand"));
  EXPECT_EQ(to_string(launched("actor_rollout_ref: {rollout: {name: vllm}}", "verl.trainer.main_ppo").version), "0.9.0");
  EXPECT_EQ(to_string(launched(bare, "verl.trainer.sft_trainer").version), "0.9.0");
  EXPECT_EQ(to_string(launched("trainer: {use_v1: true}", "verl.trainer.main_ppo").version), "0.9.0");
}

/// DAPO's recipe had its keys before the trainer's own configuration got them.
TEST(VerlVersion, KeysOfARecipeTellNothingOfTheTrainers) {
  const auto launched = [](const char* program) {
    const char* const yaml = "{data: {gen_batch_size: 8}, algorithm: {filter_groups: {enable: true, metric: acc}}}";
    return to_string(verl::infer_version(layers_of(yaml), {.program = program}).version);
  };
  EXPECT_EQ(launched("recipe.dapo.main_dapo"), "0.5.0");
  EXPECT_EQ(launched("verl.trainer.main_ppo"), "0.9.0");
}

/// Hydra takes `+key` where the key is null in the configuration.
TEST(VerlVersion, APlusSaysNothingOfKeysThatAreNull) {
  Layers layers;
  const std::string word = "+actor_rollout_ref.actor.megatron.override_transformer_config.recompute_method=uniform";
  ASSERT_TRUE(layers.apply(*parse_override(word, "run.sh", 1)));
  EXPECT_EQ(to_string(verl::infer_version(layers, {.words = {word}}).version), "0.9.0");
}

TEST(VerlVersion, ContradictionsAreToldWithTheirPlace) {
  const auto found = verl::infer_version(layers_of("trainer: {use_v1: true}\nray_init: {num_cpus: 4}\n"));
  EXPECT_EQ(found.version, (Version{0, 9, 0}));
  ASSERT_EQ(found.conflicts.size(), 1U);
  EXPECT_THAT(found.conflicts[0].text(), HasSubstr("run.yaml:2: ray_init.num_cpus: is a key of verl of 0.4.0 "
                                                   "to 0.5.0, but trainer.use_v1 is one of 0.9.0"));
}

TEST(VerlVersion, ComesFromWordsWithAndWithoutPlus) {
  const auto of = [](std::vector<std::string> words, std::string program = "") {
    Layers layers;
    for (const std::string& word : words) EXPECT_TRUE(layers.apply(*parse_override(word, "run.sh", 1)));
    return verl::infer_version(layers, {.vllm = {}, .development = {}, .program = program, .words = words});
  };
  // Before 0.9 the key was not there, so that it had to be added.
  EXPECT_EQ(of({"+trainer.use_v1=true"}).version, (Version{0, 8, 0}));
  EXPECT_EQ(of({"trainer.use_v1=true"}).version, (Version{0, 9, 0}));
  EXPECT_EQ(of({"actor_rollout_ref.rollout.name=vllm"}, "recipe.dapo.main_dapo").version, (Version{0, 7, 0}));
  EXPECT_EQ(of({"data.train_batch_size=8"}).older.back(), (Version{0, 3, 0}));
  EXPECT_EQ(of({"ray_init.num_cpus=8"}).older.back(), (Version{0, 4, 0}));
  EXPECT_THAT(of({"ray_init.num_cpus=8"}).because, HasSubstr("ray_init.num_cpus is a key of 0.4.0 to 0.5.0"));
}

TEST(VerlVersion, StandsInImagesAndRequirements) {
  EXPECT_EQ(verl::named_releases("pip install verl==0.5.0 vllm==0.8.5.post1").verl, "0.5.0");
  EXPECT_EQ(verl::named_releases("pip install verl==0.5.0 vllm==0.8.5.post1").vllm, "0.8.5");
  EXPECT_EQ(verl::named_releases("git+https://github.com/volcengine/verl.git@v0.4.1").verl, "0.4.1");
  const auto image =
      verl::named_releases("docker run verlai/verl:app-verl0.5-transformers4.55.4-vllm0.10.0-mcore0.13.0");
  EXPECT_EQ(image.verl, "0.5");
  EXPECT_EQ(image.vllm, "0.10.0");
  EXPECT_EQ(verl::named_releases("python3 -m verl.trainer.main_ppo a.b=0.5").verl, "");
}

TEST(VerlVersion, ReadsReleaseNumbers) {
  EXPECT_EQ(verl::parse_version("v0.10.0.dev0"), (Version{0, 10, 0}));
  EXPECT_EQ(verl::parse_version("0.4.10.post2"), (Version{0, 4, 10}));
  EXPECT_EQ(verl::parse_version("0.9"), (Version{0, 9, 0}));
  EXPECT_EQ(verl::parse_version("main"), std::nullopt);
  EXPECT_THAT(test::complaint("main", {}), HasSubstr("expected a version such as 0.9.0, found main"));
}

TEST(VerlKeys, RowsOfOnePathDoNotOverlap) {
  const verl::Key* before = nullptr;
  for (const verl::Key& key : verl::keys()) {
    EXPECT_LT(key.since, key.until) << key.path;
    const bool overlaps = before != nullptr && before->path == key.path && key.since < before->until;
    // ref.megatron is listed twice on purpose: what follows the actor comes first.
    EXPECT_TRUE(!overlaps || key.path.rfind("actor_rollout_ref.ref.megatron.", 0) == 0) << key.path;
    before = &key;
  }
}

TEST(VerlKeys, DefaultsChangeWithTheRelease) {
  const auto at = [](const char* path, Version version) { return verl::find_key(path, version)->fallback; };
  EXPECT_EQ(at("actor_rollout_ref.rollout.max_num_seqs", {0, 8, 0}), "1024");
  EXPECT_EQ(at("actor_rollout_ref.rollout.max_num_seqs", {0, 9, 0}), "256");
  EXPECT_EQ(at("actor_rollout_ref.rollout.enforce_eager", {0, 5, 0}), "true");
  EXPECT_EQ(at("actor_rollout_ref.rollout.engine_kwargs.vllm.some_argument", {0, 9, 0}), "{}");
  EXPECT_EQ(verl::find_key("actor_rollout_ref.no_such", {0, 9, 0}), nullptr);
}

/// The warnings of kRun after `overrides`.
std::vector<std::string> warnings(std::vector<std::string> overrides, const std::string& version = "0.9.0") {
  const Result<ReadJob> read = test::read_run(version, std::move(overrides));
  EXPECT_TRUE(read) << (read ? "" : read.error().text());
  std::vector<std::string> out;
  if (read)
    for (const Notice& notice : read->warnings) out.push_back(notice.text());
  return out;
}

TEST(VerlUsage, SuggestsWhatAMistypedKeyMeans) {
  EXPECT_THAT(warnings({"+actor_rollout_ref.actor.fsdp_config.param_offlod=true"}),
              testing::ElementsAre("--set: actor_rollout_ref.actor.fsdp_config.param_offlod: is not a key of "
                                   "verl that Headroom knows; "
                                   "did you mean actor_rollout_ref.actor.fsdp_config.param_offload?"));
  EXPECT_THAT(
      warnings({"+actor_rollout_ref.actor.param_offload=true"}),
      testing::ElementsAre(HasSubstr("did you mean actor_rollout_ref.actor.fsdp_config.param_offload?")));
  EXPECT_THAT(warnings({"+data.max_respnse_length=8"}),
              testing::ElementsAre(HasSubstr("did you mean data.max_response_length?")));
  EXPECT_THAT(warnings({"my.section=1"}),
              testing::ElementsAre(HasSubstr("is not a key of verl that Headroom knows")));
  EXPECT_TRUE(warnings({"+data.my_tokenizer=x", "+my.own.section=1", "+actor_rollout_ref.actor.my_flag=true"})
                  .empty());
}

TEST(VerlUsage, NamesWhatIsNotModelled) {
  EXPECT_THAT(warnings({"actor_rollout_ref.model.tiled_mlp.enabled=true"}),
              testing::ElementsAre(
                  HasSubstr("actor_rollout_ref.model.tiled_mlp.enabled: is understood but not modelled")));
  EXPECT_TRUE(warnings({"actor_rollout_ref.model.tiled_mlp.enabled=false"}).empty());
  EXPECT_THAT(test::job_of("0.9.0", {"actor_rollout_ref.model.tiled_mlp.enabled=true"}).not_modelled,
              testing::ElementsAre("actor_rollout_ref.model.tiled_mlp.enabled=true"));
  for (const char* change :
       {"override_transformer_config.mtp_num_layers=1", "override_transformer_config.mtp_hsm=true",
        "override_transformer_config.cpu_offloading=true", "override_transformer_config.cuda_graph_impl=local",
        "override_transformer_config.attention_backend=unfused", "override_transformer_config.tp_comm_overlap=true",
        "use_megatron_fsdp=true", "override_ddp_config.use_custom_fsdp=true", "override_ddp_config.fsdp_double_buffer=true",
        "override_ddp_config.nccl_ub=true"})
    EXPECT_THAT(test::job_of("0.9.0", {"+model_engine=megatron", std::string("++actor_rollout_ref.actor.megatron.") + change})
                    .not_modelled,
                testing::Contains(HasSubstr(std::string(change).substr(0, std::string(change).find('=')))))
        << change;
  EXPECT_THAT(warnings({"actor_rollout_ref.rollout.name=hf"}),
              testing::ElementsAre(HasSubstr("not modelled yet: the verdict is undetermined")));
}

/// A word that no program covers is a warning that lists the known ones, and leaves the verdict open.
TEST(VerlUsage, NamesTheWordsThatItKnows) {
  const std::string actor = "actor_rollout_ref.actor.", rollout = "actor_rollout_ref.rollout.";
  const std::vector<std::array<std::string, 3>> rows = {
      {"", "algorithm.adv_estimator=grop", "grpo"},
      {"+", "model_engine=torchtitan", "megatron"},
      {"+", actor + "optim.optimizer=Muon", "AdamW"},
      {"+", actor + "optim.optimizer_impl=somewhere.optim", "bitsandbytes.optim"},
      {"", rollout + "load_format=gguf", "safetensors"},
      {"+", rollout + "quantization=awq", "fp8"},
      {"++", rollout + "engine_kwargs.vllm.kv_cache_dtype=nvfp4", "fp8_e4m3"},
      {"++", "actor_rollout_ref.model.override_config.attn_implementation=flex_attention", "sdpa"},
  };
  for (const auto& [mark, change, known] : rows) {
    const std::vector<std::string> overrides = {mark + change};
    EXPECT_THAT(warnings(overrides), testing::ElementsAre(testing::AllOf(
                                         HasSubstr("the verdict is undetermined"), HasSubstr(known))))
        << change;
    EXPECT_THAT(test::job_of("0.9.0", overrides).not_modelled, testing::SizeIs(1)) << change;
  }
  // A project's own estimator has a critic only if its name says so.
  EXPECT_THAT(warnings({"algorithm.adv_estimator=psft"}), testing::ElementsAre(HasSubstr("without a critic")));
  EXPECT_TRUE(test::job_of("0.9.0", {"algorithm.adv_estimator=psft"}).not_modelled.empty());
  EXPECT_THAT(warnings({"algorithm.adv_estimator=bi_level_gae", "critic.ppo_micro_batch_size_per_gpu=4"}),
              testing::Contains(HasSubstr("with a critic")));
  // What says whether there is a critic makes a foreign estimator harmless.
  EXPECT_TRUE(warnings({"algorithm.adv_estimator=mine", "+critic.enable=false"}).empty());
}

TEST(VerlUsage, AnEmptySwitchIsOff) {
  EXPECT_EQ(test::job_of("0.9.0", {"actor_rollout_ref.actor.use_kl_loss="}).role("ref"), nullptr);
}

TEST(VerlUsage, RefusesWordsOfFixedLists) {
  const std::string megatron = "actor_rollout_ref.actor.megatron.override_transformer_config.";
  EXPECT_THAT(
      test::complaint("0.9.0", {"model_engine=megatron", "++" + megatron + "recompute_granularity=some"}),
      HasSubstr("expected one of full, selective, found some"));
  EXPECT_THAT(
      test::complaint("0.9.0", {"model_engine=megatron", "++" + megatron + "recompute_granularity=full",
                                "++" + megatron + "recompute_method=all"}),
      HasSubstr("expected one of uniform, block, found all"));
  EXPECT_THAT(
      test::complaint("0.9.0", {"model_engine=megatron", "++" + megatron + "recompute_modules=[attn]"}),
      HasSubstr("recompute_modules: expected some of core_attn"));
  EXPECT_THAT(test::complaint("0.9.0", {"actor_rollout_ref.actor.checkpoint.save_contents=[modle]"}),
              HasSubstr("expected some of model, optimizer, extra, hf_model, found modle"));
}

TEST(VerlUsage, NamesKeysOfOtherReleases) {
  EXPECT_THAT(warnings({"+critic.fsdp.param_offload=true", "algorithm.adv_estimator=gae",
                        "critic.ppo_micro_batch_size_per_gpu=4"},
                       "0.7.1"),
              testing::IsEmpty());  // read by nobody
  EXPECT_THAT(
      warnings({"+actor_rollout_ref.rollout.checkpoint_engine.update_weights_bucket_megabytes=64"}, "0.7.0"),
      testing::IsEmpty());
  EXPECT_THAT(warnings({"+actor_rollout_ref.actor.calculate_entropy=true"}, "0.5.0"),
              testing::ElementsAre(HasSubstr("is not a key of verl 0.5.0")));
}

TEST(VerlUsage, SaysWhatBecameOfEachKey) {
  const Result<ReadJob> read = test::read_run("0.9.0", {"+data.tokenizer_name=x", "+something.else=1"});
  ASSERT_TRUE(read);
  const auto state = [&](const char* key) {
    for (const KeyUse& use : read->keys)
      if (use.key == key) return use.state;
    return KeyUse::State::not_modelled;
  };
  EXPECT_EQ(state("data.train_batch_size"), KeyUse::State::used);
  EXPECT_EQ(state("actor_rollout_ref.rollout.max_num_seqs"), KeyUse::State::defaulted);
  EXPECT_EQ(state("data.tokenizer_name"), KeyUse::State::ignored);
  EXPECT_EQ(state("something.else"), KeyUse::State::unknown);
}

TEST(VerlRead, TakesWholeTrees) {
  const auto truth = test::truth();
  if (!truth) GTEST_SKIP() << "HEADROOM_TRUTH is not set";
  for (const auto& [name, version] : {std::pair{"0.3-fsdp", "0.3.0"},
                                      {"0.5-fsdp", "0.5.0"},
                                      {"0.10-fsdp", "0.10.0"},
                                      {"0.10-megatron", "0.10.0"}}) {
    const std::string path =
        (*truth / ".." / "examples" / "verl" / (std::string("defaults-") + name + ".yaml")).string();
    JobOptions options;
    options.model = "Qwen/Qwen2.5-7B";
    options.overrides = {"actor_rollout_ref.rollout.name=vllm",
                         "actor_rollout_ref.actor.use_dynamic_bsz=true"};
    const Result<ReadJob> read = read_job(std::vector<std::string>{path}, options);
    ASSERT_TRUE(read) << read.error().text();
    EXPECT_EQ(read->job.versions.framework, version) << name;
    EXPECT_TRUE(read->warnings.empty()) << name;
    // A whole tree says what its release's defaults say.
    JobInput empty;
    JobOptions same = options;
    same.versions.framework = version;
    same.overrides.push_back("trainer.n_gpus_per_node=8");
    if (std::string(name) == "0.10-megatron") same.overrides.push_back("model_engine=megatron");
    const Result<ReadJob> defaults = verl::read(empty, same);
    ASSERT_TRUE(defaults) << defaults.error().text();
    Job expected = defaults->job;
    expected.name = read->job.name;
    expected.assumptions = read->job.assumptions;
    // A tree names its release's own critic; --model stands in for both.
    ASSERT_EQ(expected.roles.size(), read->job.roles.size());
    for (std::size_t i = 0; i < expected.roles.size(); ++i)
      expected.roles[i].model_name = read->job.roles[i].model_name;
    EXPECT_EQ(write_yaml(jobfile::write_job_file(expected)), write_yaml(jobfile::write_job_file(read->job)))
        << name;
  }
}

}  // namespace
}  // namespace headroom
