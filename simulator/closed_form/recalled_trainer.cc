#include "simulator/closed_form/recalled_trainer.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "simulator/closed_form/trainer_books.h"

namespace headroom::closed_form {
namespace {

/// Passes over micro-batches.
using Passes = std::set<std::pair<Verb, std::string>>;

class RecalledTrainer final : public TrainerProcess {
 public:
  /// Without `passes` all run, and reserved memory stays until something empties the cache.
  RecalledTrainer(const Job& job, const Process& process, CostBook& book, std::int64_t rank,
                  std::optional<Passes> passes)
      : job_(job), process_(process), book_(book), rank_(rank), passes_(std::move(passes)) {}

  Status act(const Action& action, int step) override {
    if (action.role.empty() && action.verb == Verb::empty_cache) books_.hold(live(), host(), true);
    if (action.role.empty() || !costs_something(action.verb)) return {};
    HEADROOM_ASSIGN(Unit * unit, unit_of(action.role));
    const std::vector<ActionCost>& residency = *unit->costs.residency;
    if (unit->next == residency.size()) return fail("an action that the cost book does not know");
    const ActionCost& cost = residency[unit->next++];
    Bytes rise = cost.rise, active_rise = cost.active_rise, host_rise = cost.host_rise;
    Seconds seconds = cost.seconds;
    const ActionCost* real = on_real_batch(action, step, *unit);
    if (real != nullptr) {
      // What the record found gathered and this run does not (it was offloaded since) is gathered again.
      const Bytes again = real->gathered - unit->held[Component::gathered_parameters];
      // Of the buffer that the record grew, this run has a part already.
      Bytes there = 0;
      if (unit->shares_buffer) {
        there = std::min(buffer_ - real->buffered, real->held[Component::communication] - real->buffered);
        buffer_ = std::max(buffer_, real->held[Component::communication]);
      }
      rise = std::max(rise, real->rise + std::max<Bytes>(0, again) - there);
      active_rise = std::max(active_rise, rise + waiting(action, *real, *unit));
      host_rise = std::max(host_rise, real->host_rise);  // offloaded activations
      seconds = real->seconds;
    }
    // What the last pass left goes as the next one begins.
    if (real != nullptr) {
      unit->left = {};
      books_.hold(live(), host(), !keeps_cache());
    }
    Breakdown peak = live(), host_peak = books_.host();
    peak[Component::temporaries] += rise;
    host_peak[Component::staging] += host_rise;
    books_.reach(peak, active_rise, host_peak);
    if (action.verb == Verb::offload && (action.parts & kOptimizer) != 0) buffer_ = 0;
    if (real != nullptr) unit->left = left_by(*real, cost, action.verb == Verb::train);
    unit->held = cost.held;
    unit->host_held = cost.host_held;
    books_.hold(live(), host(), cost.empties_cache || !keeps_cache(), keeps_cache() ? cost.cached : 0);
    seconds_ += seconds;
    return {};
  }

  State now() const override { return books_.now(); }
  Piece take_piece() override { return books_.take_piece(); }
  Seconds take_seconds() override { return std::exchange(seconds_, Seconds{}); }

 private:
  /// A role with those on its weights, as far as the run has come.
  struct Unit {
    RoleCosts costs;
    std::size_t next = 0;       ///< action of `residency`
    std::size_t trainings = 0;  ///< one stands for more
    bool forwarded = false;
    bool shares_buffer = false;  ///< Megatron-Core's, one a process
    Breakdown held, host_held;
    Breakdown left;  ///< by the last pass over the real micro-batches, beyond what a tiny one leaves
  };

  /// What a pass leaves grows with its micro-batches: a schedule's last outputs, the graph that hangs on
  /// them. Gradients of activations are among it after a training; elsewhere the two differ in where weights'
  /// gradients lie.
  static Breakdown left_by(const ActionCost& real, const ActionCost& tiny, bool training) {
    Breakdown left;
    const auto add = [&](Component component) {
      left[component] = std::max<Bytes>(0, real.held[component] - tiny.held[component]);
    };
    for (const Component component :
         {Component::activations, Component::logits, Component::temporaries, Component::other})
      add(component);
    if (training) add(Component::gradients);
    return left;
  }

  Result<Unit*> unit_of(const std::string& name) {
    const Role* role = job_.role(name);
    if (role == nullptr) return fail("no role is named " + name);
    const std::string& owner = role->shares_weights_of.empty() ? name : role->shares_weights_of;
    const auto known = units_.find(owner);
    if (known != units_.end()) return &known->second;
    const Role* whole = job_.role(owner);
    if (whole == nullptr) return fail("no role is named " + owner);
    Unit unit;
    HEADROOM_ASSIGN(unit.costs, book_.costs(job_, process_, *whole, rank_, wanted(owner)));
    unit.shares_buffer = whole->sharding.kind == ShardingKind::megatron;
    return &units_.emplace(owner, std::move(unit)).first->second;
  }

  /// Bytes that wait for another stream at the peak of a pass. How many units are in flight depends on the
  /// pass before: behind a training more may be.
  static Bytes waiting(const Action& action, const ActionCost& real, const Unit& unit) {
    const auto at = [](const ActionCost& cost) { return cost.active_rise - cost.rise; };
    const bool follows =
        action.verb == Verb::forward && unit.trainings > 0 && unit.costs.training->size() == 4;
    return follows ? std::max(at(real), at((*unit.costs.training)[2])) : at(real);
  }

