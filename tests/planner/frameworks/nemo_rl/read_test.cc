#include "planner/frameworks/nemo_rl/read.h"

#include "tests/planner/frameworks/nemo_rl/run.h"

namespace headroom {
namespace {

using test::nemo_complaint;
using test::nemo_job;
using testing::Contains;
using testing::HasSubstr;

TEST(NemoRead, DetectsItsOwnFiles) {
  const Result<ReadJob> read = test::read_nemo("0.5.0");
  ASSERT_TRUE(read) << read.error().text();
  EXPECT_EQ(read->job.framework, "nemo-rl");
  EXPECT_EQ(read->job.algorithm, Algorithm::grpo);
  EXPECT_EQ(read->job.versions.vllm, "0.11.2");
  // A child that names nothing but its parent.
  const auto root = test::written({{"base.yaml", test::kNemoRun}, {"child.yaml", "defaults: base.yaml\nlogger: {}\n"}});
  const Result<ReadJob> child = read_job(std::vector<std::string>{(root / "child.yaml").string()}, {});
  ASSERT_TRUE(child) << child.error().text();
  EXPECT_EQ(child->job.framework, "nemo-rl");
}

TEST(NemoRead, TheReleaseIsToldByTheKeys) {
  EXPECT_EQ(nemo_job("").versions.framework, "main");  // nothing says that it is older
  const auto infer = [&](const std::string& more) {
    return test::read_nemo("", {}, std::string(test::kNemoRun) + more)->job.versions.framework;
  };
  EXPECT_EQ(infer("data_plane: {enabled: false}\n"), "main");
  const Job old = nemo_job("", {"policy.megatron_cfg.use_linear_ce_fusion_loss=false"});
  EXPECT_EQ(old.versions.framework, "0.7.0");
}

TEST(NemoRead, RolesFollowKeysAndReleases) {
  EXPECT_NE(nemo_job("0.5.0", {"loss_fn.reference_policy_kl_penalty=0"}).role("ref"), nullptr);
  EXPECT_EQ(nemo_job("0.7.0", {"loss_fn.reference_policy_kl_penalty=0"}).role("ref"), nullptr);
  const Job job = nemo_job("0.5.0");
  const Role& actor = *job.role("actor");
  EXPECT_EQ(actor.sharding.kind, ShardingKind::fsdp2);
  EXPECT_EQ(actor.precision.weights, DType::fp32);
  EXPECT_EQ(actor.precision.compute, DType::bf16);
  EXPECT_EQ(actor.train.tokens, 4096);      // two sequences of 2048
  EXPECT_EQ(actor.train.round_to, 4096);    // filled up
  EXPECT_EQ(actor.forward.round_to, 1);     // not in 0.5's passes without gradients
  EXPECT_EQ(nemo_job("0.6.0").role("actor")->forward.round_to, 4096);
  const Job cut = nemo_job("0.5.0", {"policy.dtensor_cfg.tensor_parallel_size=4"});
  EXPECT_EQ(cut.role("actor")->parallel.tensor, 4);
}

TEST(NemoRead, MegatronWorkersKeepWhatTheirKeysSay) {
  const std::vector<std::string> megatron = {"policy.dtensor_cfg.enabled=false", "policy.megatron_cfg.enabled=true",
                                             "policy.megatron_cfg.pipeline_model_parallel_size=2"};
  const Job job = nemo_job("0.6.0", megatron);
  const Role& actor = *job.role("actor");
  EXPECT_EQ(actor.sharding.kind, ShardingKind::megatron);
  EXPECT_EQ(actor.parallel.pipeline, 2);
  EXPECT_TRUE(actor.megatron.precision_aware);
  EXPECT_EQ(actor.precision.gradients, DType::bf16);
  EXPECT_FALSE(actor.megatron.gradient_accumulation_fusion);
  EXPECT_TRUE(nemo_job("0.5.0", megatron).role("actor")->megatron.gradient_accumulation_fusion);
  EXPECT_TRUE(actor.loss.logits_fp32);
}

TEST(NemoRead, ContextRanksShareOneRow) {
  const Job job = nemo_job("0.6.0", {"policy.dtensor_cfg.enabled=false", "policy.megatron_cfg.enabled=true",
                                     "policy.megatron_cfg.context_parallel_size=4"});
  EXPECT_EQ(job.role("actor")->train.tokens * 4, 4096);
}

TEST(NemoRead, AColocatedStepMovesWhatGenerationDoesNotNeed) {
  EXPECT_EQ(test::actions_of(nemo_job("0.6.0").step),
            "weight_sync generate sleep actor_logprob ref_logprob train_actor save_checkpoint");
  EXPECT_EQ(test::actions_of(nemo_job("0.6.0").start), "engine_init init");
}

TEST(NemoRead, GenerationOfItsOwnIsASecondPool) {
  const std::vector<std::string> apart = {"policy.generation.colocated.enabled=false",
                                          "policy.generation.colocated.resources.gpus_per_node=4"};
  const Job job = nemo_job("0.6.0", apart);
  ASSERT_EQ(job.pools.size(), 2u);
  EXPECT_EQ(job.pools[0].gpus(), 4);
  EXPECT_EQ(job.pools[1].gpus(), 4);
  EXPECT_EQ(job.engines.front().sleep_level, 0);
  EXPECT_EQ(job.process("rollout")->pool, "generation");
  EXPECT_THAT(nemo_complaint("0.6.0", {"policy.generation.colocated.enabled=false"}),
              HasSubstr("policy.generation.colocated.resources.gpus_per_node: expected the GPUs that generate"));
}

TEST(NemoRead, RefusesWhatNemoRlRefuses) {
  EXPECT_THAT(nemo_complaint("0.6.0", {"policy.megatron_cfg.enabled=true"}), HasSubstr("expected one backend"));
  EXPECT_THAT(nemo_complaint("0.6.0", {"policy.dynamic_batching.enabled=true"}), HasSubstr("found both enabled"));
  EXPECT_THAT(nemo_complaint("0.6.0", {"policy.dtensor_cfg.tensor_parallel_size=3"}),
              HasSubstr("policy.dtensor_cfg.tensor_parallel_size: expected a product of parallel sizes"));
  EXPECT_THAT(nemo_complaint("0.6.0", {"policy.sequence_packing.train_mb_tokens=100"}),
              HasSubstr("train_mb_tokens: expected at least max_total_sequence_length (2048), found 100"));
  EXPECT_THAT(nemo_complaint("0.6.0", {"policy.train_micro_batch_size=many"}),
              HasSubstr("policy.train_micro_batch_size: expected an integer"));
  EXPECT_THAT(nemo_complaint("0.6.0", {"policy.model_name=no/such-model"}), HasSubstr("policy.model_name"));
}

TEST(NemoRead, KeysWithoutAProgramLeaveTheVerdictOpen) {
  const Result<ReadJob> read =
      test::read_nemo("main", {"policy.dtensor_cfg.enabled=false", "policy.megatron_cfg.enabled=true",
                                "policy.megatron_cfg.cuda_graph_impl=local"});
  ASSERT_TRUE(read) << read.error().text();
  EXPECT_THAT(read->job.not_modelled, Contains(HasSubstr("policy.megatron_cfg.cuda_graph_impl")));
  // Of the backend that does not run it says nothing.
  EXPECT_TRUE(nemo_job("0.6.0", {"policy.megatron_cfg.cuda_graph_impl=local"}).not_modelled.empty());
}

TEST(NemoRead, AMistypedKeyIsToldAndAnotherReleasesToo) {
  const auto said = [](const std::string& version, const std::string& change) {
    std::string out;
    const Result<ReadJob> read = test::read_nemo(version, {change});
    if (read)
      for (const Notice& notice : read->warnings) out += notice.text() + "\n";
    return out;
  };
  EXPECT_THAT(said("0.6.0", "policy.dtensor_cfg.tensor_paralel_size=2"),
              HasSubstr("did you mean policy.dtensor_cfg.tensor_parallel_size?"));
  EXPECT_THAT(said("0.5.0", "policy.refit_buffer_size_gb=8"), testing::IsEmpty());
}

TEST(NemoRead, GuidesWordsAreAnsweredWithTheRealKeys) {
  const auto read = [](const std::string& change, std::vector<std::string> more = {}) {
    more.push_back(change);
    Result<ReadJob> out = test::read_nemo("0.6.0", more);
    EXPECT_TRUE(out) << (out ? "" : out.error().text());
    return out;
  };
  const auto told = [](const Result<ReadJob>& run) {
    return run && !run->warnings.empty() ? run->warnings.front().text() : std::string();
  };
  const Result<ReadJob> checkpointing = read("policy.gradient_checkpointing=true");
  EXPECT_EQ(checkpointing->job.role("actor")->recompute.kind, RecomputeKind::full);
  EXPECT_THAT(told(checkpointing), HasSubstr("taken as policy.dtensor_cfg.activation_checkpointing=true"));
  EXPECT_EQ(read("model_parallel=2")->job.role("actor")->parallel.tensor, 2);
  EXPECT_TRUE(read("offload_optimizer=true")->job.role("actor")->sharding.cpu_offload);
  const std::vector<std::string> megatron = {"policy.dtensor_cfg.enabled=false", "policy.megatron_cfg.enabled=true"};
  EXPECT_EQ(read("offload_optimizer=true", megatron)->job.role("actor")->optimizer.cpu_fraction, 1.0);
  EXPECT_EQ(read("pipeline_parallel_size=2", megatron)->job.role("actor")->parallel.pipeline, 2);
  EXPECT_THAT(told(read("pin_memory=true")), HasSubstr("has no effect: which copies are pinned is fixed"));
  EXPECT_EQ(read("mixed_precision=fp16")->job.role("actor")->precision.compute, DType::fp16);
  // Each has its answer, so none leaves the verdict open.
  for (const char* word : {"gradient_checkpointing=true", "checkpoint_every=1", "checkpoint_layers=4", "mixed_precision=bf16",
                           "offload_optimizer=true", "offload_activations=true", "model_parallel=2",
                           "tensor_parallel_size=2", "pipeline_parallel_size=2", "precision=bf16",
                           "activation_checkpointing=true", "attention_heads=28", "attention_head_dim=128",
                           "num_workers=4", "gradient_accumulation_steps=4", "loss_scaling=dynamic",
                           "pin_memory=true", "use_flash_attention=true"})
    for (const std::string where : {"", "policy.", "training."}) {
      if (where + word == "policy.precision=bf16") continue;  // a key of its own
      const Result<ReadJob> run = read(where + word);
      EXPECT_TRUE(run->job.not_modelled.empty()) << where << word;
      EXPECT_EQ(run->warnings.size(), 1u) << where << word;
    }
}

/// Weights that go to other GPUs are sent as the checkpoint has them: one expert after the other.
TEST(NemoRead, StagingHoldsNoStackOfExperts) {
  const auto bucket = [](const char* model) {
    return nemo_job("0.7.0", {std::string("policy.model_name=") + model, "policy.dtensor_cfg.enabled=false",
                              "policy.megatron_cfg.enabled=true", "policy.generation.colocated.enabled=false",
                              "policy.generation.colocated.resources.num_nodes=1",
                              "policy.generation.colocated.resources.gpus_per_node=8", "cluster.num_nodes=2",
                              "cluster.gpus_per_node=8"})
        .engines.front()
        .sync.bucket;
  };
  const Bytes table = Bytes{2} * 151'936 * 2048;  // of Qwen3-30B-A3B, whose experts are 0.8 GB a layer and matrix
  EXPECT_EQ(bucket("Qwen/Qwen3-30B-A3B") - 4 * table, bucket("Qwen/Qwen3-1.7B") - 4 * table);
}

TEST(NemoRead, AutomodelDealsExpertsOut) {
  const std::vector<std::string> experts = {"policy.model_name=Qwen/Qwen3-30B-A3B", "policy.dtensor_cfg.expert_parallel_size=4"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), experts.begin(), experts.end());
    return more;
  };
  const Job job = nemo_job("0.7.0", experts);
  const Role& actor = *job.role("actor");
  EXPECT_EQ(actor.parallel.expert, 4);
  EXPECT_EQ(actor.precision.weights, DType::bf16) << "whatever they are loaded in";
  EXPECT_FALSE(actor.precision.autocast);
  EXPECT_FALSE(actor.sharding.reshard_after_forward);
  EXPECT_EQ(job.process("trainer")->communicators, 2 + 2) << "the experts' ranks, and those that have the same ones";
  // The first worker knows nothing of experts.
  const Job first = nemo_job("0.7.0", with({"policy.dtensor_cfg._v2=false"}));
  EXPECT_EQ(first.role("actor")->parallel.expert, 1);
  EXPECT_EQ(first.role("actor")->precision.weights, DType::fp32);
  EXPECT_THAT(nemo_complaint("0.7.0", with({"policy.dtensor_cfg.expert_parallel_size=3"})),
              HasSubstr("expert_parallel_size: expected a divisor of the 8 GPUs"));
  EXPECT_THAT(nemo_complaint("0.7.0", with({"policy.dtensor_cfg.tensor_parallel_size=2"})),
              HasSubstr("tensor_parallel_size: expected 1 beside expert_parallel_size 4"));
  EXPECT_THAT(nemo_complaint("0.7.0", {"policy.dtensor_cfg.expert_parallel_size=4"}),
              HasSubstr("expected 1: Qwen/Qwen2.5-7B has no routed experts"));
}

