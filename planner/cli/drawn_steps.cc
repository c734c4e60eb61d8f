#include "planner/cli/drawn_steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "models/base/parallel.h"
#include "planner/configuration/listed_batches.h"
#include "simulator/device/verdict.h"
#include "simulator/job/batching.h"
#include "simulator/job/response_lengths.h"
#include "simulator/phases/device_run.h"

namespace headroom::cli {
namespace {

constexpr std::size_t kRuns = 4;  // of the job, which share the steps
constexpr int kEnough = 8;  // steps of a run that run out: how many more do changes no decision
constexpr int kParts = 1000;  // of the distribution of lengths
constexpr std::int64_t kMostRanks = 64;  // that are drawn for: the largest of more is hardly larger

/// Lengths of sequences, prompt and response.
class Draw {
 public:
  Draw(const Batch& caps, const Lengths& lengths) {
    const auto cap = static_cast<double>(caps.response_length);
    prompt_ = lengths.mean_prompt > 0 ? std::min(caps.prompt_length, static_cast<std::int64_t>(std::ceil(lengths.mean_prompt)))
                                      : caps.prompt_length;
    longest_ = lengths.max_total > prompt_ ? std::min(cap, static_cast<double>(lengths.max_total - prompt_)) : cap;
    mean_ = lengths.mean_response > 0 ? std::min(lengths.mean_response, longest_) : longest_;
    if (lengths.spread > 0)
      gamma_ = std::gamma_distribution<double>(mean_ * mean_ / (lengths.spread * lengths.spread),
                                               lengths.spread * lengths.spread / mean_);
    else
      quantiles_ = response_quantiles(mean_, longest_, kParts);
  }

  bool varies() const { return mean_ < longest_; }

  std::int64_t next(std::mt19937_64& random) {
    const double response = gamma_ ? (*gamma_)(random) : quantiles_[random() % quantiles_.size()];
    return prompt_ + std::max<std::int64_t>(1, std::llround(std::min(response, longest_)));
  }

