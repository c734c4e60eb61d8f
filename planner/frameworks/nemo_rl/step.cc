#include <algorithm>

#include "planner/frameworks/nemo_rl/job.h"
#include "simulator/job/step_builder.h"

namespace headroom::nemo_rl {
namespace {

/// The order of a step. With rollouts: refit (weights to the engine), generate, sleep, values, log-probs,
/// reference, updates, save. Colocated, everything that generation does not need is on the host while it
/// runs: optimizer states go before the refit, weights after it; weights come back for the log-probs, the
/// rest for the update. On GPUs of its own the engine never sleeps and the trainer keeps everything where it
/// is.
class StepMaker : public StepBuilder {
 public:
  explicit StepMaker(const Settings& s) : s_(s) {}

  StepMaker& start() {
    if (s_.generates()) {
      phase(PhaseKind::engine_init);
      engine(Verb::start_engine);
      if (colocated()) engine(Verb::sleep);
    }
    phase(PhaseKind::init);
    const bool megatron = s_.policy.runs_megatron();
    if (s_.has_reference() && !megatron) build_copy();
    build(s_.policy, "actor");
    if (s_.has_reference() && megatron) build_reference();
    if (s_.algorithm == Algorithm::ppo) {
      to_host(s_.policy, "actor");
      build(s_.value, "critic");
      to_host(s_.value, "critic");
      to_device(s_.policy, "actor");
    }
    if (s_.algorithm == Algorithm::distillation) {
      act(Verb::build, "teacher");
      move(Verb::offload, s_.teacher, "teacher", kWeights);
      act(Verb::empty_cache, "teacher");
    }
    if (s_.resumed) {
      phase(PhaseKind::load);
      act(Verb::create_states, "actor");
      if (s_.algorithm == Algorithm::ppo) act(Verb::create_states, "critic");
    }
    return *this;
  }

  StepMaker& step() {
    if (s_.generates()) {
      refit();
      generate();
      if (s_.algorithm == Algorithm::ppo) values();
      scores();
      updates();
    } else {
      if (s_.has_reference()) reference();
      phase(PhaseKind::train_actor);
      act(Verb::train, "actor");
    }
    save();
    return *this;
  }

 private:
  bool colocated() const { return s_.generates() && !s_.separate(); }
  /// FSDP2's own offloading keeps shards and states on the host; nothing is moved.
  static bool moves(const Policy& p) { return p.runs_megatron() || !p.dtensor.cpu_offload; }
  /// The 16 low bits of the weights belong to the states that are moved; a classic fp32 copy stays.
  static unsigned states(const Policy& p) {
    return p.runs_megatron() && p.megatron.precision_aware ? kOptimizer | kMasterWeights
                                                           : unsigned{kOptimizer};
  }

  void move(Verb verb, const Policy& p, const std::string& role, unsigned parts) {
    if (moves(p)) act(verb, role, parts);
  }
  void drop_gradients(const Policy& p, const std::string& role) {
    if (p.runs_megatron()) act(Verb::release, role, kGradients);
  }

  void build(const Policy&, const std::string& role) {
    act(Verb::build, role);
    act(Verb::build_optimizer, role);
  }

  /// Megatron's worker loads the reference, which the policy makes room for, and copies it to pinned memory.
  void build_reference() {
    const Policy& p = s_.policy;
    drop_gradients(p, "actor");
    move(Verb::offload, p, "actor", kWeights);
    act(Verb::build, "ref");
    move(Verb::offload, p, "ref", kWeights);
    move(Verb::load, p, "actor", kWeights);
    act(Verb::load, "actor", kGradients);
  }

  /// DTensor's worker copies the policy's state dict to pinned memory and moves nothing: the same bytes come and
  /// go before the policy's own stand, and leave no trace on the card.
  void build_copy() {
    act(Verb::build, "ref");
    move(Verb::offload, s_.policy, "ref", kWeights);
    act(Verb::empty_cache, "ref");
  }

  void to_host(const Policy& p, const std::string& role) {
    drop_gradients(p, role);
    move(Verb::offload, p, role, kWeights | states(p));
    act(Verb::empty_cache, role);
  }
  void to_device(const Policy& p, const std::string& role) { move(Verb::load, p, role, kWeights); }

  /// Shards that live on the host come to the card to be sent.
  void sync() {
    const bool visit = !moves(s_.policy);
    if (visit) act(Verb::load, "actor", kWeights);
    engine(Verb::sync_weights, "actor");
    if (visit) act(Verb::offload, "actor", kWeights);
  }

