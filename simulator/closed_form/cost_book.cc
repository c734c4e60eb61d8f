#include "simulator/closed_form/cost_book.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "simulator/job/actions.h"
#include "simulator/job/batching.h"

namespace headroom::closed_form {
namespace {

/// `role` itself and those that live on its weights.
std::vector<Role> roles_on(const Job& job, const Role& role) {
  std::vector<Role> out = {role};
  for (const Role& other : job.roles)
    if (other.shares_weights_of == role.name) out.push_back(other);
  return out;
}

/// With the role that scores within their updates.
std::vector<Role> with_reference(const Job& job, std::vector<Role> roles) {
  if (const Role* reference = job.role(roles.front().loss.reference)) roles.push_back(*reference);
  return roles;
}

bool among(const std::vector<Role>& roles, const std::string& name) {
  return std::any_of(roles.begin(), roles.end(), [&](const Role& role) { return role.name == name; });
}

/// The job without names, other roles, engines' sizes: what the role's program can see.
Job skeleton(const Job& job, const Process& process, const std::vector<Role>& roles) {
  Job out;
  out.algorithm = job.algorithm;
  out.pools = job.pools;
  out.roles = roles;
  for (const Engine& engine : job.engines) {
    Engine seen;
    seen.name = engine.name;
    seen.kind = EngineKind::vllm;
    seen.sync = engine.sync;
    out.engines.push_back(std::move(seen));
  }
  Process trainer;
  trainer.name = process.name;
  trainer.pool = process.pool;
  for (const Role& role : roles) trainer.roles.push_back(role.name);
  out.processes = {trainer};
  out.batch = job.batch;
  out.steps = job.steps;
  out.resumed = job.resumed;
  return out;
}

std::vector<PhaseSpec> actions_of(const std::vector<PhaseSpec>& phases, const std::vector<Role>& roles) {
  std::vector<PhaseSpec> out;
  for (const PhaseSpec& phase : phases) {
    PhaseSpec kept;
    kept.when = phase.when;
    for (const Action& action : phase.actions)
      if (among(roles, action.role) && costs_something(action.verb)) kept.actions.push_back(action);
    if (!kept.actions.empty()) out.push_back(std::move(kept));
  }
  return out;
}

/// Settings that decide only what a forward or backward holds for the moment.
void forget_passing(Role& role) {
  role.loss = {};
  role.recompute = {};
  role.activation_offload = false;
  role.train = role.forward = {.sequences = 1};
  role.packed = true;
  role.mini_batch = 0;
  role.epochs = 1;
}

/// Settings that only the node's host sees.
void forget_loading(Role& role) {
  role.loads_on_every_rank = role.model_in_shared_memory = false;
}

Job residency_part(const Job& job, const Process& process, const std::vector<Role>& roles) {
  Job out = skeleton(job, process, roles);
  out.start = actions_of(job.start, roles);
  out.step = actions_of(job.step, roles);
  for (Role& role : out.roles) {
    forget_passing(role);
    forget_loading(role);
    role.parallel.ulysses = 1;
  }
  // One short sequence a rank: one micro-batch, one optimizer step.
  constexpr std::int64_t kShort = 8;
  out.batch = {};
  out.batch.prompts = out.batch.mini_batch = ranks_of(job, roles.front());
  out.batch.prompt_length = out.batch.response_length = kShort;
  return out;
}

/// The role's first forward in the step, if it has one.
std::optional<Action> forward_of(const Job& job, const std::vector<Role>& roles) {
  for (const PhaseSpec& phase : job.step)
    for (const Action& one : phase.actions)
      if (one.verb == Verb::forward && among(roles, one.role))
        return role_action(Verb::forward, one.role, one.output);
  return std::nullopt;
}

bool trains(const Job& job, const Role& role) {
  for (const PhaseSpec& phase : job.step)
    for (const Action& one : phase.actions)
      if (one.verb == Verb::train && one.role == role.name) return true;
  return false;
}

/// Two steps of a pass over the real micro-batches, wherever weights and states lie between them.
Job pass_part(const Job& job, const Process& process, const std::vector<Role>& roles) {
  Job out = skeleton(job, process, roles);
  out.steps = 2;
  out.engines.resize(std::min<std::size_t>(1, out.engines.size()));
  for (Engine& engine : out.engines) engine.sync = {};
  for (Role& role : out.roles) {
    role.offload_pinned = true;
    forget_loading(role);
  }
  return out;
}

Job forward_part(const Job& job, const Process& process, const std::vector<Role>& roles,
                 const Action& forward) {
  Job out = pass_part(job, process, roles);
  out.resumed = false;
  for (Role& role : out.roles) {
    role.optimizer = {};
    role.recompute = {};
    role.activation_offload = false;
    role.train = {.sequences = 1};
    role.mini_batch = 0;
    role.epochs = 1;
    role.loss.train_entropy = Entropy::none;
    role.loss.reference.clear();
    role.loss.keeps_logits = role.loss.kl = role.loss.sum_pi_squared = false;
    role.loss.keeps_outputs = role.loss.keeps_unused_graph = role.loss.entropy_recomputed = false;
    role.sharding.defer_gradient_sync = false;
  }
  out.batch.mini_batch = 0;
  out.batch.epochs = 1;
  out.start = {make_phase(PhaseKind::init, {role_action(Verb::build, roles.front().name)})};
  out.step = {make_phase(PhaseKind::init, {forward})};
  return out;
}

Job training_part(const Job& job, const Process& process, const std::vector<Role>& roles,
                  const std::optional<Action>& forward) {
  Job out = pass_part(job, process, roles);
  for (Role& role : out.roles) {
    if (role.name != roles.front().loss.reference) role.forward = {.sequences = 1};
    role.loss.logprob_entropy = Entropy::none;
  }
  const std::string& name = roles.front().name;
  out.start = {make_phase(PhaseKind::init,
                          {role_action(Verb::build, name), role_action(Verb::build_optimizer, name)})};
  // What another role holds while it scores between forward and backward is part of the update; what it holds at rest
  // is its own.
  const std::string& reference = roles.front().loss.reference;
  if (!reference.empty()) out.start.front().actions.push_back(role_action(Verb::build, reference));
  if (job.resumed) out.start.front().actions.push_back(role_action(Verb::create_states, name));
  out.step = {make_phase(PhaseKind::init)};
  // A forward leaves what training then finds: a gathered root, library workspaces.
  if (forward) out.step.front().actions.push_back(*forward);
  out.step.front().actions.push_back(role_action(Verb::train, name));
  return out;
}

/// The actions of a part's steps.
std::vector<ActionCost> in_steps(const Job& part, std::vector<ActionCost> all) {
  all.erase(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(part.start.front().actions.size()));
  return all;
}

std::size_t mix(std::size_t seed, std::int64_t value) {
  return seed ^ (std::hash<std::int64_t>{}(value) + 0x9e3779b97f4a7c15ull + (seed << 6) + (seed >> 2));
}

/// Of the settings that a search turns most; equality decides.
std::size_t hash_of(const Job& job) {
  std::size_t seed = job.step.size();
  for (const PhaseSpec& phase : job.step)
    for (const Action& one : phase.actions)
      seed = mix(seed, static_cast<std::int64_t>(one.verb) * 64 + one.parts);
  for (const Role& role : job.roles)
    for (const std::int64_t value :
         {static_cast<std::int64_t>(role.name.size()), role.train.tokens, role.train.sequences,
          role.forward.tokens, role.forward.sequences, role.parallel.ulysses,
          static_cast<std::int64_t>(role.parallel.sequence), role.sharding.group,
          static_cast<std::int64_t>(role.sharding.kind),
          static_cast<std::int64_t>(role.sharding.reshard_after_forward),
          static_cast<std::int64_t>(role.sharding.cpu_offload),
          static_cast<std::int64_t>(role.recompute.kind), static_cast<std::int64_t>(role.activation_offload),
          static_cast<std::int64_t>(role.loss.token_logprob), role.loss.entropy_chunk, role.loss.chunk})
      seed = mix(seed, value);
  return seed;
}

}  // namespace

bool costs_something(Verb verb) {
  return verb != Verb::expandable_on && verb != Verb::expandable_off;
}

Result<RoleCosts::Part> CostBook::find(Job part, std::int64_t rank, bool steps_alone) {
  std::shared_ptr<Entry> entry;
  {
    const std::lock_guard lock(mutex_);
    std::vector<std::shared_ptr<Entry>>& bucket = entries_[hash_of(part)];
    const auto known = std::find_if(bucket.begin(), bucket.end(),
                                    [&](const auto& one) { return one->rank == rank && one->job == part; });
    if (known != bucket.end()) {
      entry = *known;
    } else {
      entry = std::make_shared<Entry>();
      entry->job = std::move(part);
      entry->rank = rank;
      bucket.push_back(entry);
    }
  }
  std::call_once(entry->once, [&] {
    ++programs_run_;
    Result<std::vector<ActionCost>> costs = action_costs(entry->job, hardware_, entry->rank);
    if (costs) {
      entry->costs = std::make_shared<const std::vector<ActionCost>>(
          steps_alone ? in_steps(entry->job, std::move(*costs)) : std::move(*costs));
    } else {
      entry->costs = tl::unexpected(costs.error());
    }
  });
  return entry->costs;
}

Result<RoleCosts> CostBook::costs(const Job& job, const Process& process, const Role& role, std::int64_t rank,
                                  RolePasses passes) {
  const std::vector<Role> roles = roles_on(job, role);
  RoleCosts out;
  HEADROOM_ASSIGN(out.residency, find(residency_part(job, process, roles), rank, false));
  const std::optional<Action> forward = forward_of(job, roles);
  out.trains = trains(job, role);
  if (forward && passes.forward) {
    HEADROOM_ASSIGN(out.forward, find(forward_part(job, process, roles, *forward), rank, true));
  }
  if (out.trains && passes.training) {
    HEADROOM_ASSIGN(out.training, find(training_part(job, process, with_reference(job, roles), forward), rank, true));
  }
  return out;
}

}  // namespace headroom::closed_form