 private:
  std::int64_t prompt_ = 0;
  double longest_ = 0, mean_ = 0;
  std::optional<std::gamma_distribution<double>> gamma_;
  std::vector<double> quantiles_;
};

bool passes(const Action& action) {
  return action.verb == Verb::forward || action.verb == Verb::train;
}

/// Roles that run batches pack them, so that lengths decide.
bool lengths_decide(const Job& job) {
  bool any = false;
  for (const PhaseSpec& phase : job.step)
    for (const Action& action : phase.actions) {
      const Role* role = job.role(action.role);
      if (role == nullptr || !passes(action)) continue;
      if (!role->packed || lies_padded(job, *role) || role->loop != nullptr) return false;
      any = true;
    }
  return any;
}

std::int64_t largest(const ListedBatches& batches) {
  std::int64_t most = 0;
  for (const std::vector<std::int64_t>& batch : batches.micro_batches) {
    std::int64_t tokens = 0;
    for (const std::int64_t length : batch) tokens += length;
    most = std::max(most, tokens);
  }
  return most;
}

/// The action's batches in a step of these sequences, on the rank that has the largest one.
ListedBatches heaviest(const Job& job, const Role& role, const Action& action, std::span<const std::int64_t> sequences) {
  const std::int64_t ranks = data_parallel_size(job, role);
  const auto mine = static_cast<std::size_t>(std::max<std::int64_t>(1, job.batch.sequences() / ranks));
  ListedBatches out;
  for (std::int64_t rank = 0; rank < std::min(ranks, kMostRanks); ++rank) {
    const std::size_t first = static_cast<std::size_t>(rank) * mine;
    if (first + mine > sequences.size()) break;
    ListedBatches one = cut_batches(job, role, action, 0, sequences.subspan(first, mine));
    if (out.micro_batches.empty() || largest(one) > largest(out)) out = std::move(one);
  }
  return out;
}

/// A step's batches, of every pass.
using Step = std::vector<ListedBatches>;

Step drawn_step(const Job& job, Draw& draw, std::mt19937_64& random) {
  std::vector<std::int64_t> sequences(static_cast<std::size_t>(std::max<std::int64_t>(1, job.batch.sequences())));
  for (std::int64_t& one : sequences) one = draw.next(random);
  Step out;
  for (const PhaseSpec& phase : job.step)
    for (const Action& action : phase.actions)
      if (const Role* role = job.role(action.role); role != nullptr && passes(action))
        out.push_back(heaviest(job, *role, action, sequences));
  return out;
}

/// What the steps of one run came to. `stopped_at`: the step in which a process ran out; none: all were run.
std::optional<int> note(const Report& report, DrawnSteps& out) {
  std::optional<int> stopped_at;
  std::string where;
  std::map<int, std::int64_t> retries;  // of all steps up to each
  for (const DeviceReport& device : report.devices)
    for (const PhaseReport& phase : device.phases) {
      if (runs_out(phase) && (!stopped_at || phase.step < *stopped_at)) {
        stopped_at = phase.step;
        where = phase.phase;
      }
      for (const ProcessPhase& process : phase.processes)
        retries[phase.step] = std::max(retries[phase.step], process.retries);
    }
  if (stopped_at) {
    ++out.ran_out;
    ++out.phases[where];
  }
  std::int64_t before = 0;
  for (const auto& [step, sum] : retries) {
    if (stopped_at && step >= *stopped_at) break;
    if (step >= 0 && sum > before) {
      ++out.gave_back;
      out.retries += sum - before;
    }
    before = std::max(before, sum);
  }
  return stopped_at;
}

/// The steps one after the other. Nothing where the job does not get as far as to its first step.
Result<std::optional<DrawnSteps>> run_steps(const Job& job, const Hardware& hardware, std::span<const Step> steps) {
  DrawnSteps out;
  const auto all = static_cast<int>(steps.size());
  while (out.steps < all && out.ran_out < kEnough) {
    Job run = job;
    run.steps = all - out.steps;
    run.lengths = {};
    for (int step = 0; step < run.steps; ++step)
      for (ListedBatches one : steps[static_cast<std::size_t>(out.steps + step)]) {
        one.step = step;
        run.lengths.listed.push_back(std::move(one));
      }
    HEADROOM_ASSIGN(const Report report, run_on_device(run, hardware, Fidelity::every_allocation));
    const std::optional<int> stopped_at = note(report, out);
    if (stopped_at && *stopped_at < 0) return std::nullopt;
    out.steps += stopped_at ? *stopped_at + 1 : run.steps;
  }
  return out;
}

}  // namespace

Result<std::optional<DrawnSteps>> draw_steps(const Job& job, const Lengths& lengths, const Hardware& hardware, Bytes room,
                                             int steps) {
  Draw draw(job.batch, lengths);
  if (!lengths.listed.empty() || !draw.varies() || !lengths_decide(job)) return std::nullopt;
  std::mt19937_64 random(1);
  std::vector<Step> drawn;
  for (int step = 0; step < steps; ++step) drawn.push_back(drawn_step(job, draw, random));
  Job run = job;
  run.device_memory = job.device_memory > 0 ? std::min(room, job.device_memory) : room;
  std::vector<Result<std::optional<DrawnSteps>>> parts(kRuns, DrawnSteps{});
  parallel_for(kRuns, 0, [&](std::size_t i) {
    const std::size_t first = drawn.size() * i / kRuns, last = drawn.size() * (i + 1) / kRuns;
    parts[i] = run_steps(run, hardware, std::span(drawn).subspan(first, last - first));
  });
  DrawnSteps out;
  for (const Result<std::optional<DrawnSteps>>& part : parts) {
    if (!part) return tl::unexpected(part.error());
    if (!*part) return std::nullopt;
    out.steps += (*part)->steps;
    out.ran_out += (*part)->ran_out;
    out.gave_back += (*part)->gave_back;
    out.retries += (*part)->retries;
    for (const auto& [phase, count] : (*part)->phases) out.phases[phase] += count;
  }
  return out;
}

std::string text(const DrawnSteps& drawn) {
  std::string out = fmt::format("{} of {} steps with drawn lengths run out of memory", drawn.ran_out, drawn.steps);
  std::string where;
  for (const auto& [phase, count] : drawn.phases) where += fmt::format("{}{} {}", where.empty() ? "" : ", ", phase, count);
  if (!where.empty()) out += " (" + where + ")";
  if (drawn.gave_back > 0)
    out += fmt::format(", {}{} give cached memory back ({} times)", drawn.gave_back, drawn.ran_out > 0 ? " more" : "", drawn.retries);
  return out;
}

}  // namespace headroom::cli
