#include "planner/compare/log_comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "models/base/bytes.h"
#include "models/base/printable.h"
#include "planner/writers/columns.h"
#include "planner/writers/markdown.h"

namespace headroom::compare {
namespace {

/// What a framework's timer encloses, as phases of a prediction.
struct Timer {
  std::string_view metric;
  std::vector<std::string_view> phases;  ///< empty: the whole step
  /// A timer that later releases split off: in a log without it, its phases are within this one.
  std::string_view split_off = {};
};

const std::vector<Timer>& timers() {
  static const std::vector<Timer> kTimers = {
      // verl
      {"timing_s/gen", {"generate", "wake", "sleep"}, "timing_s/update_weights"},
      {"timing_s/generate_sequences", {"generate"}},
      {"timing_s/reward", {"reward"}},
      {"timing_s/old_log_prob", {"actor_logprob"}},
      {"timing_s/ref", {"ref_logprob"}},
      {"timing_s/ref_log_prob", {"ref_logprob"}},
      {"timing_s/values", {"critic_values"}},
      {"timing_s/update_actor", {"train_actor"}},
      {"timing_s/update_critic", {"train_critic"}},
      {"timing_s/update_weights", {"weight_sync"}},
      {"timing_s/reshard", {"weight_sync"}},
      {"timing_s/save_checkpoint", {"save_checkpoint"}},
      {"timing_s/testing", {"validate"}},
      {"timing_s/step", {}},
      {"perf/time_per_step", {}},
      // NeMo RL
      {"timing/train/generation", {"generate"}},
      {"timing/train/prepare_for_generation/total", {"weight_sync", "wake"}},
      {"timing/train/weight_sync", {"weight_sync"}},
      {"timing/train/prepare_for_generation/transfer_and_update_weights", {"weight_sync"}},
      {"timing/train/policy_and_reference_logprobs", {"actor_logprob", "ref_logprob"}},
      {"timing/train/policy_training", {"train_actor"}},
      {"timing/train/value_training", {"train_critic"}},
      {"timing/train/checkpointing", {"save_checkpoint"}},
      {"timing/train/total_step_time", {}},
      // TRL
      {"step_time", {}},
      {"profiling/Time taken: GRPOTrainer.transformers.generate", {"generate"}},
      {"profiling/Time taken: GRPOTrainer.vLLM.generate", {"generate"}},
      {"profiling/Time taken: GRPOTrainer._move_model_to_vllm", {"weight_sync"}},
  };
  return kTimers;
}

bool is_time(std::string_view metric) {
  return metric.starts_with("timing_s/") || metric.starts_with("timing/train/") ||
         metric.starts_with("profiling/Time taken");
}

std::vector<double> values_of(const TrainingLog& log, std::string_view metric) {
  std::vector<double> out;
  for (const LoggedStep& step : log.steps)
    if (const auto found = step.metrics.find(std::string(metric)); found != step.metrics.end())
      out.push_back(found->second);
  return out;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

/// Seconds of the last step's phases of these names on the slowest device; nothing where it has none of them.
std::optional<double> seconds_of(const Report& report, const std::vector<std::string_view>& names) {
  std::optional<double> most;
  for (const DeviceReport& device : report.devices) {
    int last = -1;
    for (const PhaseReport& phase : device.phases) last = std::max(last, phase.step);
    std::optional<double> sum;
    for (const PhaseReport& phase : device.phases)
      if (phase.step == last &&
          (names.empty() || std::find(names.begin(), names.end(), phase.phase) != names.end()))
        sum = sum.value_or(0) + phase.seconds;
    if (sum) most = std::max(most.value_or(0), *sum);
  }
  return most;
}

std::string joined(const std::vector<std::string_view>& names) {
  if (names.empty()) return "the whole step";
  return fmt::format("{}", fmt::join(names, "+"));
}

std::vector<std::string_view> enclosed(const Timer& timer, const TrainingLog& log) {
  std::vector<std::string_view> out = timer.phases;
  if (timer.split_off.empty() || !values_of(log, timer.split_off).empty()) return out;
  for (const Timer& other : timers())
    if (other.metric == timer.split_off) out.insert(out.end(), other.phases.begin(), other.phases.end());
  return out;
}

void add_times(const Report& report, const TrainingLog& log, LogComparison& out) {
  for (const Timer& timer : timers()) {
    std::vector<double> values = values_of(log, timer.metric);
    if (values.empty()) continue;
    if (values.size() > 1) values.erase(values.begin());
    const std::vector<std::string_view> phases = enclosed(timer, log);
    const std::optional<double> predicted = seconds_of(report, phases);
    if (!predicted) continue;
    out.rows.push_back({.metric = std::string(timer.metric),
                        .what = joined(phases),
                        .predicted = *predicted,
                        .measured = median(values),
                        .steps = values.size()});
  }
  std::vector<std::string> seen;
  for (const LoggedStep& step : log.steps)
    for (const auto& [metric, value] : step.metrics)
      if (is_time(metric) && std::find(seen.begin(), seen.end(), metric) == seen.end()) {
        seen.push_back(metric);
        if (std::none_of(out.rows.begin(), out.rows.end(),
                         [&](const LogRow& row) { return row.metric == metric; }))
          out.unpredicted.push_back(metric);
      }
}

/// What an engine holds inside the trainer's own process at its largest.
Bytes engine_inside(const Job& job, const PhaseReport& phase) {
  Bytes bytes = 0;
  for (const Process& process : job.processes)
    if (!process.engine.empty() && !process.roles.empty())
      for (const ProcessPhase& row : phase.processes)
        if (row.process == process.engine) bytes = std::max(bytes, row.peak_reserved);
  return bytes;
}

void add_memory(const Job& job, const Report& report, const TrainingLog& log, LogComparison& out) {
  Bytes allocated = 0, reserved = 0, host = 0, engine = 0;
  for (const DeviceReport& device : report.devices)
    for (const PhaseReport& phase : device.phases) {
      host = std::max(host, phase.peak_host);
      engine = std::max(engine, engine_inside(job, phase));
      for (const ProcessPhase& process : phase.processes) {
        if (process.roles.empty()) continue;
        allocated = std::max(allocated, process.peak_allocated);
        reserved = std::max(reserved, process.peak_reserved);
      }
    }
  const std::string counted = engine > 0 ? "trainer's process, its engine included" : "trainer's process";
  const auto add = [&](const char* metric, const std::string& what, Bytes predicted) {
    const std::vector<double> values = values_of(log, metric);
    if (values.empty() || predicted == 0) return;
    out.rows.push_back(
        {.metric = metric,
         .what = what,
         .bytes = true,
         .predicted = static_cast<double>(predicted),
         .measured = *std::max_element(values.begin(), values.end()) * static_cast<double>(kGiB),
         .steps = values.size()});
  };
  add("perf/max_memory_allocated_gb", "allocated, " + counted, allocated + engine);
  add("perf/max_memory_reserved_gb", "reserved, " + counted, reserved + engine);
  add("perf/cpu_memory_used_gb", "host memory of the node", host);
}

std::string figure(const LogRow& row, double value) {
  return row.bytes ? format_gib(static_cast<Bytes>(value)) : fmt::format("{:.3f} s", value);
}

}  // namespace

std::optional<Lengths> logged_lengths(const TrainingLog& log) {
  const auto usual = [&](std::initializer_list<std::string_view> metrics) {
    for (const std::string_view metric : metrics) {
      std::vector<double> values = values_of(log, metric);
      if (values.size() > 1) values.erase(values.begin());
      if (!values.empty()) return median(std::move(values));
    }
    return 0.0;
  };
  const auto longest = [&](std::string_view metric) {
    const std::vector<double> values = values_of(log, metric);
    return values.empty() ? 0.0 : *std::max_element(values.begin(), values.end());
  };
  Lengths out;
  out.mean_prompt = usual({"prompt_length/mean", "train/mean_prompt_length"});
  out.mean_response = usual({"response_length/mean", "completions/mean_length", "train/mean_gen_tokens_per_sample"});
  if (out.mean_response <= 0) return std::nullopt;
  const double prompt = longest("prompt_length/max"), response = longest("response_length/max");
  if (prompt > 0 && response > 0) out.max_total = static_cast<std::int64_t>(prompt + response);
  out.source = log.file;
  return out;
}

LogComparison compare_log(const Job& job, const Report& report, const TrainingLog& log) {
  LogComparison out;
  add_times(report, log, out);
  add_memory(job, report, log, out);
  return out;
}

std::string table(const LogComparison& comparison) {
  using writers::Columns;
  constexpr auto kLeft = Columns::Align::left, kRight = Columns::Align::right;
  Columns columns({kLeft, kLeft, kRight, kRight, kRight, kRight});
  columns.add({"metric", "predicted as", "predicted", "measured", "error %", "steps"});
  for (const LogRow& row : comparison.rows)
    columns.add({row.metric, row.what, figure(row, row.predicted), figure(row, row.measured),
                 fmt::format("{:+.1f}", row.error()), fmt::format("{}", row.steps)});
  std::string out = columns.text();
  if (!comparison.unpredicted.empty())
    out += "not predicted: " + printable(fmt::format("{}", fmt::join(comparison.unpredicted, ", "))) + "\n";
  return out;
}

std::string verdict(const LogComparison& comparison) {
  double low = 0, high = 0;
  for (const LogRow& row : comparison.rows) {
    low = std::min(low, row.error());
    high = std::max(high, row.error());
  }
  return fmt::format("{} metrics predicted, errors from {:+.1f} % to {:+.1f} %\n", comparison.rows.size(), low, high);
}

std::string markdown(const LogComparison& comparison) {
  std::string out =
      "| metric | predicted as | predicted | measured | error % | steps |\n"
      "| --- | --- | ---: | ---: | ---: | ---: |\n";
  for (const LogRow& row : comparison.rows)
    out += fmt::format("| {} | {} | {} | {} | {:+.1f} | {} |\n", writers::markdown_text(row.metric),
                       writers::markdown_text(row.what), figure(row, row.predicted), figure(row, row.measured),
                       row.error(), row.steps);
  if (!comparison.unpredicted.empty())
    out += "\nNot predicted: " +
           writers::markdown_text(fmt::format("{}", fmt::join(comparison.unpredicted, ", "))) + "\n";
  return out;
}

std::string json(const LogComparison& comparison) {
  nlohmann::ordered_json out;
  out["schema"] = "headroom.compare_log/1";
  out["rows"] = nlohmann::ordered_json::array();
  for (const LogRow& row : comparison.rows)
    out["rows"].push_back({{"metric", row.metric},
                           {"predicted_as", row.what},
                           {"unit", row.bytes ? "bytes" : "seconds"},
                           {"predicted", row.predicted},
                           {"measured", row.measured},
                           {"steps", row.steps}});
  out["not_predicted"] = comparison.unpredicted;
  return out.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace headroom::compare
