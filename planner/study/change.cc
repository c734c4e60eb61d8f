#include "planner/study/change.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "models/base/nearest.h"
#include "planner/study/emptying.h"
#include "simulator/allocator/simulated_settings.h"
#include "simulator/job/actions.h"
#include "simulator/job/loop_kind.h"

namespace headroom::study {
namespace {

bool is_fsdp(const Role& role) {
  return role.sharding.kind == ShardingKind::fsdp1 || role.sharding.kind == ShardingKind::fsdp2;
}

bool flag(const Change& change) {
  return Document::scalar(change.value).as_bool().value_or(false);
}

std::int64_t number(const Change& change) {
  return Document::scalar(change.value).as_int().value_or(0);
}

tl::unexpected<Error> needs(std::string what) {
  return fail("expected " + what + ", which this job has not");
}

/// Every role that `which` picks is changed by `how`; none picked is an error.
template <typename Which, typename How>
Result<Job> with_roles(Job job, const char* what, Which which, How how) {
  bool any = false;
  for (Role& role : job.roles)
    if (which(role)) {
      how(role);
      any = true;
    }
  if (!any) return needs(what);
  return job;
}

bool is_trained(const Role& role) {
  return role.trained;
}

// --- Sharding and offload

Result<Job> with_zero(Job job, const Change& change) {
  constexpr ShardingKind kKinds[] = {ShardingKind::zero0, ShardingKind::zero1, ShardingKind::zero2,
                                     ShardingKind::zero3};
  const std::int64_t stage = number(change);
  return with_roles(
      std::move(job), "roles under DeepSpeed",
      [](const Role& role) { return is_zero(role.sharding.kind); },
      [&](Role& role) {
        // Engines that only evaluate are spread at stage 3, else not at all.
        role.sharding.kind = role.trained || stage == 3 ? kKinds[stage] : ShardingKind::zero0;
      });
}

Result<Job> with_offloaded_optimizer(Job job, const Change& change) {
  const bool on = flag(change);
  return with_roles(
      std::move(job), "trained roles under ZeRO 1 to 3",
      [](const Role& role) {
        return role.trained && is_zero(role.sharding.kind) && role.sharding.kind != ShardingKind::zero0;
      },
      [&](Role& role) {
        role.sharding.offload_optimizer = on;
        role.optimizer.implementation = on ? OptimizerImplementation::cpu : OptimizerImplementation::apex;
      });
}

Result<Job> with_offloaded_parameters(Job job, const Change& change) {
  const bool on = flag(change);
  return with_roles(
      std::move(job), "roles under ZeRO-3 or FSDP",
      [](const Role& role) { return role.sharding.kind == ShardingKind::zero3 || is_fsdp(role); },
      [&](Role& role) {
        if (is_fsdp(role))
          role.sharding.cpu_offload = on;
        else if (role.trained)
          role.sharding.offload_parameters = on;
      });
}

Result<Job> with_reshard(Job job, const Change& change) {
  return with_roles(std::move(job), "roles under FSDP", is_fsdp,
                    [&](Role& role) { role.sharding.reshard_after_forward = flag(change); });
}

// --- What is trained, and how

Result<Job> with_recompute(Job job, const Change& change) {
  return with_roles(std::move(job), "trained roles", is_trained, [&](Role& role) {
    role.recompute.kind = change.value == "full" ? RecomputeKind::full : RecomputeKind::none;
  });
}

Result<Job> with_lora(Job job, const Change& change) {
  return with_roles(std::move(job), "trained roles", is_trained, [&](Role& role) {
    role.lora = LoraSpec{.rank = number(change), .targets = {"all-linear"}, .saved_modules = {}};
  });
}

Result<Job> with_allocator(Job job, const Change& change) {
  bool any = false;
  for (Process& process : job.processes)
    if (!process.roles.empty() || process.engine.empty()) {
      process.allocator_settings = change.value;
      any = true;
    }
  if (!any) return needs("a training process");
  return job;
}

/// The second step: the scalar model alone, on rows of which the first half is preferred to the second.
Result<Job> with_reward_model(Job job, const Change& change) {
  if (!flag(change)) return job;
  const auto scalar = [](const Role& role) { return role.head != HeadKind::language_model; };
  auto found = std::find_if(job.roles.begin(), job.roles.end(),
                            [&](const Role& role) { return scalar(role) && role.trained; });
  if (found == job.roles.end()) found = std::find_if(job.roles.begin(), job.roles.end(), scalar);
  if (found == job.roles.end()) return needs("a scalar model");
  Role role = *found;
  role.trained = role.training_mode_forward = true;
  role.loop = nullptr;
  role.packed = false;
  job.algorithm = Algorithm::reward_model;
  job.batch.samples *= 2;
  job.batch.mini_batch *= 2;
  const auto elsewhere = [&](const std::string& name) { return name != role.name; };
  for (Process& process : job.processes) std::erase_if(process.roles, elsewhere);
  std::erase_if(job.processes, [](const Process& process) { return process.roles.empty(); });
  for (Process& process : job.processes) process.engine.clear();
  job.engines.clear();
  PhaseSpec init = make_phase(PhaseKind::init, {role_action(Verb::build, role.name),
                                                role_action(Verb::build_optimizer, role.name)});
  job.start = {init};
  job.step = {between_phases({role_action(Verb::take_prompts, role.name), role_action(Verb::generate, role.name),
                              role_action(Verb::drop_prompts, role.name)}),
              make_phase(PhaseKind::train_critic, {role_action(Verb::train, role.name)}),
              between_phases({role_action(Verb::end_step, role.name)})};
  job.roles = {std::move(role)};
  return job;
}

// --- EMS

/// Parts of `role` that `phase` works with.
unsigned parts_of(const Job& job, const PhaseSpec& phase, const Role& role) {
  unsigned parts = 0;
  for (const Action& action : phase.actions)
    if (action.role == role.name) {
      parts |= parts_needed(action, &role);
      const ModelWork work = model_work(action, &role);
      if (work == ModelWork::generate) parts |= kWeights;
    }
  static_cast<void>(job);
  return parts & (kWeights | kOptimizer);
}

Result<Job> with_ems(Job job, const Change& change) {
  if (!flag(change)) return job;
  PhaseSpec away = between_phases(empty_actions(job));
  for (const Role& role : job.roles) {
    away.actions.push_back(parts_action(Verb::offload, role.name, kWeights));
    away.actions.push_back(role_action(Verb::empty_cache, role.name));
  }
  for (PhaseSpec& phase : job.step) {
    std::vector<Action> before, after;
    for (const Role& role : job.roles) {
      const unsigned parts = parts_of(job, phase, role);
      if ((parts & kWeights) == 0) continue;
      before.push_back(parts_action(Verb::load, role.name, kWeights));
      if ((parts & kOptimizer) != 0) {
        Action states = parts_action(Verb::load, role.name, kOptimizer);
        states.from_step_one = true;
        before.push_back(states);
        after.push_back(parts_action(Verb::offload, role.name, kOptimizer));
      }
      after.push_back(parts_action(Verb::offload, role.name, kWeights));
      after.push_back(role_action(Verb::empty_cache, role.name));
    }
    phase.actions.insert(phase.actions.begin(), before.begin(), before.end());
    phase.actions.insert(phase.actions.end(), after.begin(), after.end());
  }
  job.start.push_back(std::move(away));
  return job;
}

// --- The table

Status is_flag(const Document& value) {
  if (value.as_bool()) return {};
  return fail(fmt::format("expected true or false, found '{}'", value.text()));
}
Status is_stage(const Document& value) {
  const auto stage = value.as_int();
  if (stage && *stage >= 0 && *stage <= 3) return {};
  return fail(fmt::format("expected 0 to 3, found '{}'", value.text()));
}
Status is_rank(const Document& value) {
  const auto rank = value.as_int();
  if (rank && *rank >= 1 && *rank <= 4096) return {};
  return fail(fmt::format("expected a rank from 1 to 4096, found '{}'", value.text()));
}
Status is_recompute(const Document& value) {
  if (value.text() == "none" || value.text() == "full") return {};
  return fail(fmt::format("expected none or full, found '{}'", value.text()));
}
Status is_conf(const Document& value) {
  const auto settings = allocator::parse_simulated_settings(value.text());
  if (settings) return {};
  return fail(settings.error().key + (settings.error().key.empty() ? "" : ": ") + settings.error().message);
}

struct Kind {
  std::string_view name;
  Status (*check)(const Document&);
  Result<Job> (*make)(Job, const Change&);
};
constexpr std::array<Kind, 9> kKinds = {{
    {"zero", is_stage, with_zero},
    {"offload_optimizer", is_flag, with_offloaded_optimizer},
    {"offload_parameters", is_flag, with_offloaded_parameters},
    {"recompute", is_recompute, with_recompute},
    {"lora", is_rank, with_lora},
    {"allocator", is_conf, with_allocator},
    {"ems", is_flag, with_ems},
    {"reward_model", is_flag, with_reward_model},
    {"reshard_after_forward", is_flag, with_reshard},
}};

const Kind* find_kind(std::string_view name) {
  const auto at = std::find_if(kKinds.begin(), kKinds.end(), [&](const Kind& kind) { return kind.name == name; });
  return at == kKinds.end() ? nullptr : &*at;
}

}  // namespace

std::span<const std::string_view> change_kinds() {
  static const std::vector<std::string_view> names = [] {
    std::vector<std::string_view> out;
    for (const Kind& kind : kKinds) out.push_back(kind.name);
    return out;
  }();
  return names;
}

Result<Change> make_change(std::string kind, const Document& value) {
  const Kind* known = find_kind(kind);
  if (known == nullptr) {
    const std::string near = nearest(kind, change_kinds());
    return fail(fmt::format("unknown change{}", near.empty() ? "" : "; nearest is " + near));
  }
  if (!value.is_scalar()) return fail("expected one value");
  HEADROOM_TRY(known->check(value));
  return Change{.kind = std::move(kind), .value = value.text(), .line = value.line()};
}

Result<Job> changed(Job job, const Change& change) {
  return find_kind(change.kind)->make(std::move(job), change);
}

}  // namespace headroom::study
