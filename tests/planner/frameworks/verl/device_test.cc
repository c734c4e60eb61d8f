#include <gtest/gtest.h>

#include <algorithm>

#include "simulator/hardware/library.h"
#include "simulator/phases/device_run.h"
#include "tests/planner/frameworks/verl/run.h"

namespace headroom::verl {
namespace {

using test::job_of;

Report run(const Job& job, Fidelity fidelity = Fidelity::live_bytes, const char* card = "h100") {
  const auto hardware = load_hardware(card);
  EXPECT_TRUE(hardware);
  Result<Report> report = run_on_device(job, *hardware, fidelity);
  EXPECT_TRUE(report) << (report ? "" : report.error().text());
  return report ? std::move(*report) : Report{};
}

PhaseReport phase(const Report& report, const std::string& name, int step = -1) {
  for (const PhaseReport& p : report.devices.at(0).phases)
    if (p.phase == name && (step < 0 || p.step == step)) return p;
  ADD_FAILURE() << "no phase " << name;
  return {};
}

const ProcessPhase& process(const PhaseReport& phase, const std::string& name) {
  static const ProcessPhase none;
  for (const ProcessPhase& p : phase.processes)
    if (p.process == name) return p;
  ADD_FAILURE() << "no process " << name << " in " << phase.phase;
  return none;
}

/// Models are made on the host and come unit by unit: two copies of the largest unit beside the shards.
TEST(VerlDevice, NoRankHoldsTheWholeModelAtInit) {
  for (const char* strategy : {"fsdp", "fsdp2"}) {
    const Job job = job_of("0.9.0", {"actor_rollout_ref.actor.strategy=" + std::string(strategy),
                                     "actor_rollout_ref.ref.strategy=" + std::string(strategy)});
    const Architecture& model = *job.roles.front().model;
    const Bytes whole = 4 * model.parameters();
    const PhaseReport init = phase(run(job), "init");
    const Bytes peak = process(init, "trainer").peak_allocated;
    EXPECT_LT(peak, whole / 2) << strategy;
    EXPECT_GE(peak, whole / 8) << strategy;
  }
}

/// Bridges send one expert after the other, except where the checkpoint holds a layer's experts in one tensor.
TEST(VerlDevice, MegatronSendsExpertByExpert) {
  const auto staged = [](const std::string& model) {
    const Job job = job_of("0.7.1", {"actor_rollout_ref.actor.strategy=megatron", "actor_rollout_ref.ref.strategy=megatron",
                                     "actor_rollout_ref.model.path=" + model,
                                     "actor_rollout_ref.actor.megatron.expert_model_parallel_size=8"});
    const PhaseReport sync = phase(run(job, Fidelity::live_bytes, "b300"), "weight_sync", 0);
    return process(sync, "trainer").at_peak_allocated[Component::staging];
  };
  const Bytes bucket = 2 * kGiB;
  const Bytes embedding = Bytes{2} * 151936 * 2048;  // the largest weight that is sent whole
  EXPECT_EQ(staged("Qwen/Qwen3-30B-A3B"), bucket + embedding);
  const Bytes stacked = Bytes{2} * 128 * 2 * 768 * 2048;  // fc1 of all experts, gathered and joined
  EXPECT_EQ(staged("Qwen/Qwen3-VL-30B-A3B-Instruct"), std::max(bucket + stacked, 2 * stacked));
}

/// Up to 0.6 the engine can live in the trainer's process: one context, and the engine's memory beside the
/// trainer's.
TEST(VerlDevice, AnEngineInsideTheTrainerSharesItsContext) {
  const Job inside = job_of("0.4.0");
  ASSERT_EQ(inside.processes.size(), 1u);
  const Job beside = job_of("0.4.0", {"actor_rollout_ref.rollout.mode=async"});
  ASSERT_EQ(beside.processes.size(), 2u);
  const PhaseReport one = phase(run(inside), "generate"), two = phase(run(beside), "generate");
  const auto h100 = load_hardware("h100");
  const Bytes trainer = h100->context + h100->kernels.first;  // it has built its models
  EXPECT_EQ(one.at_peak_device[Component::context], trainer);
  EXPECT_EQ(two.at_peak_device[Component::context], trainer + h100->context);
  EXPECT_EQ(one.at_peak_device[Component::engine_weights], two.at_peak_device[Component::engine_weights]);
  EXPECT_GT(one.at_peak_device[Component::engine_kv], 0);
  EXPECT_LE(process(one, "rollout").outside + h100->context, process(two, "rollout").outside);
}

/// Every process has its row in every phase: an idle one holds what it holds.
TEST(VerlDevice, AnEngineOnGpusOfItsOwnIsNoPartOfTheTrainer) {
  const Job job = job_of("0.5.0", {"actor_rollout_ref.hybrid_engine=false", "+rollout.nnodes=1", "+rollout.n_gpus_per_node=4"});
  const Report report = run(job);
  ASSERT_EQ(job.processes.size(), 2u);
  EXPECT_EQ(job.processes[1].pool, "rollout");
  const PhaseReport training = phase(report, "train_actor");
  EXPECT_EQ(training.at_peak_device[Component::engine_kv], 0);
}

TEST(VerlDevice, IdleProcessesKeepTheirRows) {
  const Report report = run(job_of("0.9.0"));
  for (const PhaseReport& p : report.devices.at(0).phases) {
    if (p.phase == "init") continue;
    const ProcessPhase &trainer = process(p, "trainer"), &engine = process(p, "rollout");
    EXPECT_GT(trainer.peak_allocated, 0) << p.phase;
    Bytes outside = trainer.outside + engine.outside;
    EXPECT_GT(p.peak_device, outside) << p.phase;
    if (p.phase == "generate") {
      EXPECT_TRUE(trainer.roles.empty());
      EXPECT_EQ(p.peak_device, trainer.peak_reserved + engine.peak_reserved + outside);
    }
  }
}

/// What others hold is not there for the trainer's allocator: it runs out where the card ends.
TEST(VerlDevice, TheTrainerRunsOutWhereTheCardEnds) {
  const Job job =
      job_of("0.9.0",
             {"data.train_batch_size=64", "actor_rollout_ref.actor.ppo_mini_batch_size=64",
              "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=32",
              "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=32",
              "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu=32", "data.max_response_length=2048"});
  const Bytes card = load_hardware("h100")->total_memory;
  const Report report = run(job, Fidelity::every_allocation);
  const PhaseReport& last = report.devices.at(0).phases.back();
  const bool failed = std::any_of(last.processes.begin(), last.processes.end(),
                                  [](const ProcessPhase& p) { return p.out_of_memory.has_value(); });
  EXPECT_TRUE(failed);
  EXPECT_LE(last.peak_device, card);
}

TEST(VerlDevice, AWholeCheckpointIsGatheredOnTheHost) {
  const std::vector<std::string> saving = {"trainer.save_freq=1"};
  std::vector<std::string> whole = saving;
  whole.push_back("actor_rollout_ref.actor.checkpoint.save_contents=[model,optimizer,extra,hf_model]");
  const Job job = job_of("0.9.0", whole);
  const Bytes shards = phase(run(job_of("0.9.0", saving)), "save_checkpoint").peak_host;
  const Bytes gathered = phase(run(job), "save_checkpoint").peak_host;
  EXPECT_GE(gathered, shards);
  EXPECT_GE(gathered, 4 * job.roles.front().model->parameters());
}

/// A resumed run has its optimizer's states before the first step.
TEST(VerlDevice, AResumedRunStartsWithItsStates) {
  const Report fresh = run(job_of("0.9.0")), resumed = run(job_of("0.9.0", {"+headroom.resumed=true"}));
  const Bytes states = 8 * job_of("0.9.0").roles.front().model->parameters() / 8;
  EXPECT_EQ(phase(fresh, "generate", 0).at_peak_device[Component::optimizer], 0);
  EXPECT_NEAR(static_cast<double>(phase(resumed, "generate", 0).at_peak_device[Component::optimizer]),
              static_cast<double>(states), 0.001 * static_cast<double>(states));
}

}  // namespace
}  // namespace headroom::verl