TEST(NemoRead, FusedAdamHasStatesOfItsOwn) {
  const auto optimizer = [](std::vector<std::string> more) {
    more.insert(more.begin(), {"policy.model_name=Qwen/Qwen3-30B-A3B", "policy.dtensor_cfg.expert_parallel_size=8",
                               "policy.optimizer.name=transformer_engine.pytorch.optimizers.fused_adam.FusedAdam"});
    return nemo_job("0.7.0", std::move(more)).role("actor")->optimizer;
  };
  EXPECT_EQ(optimizer({}).states, DType::fp32);
  EXPECT_EQ(optimizer({}).master_bytes, 0);
  const std::string half = "policy.optimizer.kwargs.exp_avg_dtype=torch.bfloat16";
  EXPECT_EQ(optimizer({half}).states, DType::fp32) << "the second moment's is wider";
  EXPECT_EQ(optimizer({half, "policy.optimizer.kwargs.exp_avg_sq_dtype=torch.bfloat16"}).states, DType::bf16);
  EXPECT_EQ(optimizer({"policy.optimizer.kwargs.master_weights=true"}).master_bytes, 4);
  EXPECT_EQ(optimizer({"policy.optimizer.kwargs.master_weights=true",
                       "policy.optimizer.kwargs.store_param_remainders=true"}).master_bytes, 2);
}

