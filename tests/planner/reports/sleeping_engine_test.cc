#include <fmt/format.h>
#include <fmt/ranges.h>
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

/// A process's own memory outside PyTorch's counters (context, graphs, kernels) is about the same in all points of
/// one sweep. Where so much more stands on the device, the point before it had not left the card yet; the sweep's
/// own tool says that this happens, and takes medians.
constexpr double kNeighbour = 1.0 * kGiB;

std::string joined(const std::vector<std::string>& words) {
  return fmt::format("[{}]", fmt::join(words, ", "));
}

/// What adapters attach to: the knob's list; else all linear layers, within the language model where the knob keeps
/// them out of the towers.
std::string targets_of(const json& knobs) {
  const std::string stated = knobs.value("lora_target_modules", "all-linear");
  if (stated != "all-linear") return fmt::format("[{}]", stated);
  if (knobs.value("lora_target_scope", "").empty()) return "[all-linear]";
  return joined({"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj", "per_layer_input_gate",
                 "per_layer_projection", "per_layer_model_projection"});
}

/// GRPO with LoRA in a trainer that shares its process with a vLLM engine, asleep during training: the base
/// in bf16 and on the host while the engine generates, adapters in fp32, checkpointing, log-probs without
/// whole logits (their small chunks are below what two runs differ by). The engine serves the checkpoint as it is, a
/// group at a time, in steps of as many tokens as 8,192 a sequence, or the longest sequence, make. A quarter of a
/// sequence is the prompt.
std::string job_text(const std::string& model, const std::string& gpu, const json& knobs) {
  const int length = knobs.at("seq_len"), group = knobs.at("group_size"), micro = knobs.at("micro_batch");
  const int prompts = knobs.value("n_prompts", 1), prompt = std::max(length / 4, 8);
  return fmt::format(
      R"(headroom: job/1
algorithm: grpo
gpu: "{gpu}"
batch: {{prompts: {prompts}, samples: {group}, mini_batch: {all}, prompt_length: {prompt}, response_length: {response}}}
roles:
  - name: actor
    model: {model}
    trained: true
    precision: {{weights: bf16, gradients: fp32{frozen}}}
    lora: {{rank: {rank}, targets: {targets}, dtype: fp32}}
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
    max_sequences: {group}
    max_batched_tokens: {batched}
    max_length: {length}
    sleep_level: 1
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
      fmt::arg("all", prompts * group), fmt::arg("prompt", prompt), fmt::arg("response", length - prompt),
      fmt::arg("model", model), fmt::arg("rank", knobs.at("lora_rank").get<int>()),
      fmt::arg("targets", targets_of(knobs)),
      fmt::arg("frozen", knobs.value("quantization", "none") == "nf4" ? ", frozen: nf4" : ""), fmt::arg("micro", std::min(micro, group)),
      fmt::arg("utilization", knobs.at("gpu_memory_utilization").get<double>()),
      fmt::arg("batched", std::min(group * length, std::max(length, group * 8192))), fmt::arg("length", length));
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
  if (!out.contains("training") || !out.contains("generation")) return fail("the engine does not start: ");
  return out;
}

/// What stood on the device during a point's phases outside the counters of its own process: the engine's pool is in
/// the counters awake and asleep, so awake peak and training peak count all else twice and the floor once.
double outside_counters(const json& generation, const json& training) {
  return generation.at("device_peak_bytes").get<double>() + training.at("device_peak_bytes").get<double>() -
         training.at("torch_max_reserved_bytes").get<double>() -
         training.at("sleeping_baseline_bytes").get<double>();
}

double median(std::vector<double> list) {
  std::sort(list.begin(), list.end());
  return list.empty() ? 0 : list[list.size() / 2];
}

/// A file's points: the knobs with what both phases measured, those beside another process apart.
struct Sweep {
  struct Point {
    json knobs, generation, training;
    bool neighbour = false;
  };
  std::vector<Point> points;
};
Sweep sweep_of(const json& run) {
  Sweep out;
  std::vector<double> outside;
  for (const json& measured : run.at("measured")) {
    if (measured.at("knobs").value("algorithm", "grpo") != "grpo") continue;
    const auto at = std::find_if(out.points.begin(), out.points.end(), [&](const Sweep::Point& point) {
      const std::string phase = measured.at("phase");
      return point.knobs == measured.at("knobs") && (phase == "training" ? point.training : point.generation).is_null();
    });
    Sweep::Point& point = at == out.points.end() ? out.points.emplace_back() : *at;
    point.knobs = measured.at("knobs");
    (measured.at("phase") == "training" ? point.training : point.generation) = measured;
  }
  std::erase_if(out.points, [](const Sweep::Point& point) {
    return !point.generation.is_object() || !point.training.is_object() ||
           !point.training.at("sleeping_baseline_bytes").is_number();
  });
  for (const Sweep::Point& point : out.points) outside.push_back(outside_counters(point.generation, point.training));
  const double usual = median(outside);
  for (std::size_t i = 0; i < outside.size(); ++i) out.points[i].neighbour = outside[i] > usual + kNeighbour;
  return out;
}

/// Measured peaks of LoRA GRPO with a colocated, sleeping vLLM, where HEADROOM_TRUTH has them.
TEST(SleepingEngine, PeaksOfTrainingAndGeneration) {
  const auto truth = test::truth();
  if (!truth) GTEST_SKIP() << "HEADROOM_TRUTH is not set";
  const bool verbose = std::getenv("HEADROOM_VERBOSE") != nullptr;
  std::map<std::string, std::vector<double>> errors;
  int neighbours = 0;
  for (const auto& entry : std::filesystem::directory_iterator(*truth / "agilerl")) {
    std::ifstream file(entry.path());
    const json run = json::parse(file);
    const std::string gpu = run.at("device").at("name"), model = run.at("model_id");
    const auto hardware = load_hardware(gpu);
    ASSERT_TRUE(hardware) << hardware.error().text();
    for (const Sweep::Point& point : sweep_of(run).points) {
      neighbours += point.neighbour ? 1 : 0;
      if (point.neighbour) continue;
      const auto predicted = predict(job_text(model, gpu, point.knobs), *hardware);
      EXPECT_TRUE(predicted) << predicted.error().text() << point.knobs;
      if (!predicted) continue;
      const auto gap = [&](const std::string& of, const json& real) {
        const double off = static_cast<double>(predicted->at(of)) - real.get<double>();
        if (verbose)
          std::cout << fmt::format("{} {} {} real {:.2f} predicted {:+.2f} GiB\n", entry.path().stem().string(), of,
                                   point.knobs.dump(), real.get<double>() / kGiB, off / kGiB);
        return off;
      };
      for (const auto& [phase, measured] :
           {std::pair{"generation", &point.generation}, std::pair{"training", &point.training}}) {
        const json& real = measured->at("device_peak_bytes");
        errors[phase].push_back(std::max(0.0, std::abs(gap(phase, real)) - kRepeatability) / real.get<double>());
      }
      errors["asleep, of the card"].push_back(std::abs(gap("asleep", point.training.at("sleeping_baseline_bytes"))) /
                                              static_cast<double>(hardware->total_memory));
    }
  }
  std::cout << fmt::format("left out beside another process: {}\n", neighbours);
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
    if (phase.starts_with("asleep")) {
      EXPECT_LE(worst, 0.05);
    }
  }
}

}  // namespace
}  // namespace headroom
