#include <gtest/gtest.h>

#include <string>

#include "models/document/document.h"
#include "planner/frameworks/registry.h"
#include "simulator/hardware/library.h"
#include "simulator/phases/simulate.h"

namespace headroom {
namespace {

/// What keys of the plain loop change at the highest moment of the actor's training, in bytes that follow
/// from the model's size alone.

constexpr Bytes kHidden = 1024, kVocabulary = 32000, kInner = 2048, kLayers = 4, kRank = 8;
/// Weights of linears and embeddings; every norm beside them has kHidden.
constexpr Bytes kMatrices =
    2 * kVocabulary * kHidden + kLayers * (4 * kHidden * kHidden + 3 * kHidden * kInner);
constexpr Bytes kNorms = (2 * kLayers + 1) * kHidden;
constexpr Bytes kParameters = kMatrices + kNorms;
/// What blocks keep beyond their requests (rests of up to 1 MiB are not split off), and step counts.
constexpr Bytes kSlack = 4 * kMiB;

Job loop(const std::string& keys) {
  const std::string text =
      "algo: sft\nbatch: 1\nprompt: 16\nresponse: 16\n"
      "actor: {model_type: llama, vocab_size: 32000, hidden_size: 1024, intermediate_size: 2048, "
      "num_hidden_layers: 4, num_attention_heads: 8, tie_word_embeddings: false}\n" +
      keys;
  JobInput input;
  input.files.push_back(
      {.path = "case.yaml", .document = parse_document(text, "case.yaml").value(), .text = {}});
  JobOptions options;
  options.framework = "torch";
  const Result<ReadJob> read = read_job(input, options);
  EXPECT_TRUE(read) << (read ? "" : read.error().text());
  return read ? read->job : Job{};
}

Result<Report> run(const std::string& keys) {
  return simulate(loop(keys), *load_hardware("h100"));
}

/// Bytes of a component at the peak of the second step's training.
Bytes at_peak(const std::string& keys, Component component) {
  const Result<Report> report = run(keys);
  EXPECT_TRUE(report) << (report ? "" : report.error().text());
  Bytes out = 0;
  if (report)
    for (const PhaseReport& phase : report->devices.front().phases)
      if (phase.step == 1 && phase.phase == "train_actor")
        out = phase.processes.front().at_peak_allocated[component];
  return out;
}

TEST(StatesOfAdam, AreTwoOfTheWeightsDtype) {
  const Bytes states = at_peak("", Component::optimizer);
  EXPECT_GE(states, 2 * 2 * kParameters);
  EXPECT_LT(states, 2 * 2 * kParameters + kSlack) << "beside them a step count each";
}

/// A byte a number, and a scale in fp32 for every 256; norms are too small for it and stay fp32.
TEST(StatesOfAdam, AreBytesIn8Bit) {
  const Bytes expected = 2 * (kMatrices + kMatrices / 256 * 4) + 2 * 4 * kNorms;
  const Bytes states = at_peak("adam: 8bit", Component::optimizer);
  EXPECT_GE(states, expected);
  EXPECT_LT(states, expected + kSlack);
}

TEST(StatesOfAdam, AreFp32OverMasterWeights) {
  const Bytes masters = at_peak("precision: master", Component::master_weights);
  EXPECT_GE(masters, 4 * kParameters);
  EXPECT_LT(masters, 4 * kParameters + kSlack);
  const Bytes states = at_peak("precision: master", Component::optimizer);
  EXPECT_GE(states, 2 * 4 * kParameters);
  EXPECT_LT(states, 2 * 4 * kParameters + 2 * kSlack);
}

/// Adapters of all linears but the head: two factors each.
TEST(StatesOfAdam, AreOfAdaptersAloneWithLora) {
  const Bytes adapters = kLayers * kRank * (4 * 2 * kHidden + 3 * (kHidden + kInner));
  const Bytes states = at_peak("lora: 8", Component::optimizer);
  EXPECT_GE(states, 2 * 2 * adapters);
  EXPECT_LT(states, 2 * 4 * adapters + kSlack);
}

TEST(SdpaKernel, HasNoEffectOnEagerAttention) {
  const Result<Report> report = run("attn: eager\nsdpa_kernel: flash");
  ASSERT_TRUE(report) << report.error().text();
  ASSERT_EQ(report->warnings.size(), 1u);
  EXPECT_EQ(report->warnings.front().key, "sdpa_kernel");
}

}  // namespace
}  // namespace headroom
