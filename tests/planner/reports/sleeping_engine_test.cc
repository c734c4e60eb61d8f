#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>

#include "planner/frameworks/job/file.h"
#include "simulator/hardware/library.h"
#include "simulator/phases/device_run.h"
#include "tests/support/data.h"

namespace headroom {
namespace {

using nlohmann::json;

/// Two identical runs of the measured project differ by so much: only what exceeds it counts as an error.
constexpr double kRepeatability = 750.0 * kMiB;

/// GRPO with LoRA in a trainer that shares its process with a vLLM engine, asleep during training: the base
/// in bf16 and on the host while the engine generates, adapters in fp32, checkpointing, log-probs without
/// whole logits (their small chunks are below what two runs differ by). The engine may prefill all its
/// sequences in one step of at most 65,536 tokens.
std::string job_text(const std::string& model, const std::string& gpu, const json& knobs) {
  const int length = knobs.at("seq_len"), group = knobs.at("group_size"), micro = knobs.at("micro_batch");
  const int prompts = knobs.value("n_prompts", 1);
  return fmt::format(
      R"(headroom: job/1
algorithm: grpo
gpu: {gpu}
batch: {{prompts: {prompts}, samples: {group}, mini_batch: {all}, prompt_length: {prompt}, response_length: {response}}}
roles:
  - name: actor
    model: {model}
    trained: true
    precision: {{weights: bf16, gradients: fp32}}
    lora: {{rank: {rank}, targets: [all-linear], dtype: fp32}}
    recompute: {{kind: full}}
    loss: {{token_logprob: fused_linear, chunk: 0, kl: true}}
    train: {{sequences: {micro}}}
    forward: {{sequences: {micro}}}
  - {{name: ref, model: {model}, shares_weights_of: actor, forward: {{sequences: {micro}}}, loss: {{token_logprob: fused_linear, chunk: 0}}}}
engines:
  - name: rollout
    kind: vllm
    release: 0.26.0
    role: actor
    model: {model}
    utilization: {utilization}
    max_sequences: {all}
    max_batched_tokens: {batched}
    max_length: {length}
    sleep_level: 1
    graphs_in_budget: true
    lora_slots: 1
    lora_rank: {rank}
processes:
  - {{name: trainer, roles: [actor, ref], engine: rollout}}
start:
  - phase: init
    actions:
      - {{do: build, role: actor}}
      - {{do: build_optimizer, role: actor}}
      - {{do: offload, role: actor, parts: [weights]}}
      - {{do: empty_cache, role: actor}}
  - phase: engine_init
    actions: [{{do: start_engine, engine: rollout}}]
step:
  - phase: generate
    actions: [{{do: wake_weights, engine: rollout}}, {{do: wake_kv, engine: rollout}}, {{do: generate, engine: rollout}}]
  - phase: sleep
    actions: [{{do: sleep, engine: rollout}}]
  - phase: actor_logprob
    actions: [{{do: load, role: actor, parts: [weights]}}, {{do: forward, role: actor, output: logprobs}}]
  - phase: ref_logprob
    actions: [{{do: forward, role: ref, output: logprobs}}]
  - phase: train_actor
    actions: [{{do: train, role: actor}}, {{do: offload, role: actor, parts: [weights]}}, {{do: empty_cache, role: actor}}]
)",
      fmt::arg("gpu", gpu), fmt::arg("prompts", prompts), fmt::arg("group", group),
      fmt::arg("all", prompts * group), fmt::arg("prompt", length / 2),
      fmt::arg("response", length - length / 2), fmt::arg("model", model),
      fmt::arg("rank", knobs.at("lora_rank").get<int>()), fmt::arg("micro", std::min(micro, group)),
      fmt::arg("utilization", knobs.at("gpu_memory_utilization").get<double>()),
      fmt::arg("batched", std::clamp(prompts * group * length, 2048, 65536)), fmt::arg("length", length));
}

Result<std::map<std::string, Bytes>> predict(const std::string& text, const Hardware& hardware) {
  HEADROOM_ASSIGN(const Document document, parse_document(text, "job.yaml"));
  HEADROOM_ASSIGN(Job job, jobfile::read_job_file(document, "job.yaml", ""));
  job.steps = 1;  // first-step peaks were measured
  HEADROOM_ASSIGN(const Report report, run_on_device(job, hardware, Fidelity::every_allocation));
  std::map<std::string, Bytes> out;
  // While the engine sleeps and nothing runs: what both hold.
  out["asleep"] = report.devices.at(0).engines.at(0).asleep;
  for (const PhaseReport& phase : report.devices.at(0).phases)
    for (const ProcessPhase& process : phase.processes)
      if (phase.phase == "sleep" && process.process == "trainer")
        out["asleep"] += process.reserved_end + process.outside;
  for (const PhaseReport& phase : report.devices.at(0).phases) {
    const bool training = phase.phase == "train_actor" || phase.phase.ends_with("logprob");
    Bytes& peak = out[training ? "training" : phase.phase == "generate" ? "generation" : phase.phase];
    peak = std::max(peak, phase.peak_device);
    for (const ProcessPhase& process : phase.processes)
      if (process.out_of_memory) return fail(*process.out_of_memory);
  }
  return out;
}

/// Measured peaks of LoRA GRPO with a colocated, sleeping vLLM, where HEADROOM_TRUTH has them.
TEST(SleepingEngine, PeaksOfTrainingAndGeneration) {
  const auto truth = test::truth();
  if (!truth) GTEST_SKIP() << "HEADROOM_TRUTH is not set";
  std::map<std::string, std::vector<double>> errors;
  const std::map<std::string, std::string> gpus = {{"NVIDIA A100-SXM4-40GB", "a100-40gb"},
                                                   {"NVIDIA L4", "l4"}};
  for (const auto& entry : std::filesystem::directory_iterator(*truth / "agilerl")) {
    std::ifstream file(entry.path());
    const json run = json::parse(file);
    const std::string gpu = gpus.at(run.at("device").at("name"));
    const auto hardware = load_hardware(gpu);
    ASSERT_TRUE(hardware) << hardware.error().text();
    for (const json& measured : run.at("measured")) {
      const auto predicted = predict(job_text(run.at("model_id"), gpu, measured.at("knobs")), *hardware);
      ASSERT_TRUE(predicted) << predicted.error().text() << measured.at("knobs");
      const std::string phase = measured.at("phase");
      const auto real = measured.at("device_peak_bytes").get<double>();
      const double gap = static_cast<double>(predicted->at(phase)) - real;
      errors[phase].push_back(std::max(0.0, std::abs(gap) - kRepeatability) / real);
      if (const json& asleep = measured.at("sleeping_baseline_bytes"); asleep.is_number()) {
        const double off = static_cast<double>(predicted->at("asleep")) - asleep.get<double>();
        errors["asleep, of the card"].push_back(std::abs(off) / static_cast<double>(hardware->total_memory));
        if (std::getenv("HEADROOM_VERBOSE") != nullptr)
          std::cout << fmt::format("  asleep {:.2f} predicted {:+.2f} GiB\n", asleep.get<double>() / kGiB,
                                   off / kGiB);
      }
      if (std::getenv("HEADROOM_VERBOSE") != nullptr)
        std::cout << entry.path().stem().string() << " " << phase << " " << measured.at("knobs").dump()
                  << fmt::format(" real {:.2f} predicted {:+.2f} GiB\n", real / kGiB, gap / kGiB);
    }
  }
  for (const auto& [phase, list] : errors) {
    double sum = 0, worst = 0;
    for (const double error : list) {
      sum += error;
      worst = std::max(worst, error);
    }
    const double mean = sum / static_cast<double>(list.size());
    std::cout << fmt::format("{}: mean {:.2f} %, worst {:.2f} % of {}\n", phase, 100 * mean, 100 * worst,
                             list.size());
    EXPECT_LE(mean, phase == "training" ? 0.04 : phase == "generation" ? 0.03 : 0.01) << phase;
  }
}

}  // namespace
}  // namespace headroom
