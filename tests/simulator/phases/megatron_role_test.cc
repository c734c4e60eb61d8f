#include "simulator/phases/megatron_role.h"

#include <gtest/gtest.h>

#include <map>

#include "models/architecture/read.h"
#include "models/base/bytes.h"
#include "models/presets/presets.h"
#include "simulator/hardware/library.h"
#include "simulator/job/actions.h"
#include "simulator/phases/device_run.h"

namespace headroom {
namespace {

/// A preset cut to so many layers.
std::shared_ptr<const Architecture> truncated(std::string_view preset, std::int64_t layers,
                                              std::int64_t more_tokens = 0) {
  Document config = find_preset(preset).value();
  if (layers > 0) config.set("num_hidden_layers", Document::scalar(std::to_string(layers)));
  // The truncated models have one dense layer before their experts.
  if (layers > 0 && config.find("first_k_dense_replace") != nullptr)
    config.set("first_k_dense_replace", Document::scalar("1"));
  // SimuMax's 405B has 16 key/value heads.
  if (layers > 0 && preset.find("405B") != std::string_view::npos)
    config.set("num_key_value_heads", Document::scalar("16"));
  if (more_tokens > 0)
    config.set("vocab_size",
               Document::scalar(std::to_string(*config.find("vocab_size")->as_int() + more_tokens)));
  return std::make_shared<Architecture>(make_architecture(config, std::string(preset)).value());
}

struct Layout {
  std::int64_t tensor = 1, pipeline = 1, data = 1, expert = 1, context = 1, length = 4096;
};

/// Pretraining: one role, `micro_batches` of one sequence each a step, its loss on bf16 logits.
Job pretraining(std::shared_ptr<const Architecture> model, const Layout& layout, std::int64_t micro_batches) {
  Job job;
  Role role;
  role.name = "actor";
  role.model = std::move(model);
  role.trained = role.packed = true;
  role.precision.master = DType::fp32;
  role.precision.gradients = DType::fp32;
  role.parallel.tensor = layout.tensor;
  role.parallel.pipeline = layout.pipeline;
  role.parallel.context = layout.context;
  role.parallel.expert = layout.expert;
  role.parallel.expert_tensor = layout.expert > 1 ? 1 : 0;
  role.parallel.sequence = layout.tensor > 1;
  role.sharding.kind = ShardingKind::megatron;
  role.attention = AttentionImplementation::transformer_engine;
  role.megatron.gradient_accumulation_fusion = role.megatron.fused_activation = role.megatron.fused_rotary =
      true;
  role.megatron.deallocates_outputs = role.megatron.context_all_to_all = true;
  role.megatron.vocabulary_multiple = 128;
  role.megatron.vocabulary_multiple_a_rank = true;
  role.loss.token_logprob = TokenLogprob::flash_cross_entropy;
  role.train.sequences = role.forward.sequences = 1;
  job.pools = {{.name = "main",
                .nodes = 1,
                .gpus_per_node = layout.tensor * layout.pipeline * layout.data * layout.context}};
  job.batch.prompts = micro_batches * layout.data;
  job.batch.prompt_length = 1;
  job.batch.response_length = layout.length - 1;
  job.steps = 2;
  job.roles = {role};
  Process process;
  process.name = "trainer";
  process.roles = {"actor"};
  job.processes = {process};
  job.start = {make_phase(PhaseKind::init,
                          {role_action(Verb::build, "actor"), role_action(Verb::build_optimizer, "actor")})};
  job.step = {make_phase(PhaseKind::train_actor, {role_action(Verb::train, "actor")})};
  return job;
}

Report run(const Job& job, Fidelity fidelity = Fidelity::live_bytes) {
  Hardware hardware = find_hardware("B200").value();
  hardware.total_memory = 4096 * kGiB;
  const Result<Report> report = run_on_device(job, hardware, fidelity);
  EXPECT_TRUE(report.has_value()) << (report ? "" : report.error().message);
  return report.value_or(Report{});
}

const ProcessPhase& last_step(const DeviceReport& device) {
  return device.phases.back().processes.front();
}

double gib(Bytes bytes) {
  return static_cast<double>(bytes) / static_cast<double>(kGiB);
}

// --- What a worked example counts by hand

TEST(MegatronRole, Llama8bOnTwoStagesOfTwoRanks) {
  // Llama-3-8B, TP 2, PP 2, DP 2, 4096 tokens, no recomputation.
  const Job job =
      pretraining(truncated("meta-llama/Meta-Llama-3-8B", 0), {.tensor = 2, .pipeline = 2, .data = 2}, 4);
  const Report report = run(job);
  ASSERT_EQ(report.devices.size(), 2u);
  const double expected[] = {31.37, 28.06};
  for (std::size_t stage = 0; stage < 2; ++stage) {
    const DeviceReport& device = report.devices[stage];
    EXPECT_EQ(device.alike, 4);
    EXPECT_EQ(device.device, static_cast<std::int64_t>(stage) * 4);
    const Breakdown& at = last_step(device).at_peak_allocated;
    EXPECT_NEAR(gib(at[Component::weights]), 3.740, 0.001);
    EXPECT_NEAR(gib(at[Component::master_weights]), 3.740, 0.001);
    EXPECT_NEAR(gib(at[Component::optimizer]), 7.479, 0.001);
    EXPECT_NEAR(gib(last_step(device).peak_allocated), expected[stage], 0.15);
  }
}

TEST(MegatronRole, ExpertStatesAreNotSharedWhenExpertsFillTheWorld) {
  // Qwen3-30B-A3B, EP 8: 18 bytes an expert parameter on 8 GPUs, where the optimizer has nobody to share
  // with.
  const std::int64_t dense = 1'541'093'376, expert = 3'623'878'656;
  for (const std::int64_t data : {8, 16}) {
    Job job = pretraining(truncated("Qwen/Qwen3-30B-A3B", 0), {.data = data, .expert = 8}, 1);
    job.roles.front().megatron.vocabulary_multiple = 1;
    const Report report = run(job);
    const Breakdown& at = last_step(report.devices.front()).at_peak_allocated;
    const double states = gib(12 * dense / data + 12 * expert * 8 / data);
    EXPECT_NEAR(gib(at[Component::weights]), gib(2 * (dense + expert)), 0.001);
    EXPECT_NEAR(gib(at[Component::master_weights] + at[Component::optimizer]), states, 0.01);
  }
}

// --- Measurements of others

struct Measured {
  const char* model;
  std::int64_t layers;
  Layout layout;
  double gib[2];  ///< peak allocated of each stage
  double tolerance;
};

class MegatronMeasured : public testing::TestWithParam<Measured> {};

/// Peaks that SimuMax's authors measured on B200 GPUs: Megatron-LM core_r0.14, TransformerEngine 2.11.
/// https://github.com/MooreThreads/SimuMax, docs/b200/b200_release_v1.2_summary.json
TEST_P(MegatronMeasured, PeakAllocatedIsNear) {
  const Measured& m = GetParam();
  // Megatron's NullTokenizer has one token more than its vocabulary.
  const Report report = run(pretraining(truncated(m.model, m.layers, 1), m.layout, 4));
  ASSERT_EQ(report.devices.size(), static_cast<std::size_t>(m.layout.pipeline));
  for (std::size_t stage = 0; stage < report.devices.size(); ++stage) {
    const double predicted = gib(last_step(report.devices[stage]).peak_allocated);
    RecordProperty("error_percent_" + std::to_string(stage),
                   std::to_string(100 * (predicted / m.gib[stage] - 1)));
    EXPECT_NEAR(predicted / m.gib[stage], 1, m.tolerance)
        << m.model << " stage " << stage << ": " << predicted << " for " << m.gib[stage];
  }
}

constexpr const char* k70b = "meta-llama/Meta-Llama-3-70B";
constexpr const char* k405b = "meta-llama/Llama-3.1-405B";
constexpr const char* kV2 = "deepseek-ai/DeepSeek-V2";
constexpr const char* kV3 = "deepseek-ai/DeepSeek-V3";

INSTANTIATE_TEST_SUITE_P(
    SimuMax, MegatronMeasured,
    testing::Values(Measured{k70b, 12, {.pipeline = 2, .data = 4}, {66.552, 62.968}, 0.005},
                    Measured{k70b, 12, {.tensor = 2, .data = 4}, {60.680, 0}, 0.005},
                    Measured{k70b, 12, {.tensor = 4, .data = 2}, {39.072, 0}, 0.005},
                    Measured{k70b, 12, {.tensor = 8}, {28.286, 0}, 0.005},
                    Measured{k405b, 4, {.pipeline = 2, .data = 4}, {86.610, 87.083}, 0.005},
                    Measured{k405b, 4, {.tensor = 2, .data = 4}, {81.591, 0}, 0.005},
                    Measured{k405b, 4, {.tensor = 4, .data = 2}, {52.889, 0}, 0.005},
                    Measured{k405b, 4, {.tensor = 8}, {38.574, 0}, 0.005},
                    Measured{k70b, 12, {.tensor = 2, .context = 4, .length = 32768}, {68.428, 0}, 0.005},
                    Measured{k405b, 4, {.tensor = 2, .context = 4, .length = 32768}, {87.025, 0}, 0.005},
                    Measured{k405b, 4, {.context = 8, .length = 32768}, {139.216, 0}, 0.005},
                    Measured{k70b, 12, {.tensor = 2, .context = 4, .length = 131072}, {112.668, 0}, 0.005},
                    Measured{k405b, 4, {.tensor = 2, .context = 4, .length = 131072}, {118.127, 0}, 0.005},
                    Measured{kV2, 4, {.data = 8, .expert = 8}, {45.631, 0}, 0.02},
                    Measured{kV2, 4, {.pipeline = 2, .data = 4, .expert = 4}, {31.59, 44.70}, 0.02},
                    Measured{kV3, 4, {.data = 8, .expert = 8}, {104.298, 0}, 0.02},
                    Measured{kV3, 4, {.pipeline = 2, .data = 4, .expert = 4}, {71.239, 114.000}, 0.02}));

// --- Properties

Job small(const Layout& layout, std::int64_t micro_batches = 8) {
  return pretraining(truncated("Qwen/Qwen2.5-0.5B", 8), layout, micro_batches);
}

TEST(MegatronRole, EarlierStagesHoldMoreMicroBatches) {
  Job job = small({.pipeline = 4});
  job.roles.front().megatron.fused_activation = false;
  const Report report = run(job);
  Bytes before = 0;
  for (std::size_t stage = 3; stage-- > 1;) {  // the middle ones, alike but for what they hold
    const Bytes held = last_step(report.devices[stage]).at_peak_allocated[Component::activations];
    EXPECT_GT(held, before) << stage;
    before = held;
  }
}

TEST(MegatronRole, MoreMicroBatchesTakeNoMoreMemoryOnceThePipelineIsFull) {
  for (const std::int64_t pipeline : {1, 2, 4}) {
    const Report few = run(small({.pipeline = pipeline}, 8)), many = run(small({.pipeline = pipeline}, 64));
    for (std::size_t stage = 0; stage < few.devices.size(); ++stage)
      EXPECT_EQ(last_step(few.devices[stage]).peak_allocated, last_step(many.devices[stage]).peak_allocated);
  }
}

TEST(MegatronRole, ClosedFormCountsWhatTheSimulatorAllocates) {
  for (const Layout& layout : {Layout{.tensor = 2, .data = 2}, Layout{.pipeline = 2, .data = 2},
                               Layout{.tensor = 2, .pipeline = 2, .context = 2}})
    for (const RecomputeKind recompute : {RecomputeKind::none, RecomputeKind::full}) {
      Job job = small(layout);
      job.roles.front().recompute.kind = recompute;
      job.roles.front().megatron.context_all_to_all = false;
      const Report counted = run(job), simulated = run(job, Fidelity::every_allocation);
      ASSERT_EQ(counted.devices.size(), simulated.devices.size());
      // The caching allocator leaves remainders below a megabyte in their blocks.
      for (std::size_t d = 0; d < counted.devices.size(); ++d) {
        const Bytes live = last_step(counted.devices[d]).peak_allocated;
        const Bytes allocated = last_step(simulated.devices[d]).peak_allocated;
        EXPECT_GE(allocated, live);
        EXPECT_LE(allocated, live + live / 100);
      }
    }
}

TEST(MegatronRole, RecomputationTradesActivations) {
  const auto activations = [](RecomputeKind kind) {
    Job job = small({.pipeline = 2});
    job.roles.front().recompute.kind = kind;
    return last_step(run(job).devices.front()).peak_allocated;
  };
  EXPECT_LT(activations(RecomputeKind::full), activations(RecomputeKind::none));
}

TEST(MegatronRole, MomentsComeWithTheFirstStep) {
  const Report report = run(small({.data = 2}));
  const std::vector<PhaseReport>& phases = report.devices.front().phases;
  const Breakdown& first = phases[1].processes.front().at_peak_allocated;
  const Breakdown& second = phases[2].processes.front().at_peak_allocated;
  EXPECT_EQ(first[Component::optimizer], 0);
  EXPECT_EQ(second[Component::optimizer], 2 * second[Component::master_weights]);
}

TEST(MegatronRole, OptimizerOnTheHostLeavesTheMastersOnTheDevice) {
  Job job = small({.data = 2});
  const Bytes masters = last_step(run(job).devices.front()).at_peak_allocated[Component::master_weights];
  job.roles.front().optimizer.cpu_fraction = 1;
  const Report report = run(job);
  const Breakdown& at = last_step(report.devices.front()).at_peak_allocated;
  EXPECT_EQ(at[Component::optimizer], 0);
  EXPECT_EQ(at[Component::master_weights], masters);
  EXPECT_GT(report.devices.front().phases.back().at_peak_host[Component::optimizer], 0);
}

TEST(MegatronRole, HalfGradientsAreCopiedInTheStepUnlessTheOptimizerTakesThem) {
  const auto end = [](bool aware) {
    Job job = small({.data = 2});
    job.roles.front().precision.gradients = DType::bf16;
    job.roles.front().megatron.precision_aware = aware;
    return last_step(run(job).devices.front());
  };
  const ProcessPhase copied = end(false), aware = end(true);
  // Four bytes of master weights, or the two that bf16 lacks.
  EXPECT_GT(copied.allocated_end, aware.allocated_end);
  EXPECT_EQ(copied.at_peak_allocated[Component::weights], aware.at_peak_allocated[Component::weights]);
}

TEST(MegatronRole, MultiTokenPredictionHoldsALayerALossAndALogitsTensorMore) {
  const auto taken = [](std::int64_t depths, bool trained, const Layout& layout, RecomputeKind recompute) {
    Job job = small(layout);
    job.roles.front().megatron.mtp_layers = depths;
    job.roles.front().megatron.mtp_trained = trained;
    job.roles.front().recompute.kind = recompute;
    return last_step(run(job).devices.back());
  };
  const auto whole = truncated("Qwen/Qwen2.5-0.5B", 8);
  const Architecture& model = *whole;
  const std::int64_t h = model.decoder.hidden;
  const std::int64_t table = round_up(model.decoder.vocabulary, 128) * h;
  const std::int64_t layer = (model.parameters() - model.decoder.vocabulary * h - h) / 8;
  const std::int64_t depth = layer + 2 * h * h + 3 * h;
  for (const Layout& layout : {Layout{}, Layout{.pipeline = 2}, Layout{.tensor = 2}}) {
    const auto plain = taken(0, true, layout, RecomputeKind::none);
    const auto held = taken(1, false, layout, RecomputeKind::none);
    const auto run = taken(1, true, layout, RecomputeKind::none);
    const std::int64_t t = layout.tensor;
    const double copies = layout.pipeline > 1 ? static_cast<double>(table) : 0;
    // 18 bytes a parameter; norms and biases of other layers are not cut.
    EXPECT_NEAR(gib(held.allocated_end - plain.allocated_end), 18 * gib(depth) / static_cast<double>(t) + 18 * copies / kGiB,
                0.02);
    // The placeholder of the projection's gradient stays.
    EXPECT_EQ(run.allocated_end - held.allocated_end, 2 * 2 * h * h / t);
    // Softmax of its logits in fp32, kept until the backward.
    EXPECT_GT(run.peak_allocated - held.peak_allocated, 4 * 4096 * table / h / t);
  }
  EXPECT_LT(taken(1, true, {}, RecomputeKind::full).peak_allocated, taken(1, true, {}, RecomputeKind::none).peak_allocated);
}

TEST(MegatronRole, WeightsInFp8TakeAByteAndTheirColumnsAnother) {
  const auto taken = [](bool parameters) {
    Job job = small({.data = 2});
    job.roles.front().megatron.fp8 = true;
    job.roles.front().megatron.fp8_parameters = parameters;
    return last_step(run(job).devices.front());
  };
  const auto whole = truncated("Qwen/Qwen2.5-0.5B", 8);
  const Architecture& model = *whole;
  const std::int64_t h = model.decoder.hidden, f = model.decoder.layer(0).mlp.hidden;
  const std::int64_t matrices = 8 * (2 * h * h + 2 * 128 * h + 3 * h * f);
  // bf16 and both forms in FP8, four bytes; or the two forms alone.
  EXPECT_NEAR(gib(taken(false).at_peak_allocated[Component::weights] - taken(true).at_peak_allocated[Component::weights]),
              2 * gib(matrices), 0.001);
  EXPECT_EQ(taken(false).at_peak_allocated[Component::master_weights],
            taken(true).at_peak_allocated[Component::master_weights]);
}

TEST(MegatronRole, LayoutsThatDoNotDivideNameTheKey) {
  Job job = small({.data = 8});
  job.roles.front().parallel.expert = 3;
  const Result<Report> report = run_on_device(job, find_hardware("H100").value(), Fidelity::live_bytes);
  ASSERT_FALSE(report.has_value());
  EXPECT_NE(report.error().key.find("expert"), std::string::npos);
}

}  // namespace
}  // namespace headroom
