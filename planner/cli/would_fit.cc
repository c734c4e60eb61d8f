#include "planner/cli/would_fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "planner/search/solve_number.h"
#include "simulator/hardware/library.h"

namespace headroom::cli {
namespace {

constexpr const char* kAdapters = "64";  // a usual rank: what it is hardly matters beside whole weights

search::Outcome outcome_of_job(const Job& job, const Hardware& hardware, const Limits& limits,
                               const Executor& executor) {
  search::Outcome refused;
  Result<Report> report = executor(job, hardware);
  if (!report) {
    refused.refusal = report.error().text();
    return refused;
  }
  judge(*report, limits);
  return search::outcome_of(*report);
}

/// The run with a size of that value and with `choices` made.
Result<Job> job_with(const Run& run, const Size& size, const std::string& value, std::span<const Choice> choices) {
  HEADROOM_ASSIGN(ReadJob read, with_size(run, size, value));
  if (choices.empty()) return std::move(read.job);
  return run.framework->with(read, choices);
}

search::Outcome outcome_with(const Run& run, const Size& size, const std::string& value, const Executor& executor,
                             std::span<const Choice> choices = {}) {
  const Result<Job> job = job_with(run, size, value, choices);
  if (job) return outcome_of_job(*job, run.hardware, run.limits, executor);
  search::Outcome refused;
  refused.refusal = job.error().text();
  return refused;
}

std::optional<search::Would> more_gpus(const Run& run, const Executor& quick, const Executor& exact,
                                       std::span<const Choice> choices) {
  const std::optional<Size> size = find_size(run.read, {}, "gpus");
  if (!size) return {};
  const auto trying = [&](const Executor& executor) -> search::TryValue {
    return [&run, &size, &executor, choices](const std::string& value) {
      return outcome_with(run, *size, value, executor, choices);
    };
  };
  const auto refusal = [&](const std::string& value) {
    const Result<Job> job = job_with(run, *size, value, choices);
    return job ? std::string() : job.error().text();
  };
  const auto found = search::solve_number(size->name, {size->current, true}, {refusal, trying(quick), trying(exact)});
  if (!found || !found->fits) return {};
  return search::Would{fmt::format("{} GPUs of this kind instead of {}{}", found->fits->value, size->current,
                                   choices.empty() ? "" : ", with all that saves memory"),
                       size->name, found->fits->value, found->fits->outcome};
}

/// As they are, and where fewer do, with all that saves memory.
std::vector<search::Would> more_gpus_of(const Run& run, const Executor& quick, const Executor& exact,
                                        std::span<const Choice> frugal) {
  std::vector<search::Would> out;
  const std::optional<search::Would> plain = more_gpus(run, quick, exact, {});
  const std::optional<search::Would> spared = frugal.empty() ? std::nullopt : more_gpus(run, quick, exact, frugal);
  if (spared && (!plain || std::atoll(spared->value.c_str()) < std::atoll(plain->value.c_str()))) out.push_back(*spared);
  if (plain) out.push_back(*plain);
  return out;
}

std::optional<search::Would> larger_card(const Run& run, const Common& common, const Executor& quick,
                                         const Executor& exact) {
  if (!common.budgets.empty()) return {};
  std::vector<Hardware> cards;
  for (const Hardware& card : hardware_profiles())
    if (card.total_memory > run.hardware.total_memory) cards.push_back(card);
  std::stable_sort(cards.begin(), cards.end(),
                   [](const Hardware& a, const Hardware& b) { return a.total_memory < b.total_memory; });
  Bytes tried = 0;
  for (const Hardware& card : cards) {
    if (card.total_memory < tried + kGiB) continue;  // as good as the last one
    tried = card.total_memory;
    Job job = run.read.job;
    job.gpu = card.name;
    job.device_memory = 0;
    const Limits limits = limits_of(common, card);
    search::Outcome outcome = outcome_of_job(job, card, limits, quick);
    if (outcome.valid && outcome.fits) outcome = outcome_of_job(job, card, limits, exact);
    if (outcome.valid && outcome.fits)
      return search::Would{fmt::format("as many {} ({})", card.name, format_gib(card.total_memory)), "gpu", card.name,
                           outcome};
  }
  return {};
}

std::optional<search::Would> adapters(const Run& run, const Executor& exact) {
  const std::optional<Size> size = find_size(run.read, run.framework->sizes, "lora_rank");
  if (!size || size->current != "0") return {};
  const search::Outcome outcome = outcome_with(run, *size, kAdapters, exact);
  if (!outcome.valid || !outcome.fits) return {};
  return search::Would{fmt::format("adapters of rank {} instead of whole weights ({}={})", kAdapters, size->key, kAdapters),
                       size->name, kAdapters, outcome};
}

}  // namespace

std::vector<search::Would> would_fit(const Run& run, const Common& common, const Executor& quick,
                                     const Executor& exact, std::span<const Choice> frugal) {
  std::vector<search::Would> out = more_gpus_of(run, quick, exact, frugal);
  for (std::optional<search::Would>& one :
       std::array{larger_card(run, common, quick, exact), adapters(run, exact)})
    if (one) out.push_back(std::move(*one));
  return out;
}

std::vector<search::Technique> numeric_techniques(const Run& run, const search::Outcome& now, const Executor& quick) {
  std::vector<search::Technique> out;
  for (const char* name : {"lora_rank", "response_length", "sequence_length", "samples", "batch", "mini_batch"}) {
    const std::optional<Size> size = find_size(run.read, run.framework->sizes, name);
    if (!size) continue;
    const bool lora = size->name == "lora_rank";
    const std::int64_t current = std::atoll(size->current.c_str());
    if (lora ? current != 0 : current < 2) continue;
    const std::string value = lora ? kAdapters : std::to_string(current / 2);
    const search::Outcome outcome = outcome_with(run, *size, value, quick);
    if (!outcome.valid) continue;
    search::Technique technique = search::technique_of(
        size->name, lora ? "adapters instead of whole weights" : "half of " + size->name,
        {{{size->name, value}}, {{size->key, value}}, outcome}, now);
    technique.changes_numerics = true;
    if (!technique.saved.empty()) out.push_back(std::move(technique));
  }
  return out;
}

}  // namespace headroom::cli
