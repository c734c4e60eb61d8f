#pragma once

#include "simulator/report/report.h"

namespace headroom::test {

/// A small report made by hand: two steps of two phases on eight equal GPUs, an engine beside a trainer.
inline Report sample_report() {
  const auto gib = [](double value) { return static_cast<Bytes>(value * static_cast<double>(kGiB)); };
  ProcessPhase trainer;
  trainer.process = "trainer";
  trainer.roles = {"actor", "ref"};
  trainer.peak_allocated = gib(10.5);
  trainer.peak_reserved = gib(12);
  trainer.reserved_end = gib(12);
  trainer.outside = gib(1);
  trainer.at_peak_allocated[Component::weights] = gib(3.5);
  trainer.at_peak_allocated[Component::optimizer] = gib(7);
  ProcessPhase rollout;
  rollout.process = "rollout";
  rollout.roles = {"actor"};
  rollout.peak_allocated = rollout.peak_reserved = gib(38);

  PhaseReport generate;
  generate.phase = "generate";
  generate.peak_device = gib(52);
  generate.peak_host = gib(120.25);
  generate.margin = gib(2);
  generate.seconds = 30.5;
  generate.at_peak_device[Component::weights] = gib(3.5);
  generate.at_peak_device[Component::engine_weights] = gib(7.25);
  generate.at_peak_device[Component::engine_kv] = gib(40.25);
  generate.at_peak_device[Component::context] = gib(1);
  generate.at_peak_host[Component::weights] = gib(120.25);
  generate.processes = {trainer, rollout};

  PhaseReport train;
  train.phase = "train_actor";
  train.peak_device = gib(40);
  train.peak_host = gib(120.25);
  train.margin = gib(1);
  train.at_peak_device[Component::logits] = gib(40);
  train.at_peak_host[Component::weights] = gib(120.25);
  train.processes = {trainer};

  PhaseReport generate_again = generate;  // the optimizer's states exist by now
  generate_again.step = 1;
  generate_again.peak_device += gib(7);
  generate_again.at_peak_device[Component::optimizer] = gib(7);

  Report report;
  report.title = "qwen2.5-7b, GRPO";
  report.framework = "verl";
  report.executor = "simulator";
  report.budget = gib(76);
  report.margin = gib(2);
  report.devices = {{.device = 0,
                     .alike = 8,
                     .pool = "",
                     .budget = {},
                     .phases = {generate, train, generate_again},
                     .engines = {},
                     .holders = {}}};
  report.warnings = {{.code = "kv-preemption",
                      .message = "KV cache holds 12 sequences at once, 256 are asked for",
                      .file = "run.yaml",
                      .line = 14,
                      .key = "rollout.gpu_memory_utilization"}};
  report.assumptions = {"every sequence is as long as the cap"};
  report.versions = {{"verl", "0.9.0"}, {"vllm", "0.23.0"}};
  return report;
}

}  // namespace headroom::test
