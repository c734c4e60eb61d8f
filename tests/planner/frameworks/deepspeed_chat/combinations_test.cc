#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

#include "simulator/phases/simulate.h"
#include "tests/planner/frameworks/case_reading.h"

namespace headroom {
namespace {

constexpr const char* kOpt = R"({"actor": {"model_type": "opt", "vocab_size": 512, "hidden_size": 64,
  "ffn_dim": 128, "num_hidden_layers": 2, "num_attention_heads": 2, "max_position_embeddings": 64,
  "word_embed_proj_dim": 64}, "batch": 2, "prompt": 8, "response": 3, "dtype": "fp16", "zero_stage": 2, "name": "opt"})";
constexpr const char* kGpt2 =
    R"({"actor": {"model_type": "gpt2", "vocab_size": 512, "n_embd": 64, "n_layer": 2,
  "n_head": 2, "n_positions": 64}, "batch": 2, "prompt": 8, "response": 3, "dtype": "fp16", "zero_stage": 2, "name": "gpt2"})";

struct Combination {
  std::string family;
  int stage = 0;
  bool offload = false, checkpoints = false, overflow = false;
  std::string emptied = "none";
  auto operator<=>(const Combination&) const = default;

  std::vector<std::string> keys() const {
    // A bucket of the model's size: larger ones would hide it.
    std::vector<std::string> out = {"steps=3", "reduce_bucket_size=20000",
                                    "zero_stage=" + std::to_string(stage), "empty_cache=" + emptied};
    if (offload) out.push_back("offload=true");
    if (checkpoints) out.push_back("grad_ckpt=true");
    if (!overflow) out.push_back("fp16_extra.initial_scale_power=4");
    return out;
  }
  std::string text() const {
    std::string out = family;
    for (const std::string& key : keys()) out += ' ' + key;
    return out;
  }
};

Report simulated(const Combination& c) {
  const Result<ReadJob> read = test::read_case(c.family == "opt" ? kOpt : kGpt2, c.keys());
  EXPECT_EQ(read->job.framework, "deepspeed-chat");
  EXPECT_TRUE(read) << c.text() << ": " << read.error().text();
  const Result<Report> report = simulate(read->job, {});
  EXPECT_TRUE(report) << c.text() << ": " << report.error().text();
  return *report;
}

std::vector<Combination> combinations() {
  std::vector<Combination> out;
  for (const char* family : {"opt", "gpt2"})
    for (int stage = 0; stage <= 3; ++stage)
      for (bool offload : {false, true})
        for (bool checkpoints : {false, true})
          for (bool overflow : {false, true})
            // Without sharding there is nothing to offload from.
            if (stage > 0 || !offload) out.push_back({family, stage, offload, checkpoints, overflow});
  return out;
}

const std::vector<PhaseReport>& phases(const Report& report) {
  return report.devices[0].phases;
}

const ProcessPhase& row(const Report& report, const std::string& phase, int step) {
  const auto& rows = phases(report);
  const auto at = std::find_if(rows.begin(), rows.end(), [&](const PhaseReport& candidate) {
    return candidate.phase == phase && candidate.step == step;
  });
  if (at == rows.end()) throw std::out_of_range(phase);
  return at->processes[0];
}

/// What steps add to what stays, from the first on.
Bytes grown_by(const Report& report, int last_step) {
  const auto& rows = phases(report);
  const auto first = std::find_if(rows.begin(), rows.end(), [](const PhaseReport& r) { return r.step == 0; });
  return row(report, "train_critic", last_step).allocated_end - first->processes[0].allocated_start;
}

TEST(DeepSpeedCombinations, EveryOneRunsAndReservesWhatItAllocates) {
  for (Combination c : combinations())
    for (const char* emptied : {"none", "inference", "all"}) {
      c.emptied = emptied;
      const Report report = simulated(c);
      for (const PhaseReport& phase : phases(report))
        EXPECT_GE(phase.processes[0].peak_reserved, phase.processes[0].peak_allocated)
            << c.text() << ' ' << phase.phase;
    }
}

TEST(DeepSpeedCombinations, OffloadNeverLeavesMoreOnTheDevice) {
  for (Combination c : combinations()) {
    if (c.stage == 0 || c.offload) continue;
    const Report without = simulated(c);
    c.offload = true;
    const Report with = simulated(c);
    for (std::size_t i = 0; i < phases(without).size(); ++i) {
      const PhaseReport &a = phases(without)[i], &b = phases(with)[i];
      // Stages 1 and 2 keep a staging buffer of the largest parameter.
      const Bytes staging = c.stage < 3 ? Bytes{2} * 2 * 512 * 64 : 0;
      EXPECT_LE(b.processes[0].allocated_end, a.processes[0].allocated_end + staging)
          << c.text() << ' ' << a.phase << ' ' << a.step;
      EXPECT_GE(b.peak_host, a.peak_host) << c.text() << ' ' << a.phase << ' ' << a.step;
    }
  }
}

TEST(DeepSpeedCombinations, StageOneTakesWhatStageTwoTakes) {
  for (Combination c : combinations()) {
    if (c.stage != 2) continue;
    const Report two = simulated(c);
    c.stage = 1;
    const Report one = simulated(c);
    for (std::size_t i = 0; i < phases(two).size(); ++i)
      EXPECT_EQ(phases(two)[i].processes[0].peak_allocated, phases(one)[i].processes[0].peak_allocated)
          << c.text() << ' ' << phases(two)[i].phase;
  }
}

TEST(DeepSpeedCombinations, ASkippedStepMakesNoStates) {
  for (Combination c : combinations()) {
    if (!c.overflow) continue;
    const Report skipped = simulated(c);
    c.overflow = false;
    const Report stepped = simulated(c);
    const Bytes grown = grown_by(stepped, 2), kept = grown_by(skipped, 2);
    // Stage 0 has its states from the start, offload has them on the host.
    if (c.stage == 0 || c.offload)
      EXPECT_LE(kept, grown + 64 * kKiB) << c.text();
    else
      EXPECT_LT(kept, grown) << c.text();
  }
}

TEST(DeepSpeedCombinations, OnlyTheFirstSkippedStepKeepsItsGradients) {
  for (Combination c : combinations()) {
    if (!c.overflow) continue;
    const Report skipped = simulated(c);
    // Later steps leave nothing, whatever hangs on the parameters' links from the first one.
    EXPECT_NEAR(static_cast<double>(row(skipped, "train_critic", 1).allocated_end),
                static_cast<double>(row(skipped, "train_critic", 2).allocated_end), 64.0 * kKiB)
        << c.text();
  }
}

TEST(DeepSpeedCombinations, EmptyingTheCacheLeavesAllocationsAlone) {
  for (Combination c : combinations()) {
    if (c.overflow) continue;
    const Report full = simulated(c);
    c.emptied = "all";
    const Report emptied = simulated(c);
    for (std::size_t i = 0; i < phases(full).size(); ++i)
      // Blocks larger than 1 MiB may keep an unsplit rest.
      EXPECT_NEAR(static_cast<double>(phases(full)[i].processes[0].peak_allocated),
                  static_cast<double>(phases(emptied)[i].processes[0].peak_allocated), 2.0 * kMiB)
          << c.text() << ' ' << phases(full)[i].phase;
  }
}

TEST(DeepSpeedCombinations, OffloadWithoutShardingIsRefused) {
  const Result<ReadJob> read = test::read_case(kOpt, {"zero_stage=0", "offload=true"});
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().key, "offload");
}

}  // namespace
}  // namespace headroom
