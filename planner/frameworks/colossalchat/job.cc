#include "planner/frameworks/colossalchat/job.h"

#include <fmt/format.h>

#include <algorithm>

namespace headroom::colossalchat {
namespace {

/// Prompts of Coati's benchmark, and its sequences.
constexpr std::int64_t kBenchmarkPrompt = 256, kBenchmarkLength = 512;
/// Prompts of the first release that has --max_input_len, whatever it says.
constexpr std::int64_t kFirstPrompt = 96;

Algorithm algorithm_of(Program program) {
  switch (program) {
    case Program::grpo:
      return Algorithm::grpo;
    case Program::sft:
      return Algorithm::sft;
    case Program::rm:
      return Algorithm::reward_model;
    case Program::dpo:
    case Program::orpo:
    case Program::kto:
      return Algorithm::dpo;
    default:
      return Algorithm::ppo;
  }
}

}  // namespace

std::int64_t Settings::prompt() const {
  if (program == Program::benchmark) return kBenchmarkPrompt;
  if (!rl()) return total_length;
  if (!coati()) return total_length - response_length;
  return since(0, 3, 3) ? prompt_length : kFirstPrompt;
}

std::int64_t Settings::response() const {
  if (program == Program::benchmark) return kBenchmarkLength - kBenchmarkPrompt;
  if (!rl()) return 0;
  return coati() ? total_length - prompt() : response_length;
}

bool Settings::wide_logits() const {
  const auto known = parse_version(versions.transformers);
  return !known || *known < settings::Release{4, 45, 0};
}

bool Settings::moves_inference() const {
  if (!rl() || gemini()) return false;
  if (program == Program::benchmark) return offloads_inference;
  return since(0, 3, 0);
}

Result<Job> make_job(const Settings& s) {
  if (auto problem = find_problem(s))
    return fail(Error{.message = std::move(problem->message), .file = {}, .key = std::move(problem->key)});
  Job job;
  job.framework = "colossalchat";
  job.algorithm = algorithm_of(s.program);
  job.versions = s.versions;
  job.gpu = s.gpu;
  job.pools.push_back({.name = "main", .nodes = s.nodes, .gpus_per_node = s.gpus});
  job.roles = make_roles(s);
  Process trainer;
  trainer.name = "trainer";
  for (const Role& role : job.roles) trainer.roles.push_back(role.name);
  // The world's group; plugins of several parts have groups of their own.
  trainer.communicators = s.nodes * s.gpus > 1 ? 1 + (s.parallel() ? (s.tensor > 1) + (s.pipeline > 1) + 1 : 0) : 0;
  job.processes.push_back(std::move(trainer));
  const std::int64_t ranks = s.data_ranks(), rows = s.rows_a_sample();
  if (s.rl()) {
    Engine generation;
    generation.model = s.model;
    job.engines.push_back(std::move(generation));
    job.batch.prompts = s.buffer() * ranks;
    job.batch.epochs = s.updates;
  } else {
    job.batch.prompts = s.train_batch * rows * s.accumulation * ranks;
  }
  job.batch.mini_batch = std::min(s.train_batch * rows * s.accumulation * ranks, job.batch.sequences());
  job.batch.prompt_length = s.prompt();
  job.batch.response_length = s.response();
  for (Role& role : job.roles) role.mini_batch = job.batch.mini_batch;
  job.start = make_start(s);
  job.step = make_step(s);
  job.steps = s.steps;
  job.resumed = s.resumed;
  job.assumptions = s.assumptions;
  if (s.rl() && s.accumulation > 1)
    job.assumptions.emplace_back("an episode's last update completes an optimizer step");
  job.not_modelled = s.not_modelled;
  HEADROOM_TRY(validate_job(job));
  return job;
}

}  // namespace headroom::colossalchat
