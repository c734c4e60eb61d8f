#include <fmt/format.h>
#include <gmock/gmock.h>

#include "planner/frameworks/registry.h"
#include "simulator/closed_form/folded_trainer.h"
#include "simulator/hardware/library.h"
#include "simulator/job/names.h"
#include "simulator/phases/simulate.h"

/// Every job that the schema allows, over trainers, shardings and engines, runs or is refused with FILE:LINE,
/// key and reason.

namespace headroom {
namespace {

constexpr const char* kModel = "Qwen/Qwen2.5-0.5B";

std::string job_of(std::string_view trainer, std::string_view sharding, std::string_view engine, bool packed,
                   bool lora) {
  std::string text = fmt::format(
      "headroom: job/1\nname: t\nalgorithm: ppo\ngpu: H100\nsteps: 2\npools: [{{gpus_per_node: 2}}]\n"
      "batch: {{prompts: 4, mini_batch: 4, prompt_length: 32, response_length: 16}}\nroles:\n");
  for (const std::string role : {"actor", "critic", "ref", "reward"}) {
    const bool trained = role == "actor" || role == "critic", body = role == "actor" || role == "ref";
    text += fmt::format(
        "  - name: {}\n    model: {}\n    head: {}\n    trained: {}\n    trainer: {}\n    packed: {}\n"
        "    sharding: {{kind: {}}}\n    train: {{sequences: 1}}\n    forward: {{sequences: 2}}\n{}",
        role, kModel, body ? "language_model" : "scalar", trained, trainer, packed, sharding,
        lora && trained ? "    lora: {rank: 8, targets: [all-linear]}\n" : "");
  }
  if (!engine.empty())
    text +=
        fmt::format("engines:\n  - {{name: rollout, kind: {}, role: actor, model: {}, utilization: 0.4}}\n",
                    engine, kModel);
  return text;
}

class Trainers : public testing::TestWithParam<std::tuple<std::string, std::string, std::string>> {};

TEST_P(Trainers, RunOrAreRefusedWithAPlaceAndAReason) {
  const auto [trainer, sharding, engine] = GetParam();
  const Hardware hardware = *load_hardware("h100");
  for (const bool packed : {false, true})
    for (const bool lora : {false, true}) {
      const std::string text = job_of(trainer, sharding, engine, packed, lora);
      SCOPED_TRACE(text);
      JobInput input;
      input.files.push_back(
          {.path = "job.yaml", .document = *parse_document(text, "job.yaml"), .text = text});
      const Result<ReadJob> read = read_job(input, {});
      if (!read) {
        EXPECT_EQ(read.error().file, "job.yaml");
        EXPECT_GT(read.error().line, 1);
        EXPECT_FALSE(read.error().key.empty());
        EXPECT_THAT(read.error().message, testing::HasSubstr("expected"));
        continue;
      }
      for (const Result<Report>& report :
           {closed_form::estimate(read->job, hardware), simulate(read->job, hardware)}) {
        ASSERT_TRUE(report) << report.error().text();
        EXPECT_FALSE(report->devices.empty());
      }
    }
}

template <typename Enum>
std::vector<std::string> words() {
  std::vector<std::string> out;
  for (const auto& [value, name] : enum_names<Enum>()) out.emplace_back(name);
  return out;
}

std::vector<std::string> trainers() {
  std::vector<std::string> out = {"plain"};
  for (const LoopKind* loop : loops()) out.emplace_back(loop->name);
  return out;
}

std::vector<std::string> engines() {
  std::vector<std::string> out = words<EngineKind>();
  out.emplace_back();
  return out;
}

INSTANTIATE_TEST_SUITE_P(All, Trainers,
                         testing::Combine(testing::ValuesIn(trainers()),
                                          testing::ValuesIn(words<ShardingKind>()),
                                          testing::ValuesIn(engines())),
                         [](const auto& at) {
                           return fmt::format("{}_{}_{}", std::get<0>(at.param), std::get<1>(at.param),
                                              std::get<2>(at.param).empty() ? "none" : std::get<2>(at.param));
                         });

}  // namespace
}  // namespace headroom