TEST(NemoRead, SupervisedAndPreferenceRunsHaveNoEngine) {
  const std::string body = R"(
policy:
  model_name: Qwen/Qwen2.5-1.5B
  train_global_batch_size: 16
  train_micro_batch_size: 1
  max_total_sequence_length: 1024
  dtensor_cfg: {enabled: true}
  megatron_cfg: {enabled: false}
cluster: {gpus_per_node: 2}
)";
  const Result<ReadJob> sft = test::read_nemo("0.6.0", {}, "sft: {}" + body);
  ASSERT_TRUE(sft) << sft.error().text();
  EXPECT_TRUE(sft->job.engines.empty());
  EXPECT_EQ(sft->job.batch.sequences(), 16);
  const Result<ReadJob> dpo = test::read_nemo("0.6.0", {}, "dpo: {reference_policy_kl_penalty: 0.1}" + body);
  ASSERT_TRUE(dpo) << dpo.error().text();
  EXPECT_EQ(dpo->job.batch.sequences(), 32);  // chosen and rejected
  EXPECT_NE(dpo->job.role("ref"), nullptr);
  const Result<ReadJob> rm = test::read_nemo("0.6.0", {}, "rm: {}" + body);
  ASSERT_TRUE(rm) << rm.error().text();
  EXPECT_EQ(rm->job.role("actor")->head, HeadKind::sequence_classification);
}

