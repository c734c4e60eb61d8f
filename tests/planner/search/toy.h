#pragma once

#include <charconv>

#include "planner/search/evaluator.h"
#include "tests/simulator/job/small_job.h"

namespace headroom::test {

/// A framework with two knobs whose run takes memory and time by a rule that can be worked out by hand:
/// micro_batch m takes 10 + m GiB and 8 / m + 1 seconds; offloading saves 6 GiB and costs 2 seconds; m = 8
/// together with offloading is refused.
inline std::int64_t number(const std::string& text) {
  std::int64_t value = -1;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

inline Result<Job> toy_with(const ReadJob& read, std::span<const Choice> choices) {
  Job job = read.job;
  for (const Choice& choice : choices) {
    if (choice.knob == "micro_batch") {
      if (number(choice.value) < 1) return fail("expected a positive micro_batch, found " + choice.value);
      job.roles[0].train.sequences = number(choice.value);
    }
    if (choice.knob == "offload") job.roles[0].sharding.offload_optimizer = choice.value == "true";
  }
  if (job.roles[0].train.sequences == 8 && job.roles[0].sharding.offload_optimizer)
    return fail("micro_batch 8 and offload exclude each other");
  return job;
}

inline const Framework& toy_framework() {
  static const Framework framework = {
      "toy",
      "for tests",
      nullptr,
      nullptr,
      [](const ReadJob&) {
        return std::vector<Knob>{{"micro_batch", "", false, "4", {"1", "2", "4", "8", "32"}},
                                 {"offload", "", false, "false", {"false", "true"}}};
      },
      toy_with,
      [](const ReadJob&, std::span<const Choice> choices) -> Result<std::vector<Setting>> {
        std::vector<Setting> settings;
        for (const Choice& choice : choices) settings.push_back({"train." + choice.knob, choice.value});
        return settings;
      },
      nullptr,
  };
  return framework;
}

inline ReadJob toy_run() {
  ReadJob read;
  read.job = small_job();
  read.job.framework = "toy";
  read.job.roles[0].train.sequences = 4;
  read.job.roles[0].sharding.offload_optimizer = false;
  return read;
}

inline Result<Report> toy_report(const Job& job, const Hardware&, Bytes extra) {
  const std::int64_t micro = job.roles[0].train.sequences;
  const bool offload = job.roles[0].sharding.offload_optimizer;
  PhaseReport phase;
  phase.phase = "train_actor";
  phase.peak_device = (10 + micro - (offload ? 6 : 0)) * kGiB + extra;
  phase.at_peak_device[Component::activations] = phase.peak_device;
  phase.seconds = 8.0 / static_cast<double>(micro) + 1 + (offload ? 2 : 0);
  DeviceReport device;
  device.phases = {phase};
  Report report;
  report.executor = "simulator";
  report.devices = {device};
  return report;
}

inline search::Setup toy_setup(const ReadJob& read, Bytes budget) {
  search::Setup setup;
  setup.framework = &toy_framework();
  setup.read = &read;
  setup.limits.card = setup.limits.budget = budget;
  setup.limits.margin = 0;
  return setup;
}

inline Executor toy_executor(Bytes extra = 0) {
  return [extra](const Job& job, const Hardware& hardware) { return toy_report(job, hardware, extra); };
}

}  // namespace headroom::test