  bool keeps_cache() const { return !passes_; }

  /// Which passes of a role and of those on its weights are asked for.
  RolePasses wanted(const std::string& owner) const {
    if (!passes_) return {};
    RolePasses out{.forward = false, .training = false};
    for (const auto& [verb, name] : *passes_) {
      const Role* role = job_.role(name);
      if (name != owner && (role == nullptr || role->shares_weights_of != owner)) continue;
      (verb == Verb::train ? out.training : out.forward) = true;
    }
    return out;
  }

  /// The record of a pass over the real micro-batches; null for other actions.
  static const ActionCost* on_real_batch(const Action& action, int step, Unit& unit) {
    if (action.from_step_one && step < 1) return nullptr;
    if (action.verb == Verb::train && unit.costs.training)
      return &unit.costs.training_pass(std::exchange(unit.trainings, 1));
    if (action.verb == Verb::forward && unit.costs.forward) {
      const ActionCost &first = (*unit.costs.forward)[0], &second = (*unit.costs.forward)[1];
      const bool ran = std::exchange(unit.forwarded, true);
      // What an earlier forward left gathered goes in a training, or is offloaded.
      const Bytes gathered = unit.held[Component::gathered_parameters];
      const auto off = [&](const ActionCost& cost) { return std::abs(cost.gathered - gathered); };
      if (off(first) != off(second)) return off(first) < off(second) ? &first : &second;
      return unit.costs.trains || !ran ? &first : &second;
    }
    return nullptr;
  }

  /// What all roles hold; libraries' workspaces and the communication buffer once, for the process has one of
  /// each.
  Breakdown live() const {
    Breakdown sum;
    Bytes workspaces = 0;
    for (const auto& [name, unit] : units_) {
      sum += unit.held;
      sum += unit.left;
      workspaces = std::max(workspaces, unit.held[Component::workspaces]);
    }
    sum[Component::workspaces] = workspaces;
    sum[Component::communication] = std::max(sum[Component::communication], buffer_);
    return sum;
  }

  Breakdown host() const {
    Breakdown sum;
    for (const auto& [name, unit] : units_) sum += unit.host_held;
    return sum;
  }

  const Job& job_;
  const Process& process_;
  CostBook& book_;
  std::int64_t rank_;
  std::optional<Passes> passes_;
  std::map<std::string, Unit> units_;
  TrainerBooks books_;
  Bytes buffer_ = 0;  ///< that passes grow and leave, until the optimizer is offloaded
  Seconds seconds_;
};

}  // namespace

bool recalls(const Job& job) {
  const bool engines = std::any_of(job.engines.begin(), job.engines.end(), [](const Engine& engine) {
    return engine.kind == EngineKind::vllm || engine.kind == EngineKind::sglang;
  });
  const bool inside = std::any_of(job.engines.begin(), job.engines.end(), [](const Engine& engine) {
    return engine.kind != EngineKind::vllm && engine.kind != EngineKind::sglang;
  });
  const bool alone = std::any_of(job.roles.begin(), job.roles.end(), [](const Role& role) {
    return role.loop != nullptr || is_zero(role.sharding.kind);
  });
  return engines && !inside && !alone;
}

namespace {

/// Passes of the phases of these names; all, where what one grows others find.
Passes passes_of(const Job& job, const std::set<std::string>& phases) {
  const bool shares = std::any_of(job.roles.begin(), job.roles.end(), [](const Role& role) {
    return role.sharding.kind == ShardingKind::megatron;
  });
  Passes out;
  for (const std::vector<PhaseSpec>* list : {&job.start, &job.step})
    for (const PhaseSpec& phase : *list) {
      const std::string shown = phase.name.empty() ? name(phase.kind) : phase.name;
      if (!shares && !phases.contains(shown) && !phases.contains(phase.within)) continue;
      for (const Action& action : phase.actions)
        if (action.verb == Verb::train || action.verb == Verb::forward) out.emplace(action.verb, action.role);
    }
  return out;
}

MakeTrainer recalling(std::shared_ptr<CostBook> book,
                      std::function<std::optional<Passes>(const Job&)> passes) {
  return [book = std::move(book), passes = std::move(passes), program = program_over(Fidelity::live_bytes)](
             const Job& job, const Process& process, const Pool& pool, const Hardware& hardware,
             std::int64_t rank) -> Result<std::unique_ptr<TrainerProcess>> {
    if (!recalls(job)) return program(job, process, pool, hardware, rank);
    return std::make_unique<RecalledTrainer>(job, process, *book, rank, passes(job));
  };
}

}  // namespace

MakeTrainer recalled(std::shared_ptr<CostBook> book) {
  return recalling(std::move(book), [](const Job&) { return std::nullopt; });
}

MakeTrainer recalled_phases(std::shared_ptr<CostBook> book, std::span<const std::string> phases) {
  return recalling(std::move(book), [names = std::set<std::string>(phases.begin(), phases.end())](
                                        const Job& job) { return std::optional(passes_of(job, names)); });
}

}  // namespace headroom::closed_form