// Trajectories may be as many steps old: responses of as many steps are generated at once.
TEST(NemoReader, GeneratesAheadAsFarAsTrajectoriesMayBeOld) {
  std::vector<std::string> words = {"policy.generation.colocated.enabled=false",
                                    "policy.generation.colocated.resources.gpus_per_node=4",
                                    "grpo.async_grpo.enabled=true"};
  const Result<ReadJob> next = test::read_nemo("0.6.0", words);
  ASSERT_TRUE(next) << next.error().text();
  EXPECT_EQ(next->job.batch.generated_ahead, 0);
  words.emplace_back("grpo.async_grpo.max_trajectory_age_steps=8");
  const Result<ReadJob> ahead = test::read_nemo("0.6.0", words);
  ASSERT_TRUE(ahead) << ahead.error().text();
  EXPECT_EQ(ahead->job.batch.generated_ahead, 8);
}

/// What the command line says of the machines stands in place of what the files say, known or not.
TEST(NemoRead, TakesMachinesFromTheCommandLine) {
  JobInput input;
  const std::string text = std::string(test::kNemoRun) + "env: {}\n";
  input.files.push_back({.path = "run.yaml", .document = *parse_document(text, "run.yaml"), .text = text});
  JobOptions options;
  options.versions.framework = "main";
  options.overrides = {"++cluster.num_nodes=''"};
  EXPECT_FALSE(read_job(input, options));
  options.nodes = 2;
  const Result<ReadJob> read = read_job(input, options);
  ASSERT_TRUE(read) << read.error().text();
  EXPECT_EQ(read->job.pools.front().nodes, 2);
}

}  // namespace
}  // namespace headroom