  void refit() {
    const Policy& p = s_.policy;
    phase(PhaseKind::weight_sync);
    if (!colocated()) {
      sync();
      return;
    }
    drop_gradients(p, "actor");
    move(Verb::offload, p, "actor", states(p));
    act(Verb::empty_cache, "actor");
    engine(Verb::wake_weights);
    sync();
    move(Verb::offload, p, "actor", kWeights);
    act(Verb::empty_cache, "actor");
    engine(Verb::wake_kv);
  }

  void generate() {
    phase(PhaseKind::generate).overlaps_next = s_.async;
    engine(Verb::generate);
    if (!colocated()) return;
    phase(PhaseKind::sleep);
    engine(Verb::sleep);
  }

  void values() {
    phase(PhaseKind::critic_values);
    move(Verb::load, s_.value, "critic", kWeights);
    forward("critic", Output::values);
    move(Verb::offload, s_.value, "critic", kWeights);
    act(Verb::empty_cache, "critic");
  }

  /// Another model's weights in the place of the policy's.
  void reference() {
    const Policy& p = s_.policy;
    phase(PhaseKind::ref_logprob);
    move(Verb::offload, p, "actor", kWeights);
    move(Verb::load, p, "ref", kWeights);
    forward("ref", Output::logprobs);
    move(Verb::offload, p, "ref", kWeights);
    move(Verb::load, p, "actor", kWeights);
    if (!p.runs_megatron() || p.megatron.empty_level >= 1) act(Verb::empty_cache, "actor");
  }

  void scores() {
    const Policy& p = s_.policy;
    if (s_.algorithm == Algorithm::distillation) {
      phase(PhaseKind::ref_logprob, "teacher_logits");
      move(Verb::load, s_.teacher, "teacher", kWeights);
      forward("teacher", Output::logprobs);
      move(Verb::offload, s_.teacher, "teacher", kWeights);
      act(Verb::empty_cache, "teacher");
      return;
    }
    const bool skipped = s_.on_policy && s_.since(0, 7);
    const bool refers = s_.has_reference() && !(s_.skip_reference && s_.kl_penalty == 0);
    if (skipped && !refers) return;
    phase(PhaseKind::actor_logprob);
    const bool away = colocated() || s_.algorithm == Algorithm::ppo;
    if (!away) {
      drop_gradients(p, "actor");
      if (p.offload_optimizer_for_logprob) move(Verb::offload, p, "actor", states(p));
    } else {
      move(Verb::load, p, "actor", kWeights);
    }
    act(Verb::empty_cache, "actor");
    if (!skipped) forward("actor", Output::logprobs);
    if (refers) reference();
    if (s_.algorithm == Algorithm::ppo) {
      between();
      move(Verb::offload, p, "actor", kWeights);
      act(Verb::empty_cache, "actor");
    }
  }

  void train(PhaseKind kind, const Policy& p, const std::string& role, std::int64_t from) {
    phase(kind).when.from = from;
    if (colocated() || s_.algorithm == Algorithm::ppo || p.offload_optimizer_for_logprob)
      move(Verb::load, p, role, kWeights | states(p));
    if (p.runs_megatron()) act(Verb::load, role, kGradients);
    act(Verb::empty_cache, role);
    act(Verb::train, role);
    // Megatron's worker empties the cache after the last backward already, before the optimizer's step.
    if (!p.runs_megatron() || p.megatron.empty_level >= 1) act(Verb::empty_cache, role);
  }

  void updates() {
    if (s_.algorithm == Algorithm::ppo) {
      train(PhaseKind::train_critic, s_.value, "critic", 0);
      between();
      to_host(s_.value, "critic");
    }
    train(PhaseKind::train_actor, s_.policy, "actor", s_.policy_starts_at);
  }

  void save() {
    if (!s_.saves) return;
    phase(PhaseKind::save_checkpoint).when.every = s_.save_period;
    if (colocated()) to_device(s_.policy, "actor");
    act(Verb::save, "actor");
    if (s_.consolidated && !s_.policy.runs_megatron()) act(Verb::save, "actor").gathered = true;  // of what was written
  }

  const Settings& s_;
};

}  // namespace

std::vector<PhaseSpec> make_start(const Settings& settings) {
  return StepMaker(settings).start().take();
}

std::vector<PhaseSpec> make_step(const Settings& settings) {
  return StepMaker(settings).step().take();
}

}  // namespace headroom::nemo_rl
