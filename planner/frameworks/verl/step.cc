#include <algorithm>

#include "planner/frameworks/verl/job.h"
#include "simulator/job/step_builder.h"

namespace headroom::verl {
namespace {

/// The order of a step, by release:
///
///   up to 0.7.0   sync + generate + sleep, reward, log-probs, values, updates, [sync + validate + sleep],
///   save 0.7.1 – 0.8   generate, sleep, reward, log-probs, values, updates, save, sync, validate 0.9 (V1)
///   the same; the engine is awake between steps
///
/// Residency, FSDP: weights are loaded for every pass and offloaded after it (param_offload), optimizer
/// states only around updates (optimizer_offload); the cache is emptied after weights go to the host, and not
/// after optimizer states do. Megatron: the gradient buffer goes with the weights, the fp32 main weights with
/// the optimizer, and the cache is emptied after both. Releases before 0.8 gather the state dict of a sync
/// before the engine's weights come back. Releases before 0.7.1 leave the cache as it is at the end of init.
class StepMaker : public StepBuilder {
 public:
  explicit StepMaker(const Settings& s) : s_(s), separate_(s.rollout.nodes > 0) {}

  StepMaker& start() {
    init();
    engines();
    if (s_.resumed) resume();
    if (sync_at_end()) weight_sync(PhaseKind::weight_sync);
    if (s_.val_before_train) validate({});
    return *this;
  }

  StepMaker& step() {
    if (!sync_at_end()) weight_sync(PhaseKind::weight_sync);
    generate();
    reward();
    forward_passes();
    updates();
    const When tests{.every = std::max<std::int64_t>(1, s_.test_freq), .from = 0};
    if (sync_at_end()) {
      save();
      weight_sync(PhaseKind::weight_sync);
      if (s_.test_freq > 0) validate(tests);
    } else {
      if (s_.test_freq > 0) validate(tests);
      save();
    }
    return *this;
  }

 private:
  bool sync_at_end() const { return s_.after(0, 7, 1); }
  /// Engines of releases up to 0.4 sleep between phases whatever free_cache_engine says.
  bool sleeps() const {
    const bool frees = s_.rollout.free_cache_engine || !s_.after(0, 5, 0);
    return frees && s_.rollout.enable_sleep_mode && !separate_;
  }

  static bool megatron(const Worker& w) { return w.strategy == Strategy::megatron; }
  /// The flags only count for what is not under FSDP2's own offload policy.
  static bool policy(const Worker& w) { return w.strategy == Strategy::fsdp2 && w.fsdp.offload_policy; }
  static bool moves_weights(const Worker& w) {
    return megatron(w) ? w.megatron.param_offload : w.fsdp.param_offload && !policy(w);
  }
  static bool moves_optimizer(const Worker& w) {
    return megatron(w) ? w.megatron.optimizer_offload : w.fsdp.optimizer_offload && !policy(w);
  }
  static unsigned optimizer_parts(const Worker& w) {
    return megatron(w) ? kOptimizer | kMasterWeights : unsigned{kOptimizer};
  }


  void to_host(const Worker& w, const std::string& name) {
    if (moves_weights(w)) {
      act(Verb::offload, name, kWeights);
      if (megatron(w)) act(Verb::release, name, kGradients);
      act(Verb::empty_cache, name);
    }
    if (moves_optimizer(w)) {
      act(Verb::offload, name, optimizer_parts(w));
      if (megatron(w)) act(Verb::empty_cache, name);
    }
  }

  void init() {
    phase(PhaseKind::init);
    if (s_.critic.exists) {
      act(Verb::build, "critic");
      act(Verb::build_optimizer, "critic");
      to_host(s_.critic, "critic");
    }
    if (s_.ref.exists && s_.actor.lora.rank == 0) {
      act(Verb::build, "ref");
      if (megatron(s_.ref) && s_.ref.megatron.param_offload) act(Verb::offload, "ref", kWeights);
    }
    if (s_.reward.exists) act(Verb::build, "reward");
    act(Verb::build, "actor");
    act(Verb::build_optimizer, "actor");
    to_host(s_.actor, "actor");
    // What wrapping left in the cache stays there in releases up to 0.7.0, while the engine starts beside it.
    if (s_.after(0, 7, 1)) act(Verb::empty_cache, "actor");
  }

  void engines() {
    for (const Teacher& teacher : s_.teachers) {
      phase(PhaseKind::engine_init).name = teacher.name + "_init";
      engine(Verb::start_engine, "", teacher.name);
    }
    if (s_.reward_engine.exists) {
      phase(PhaseKind::engine_init).name = "reward_engine_init";
      engine(Verb::start_engine, "", "reward");
      if (s_.reward_engine.free_cache_engine && s_.reward_engine.nodes == 0)
        engine(Verb::sleep, "", "reward");
    }
    phase(PhaseKind::engine_init);
    engine(Verb::start_engine);
    if (sleeps()) engine(Verb::sleep);
  }

  /// A checkpoint brings optimizer states, which then follow the same offload rules.
  void resume() {
    phase(PhaseKind::load);
    for (const auto& [worker, name] : {std::pair{&s_.critic, "critic"}, std::pair{&s_.actor, "actor"}}) {
      if (!worker->exists) continue;
      if (moves_weights(*worker)) act(Verb::load, name, kWeights);
      act(Verb::create_states, name, kOptimizer);
      to_host(*worker, name);
    }
  }

  void weight_sync(PhaseKind kind) {
    phase(kind);
    const Worker& a = s_.actor;
    const bool fsdp2 = a.strategy == Strategy::fsdp2;
    const bool fsdp1 = a.strategy == Strategy::fsdp;
    // FSDP2 sends from wherever its shards are since 0.9; everything else loads them first.
    const bool loads = moves_weights(a) && !(fsdp2 && s_.after(0, 9, 0));
    // Adapters are taken out by themselves; everything else goes through FSDP1's state dict, before the
    // engine's weights are back in releases before 0.8.
    const bool exports = fsdp1 && !s_.serves_adapters();
    const bool early = fsdp1 && !s_.after(0, 8, 0);
    // Engines map the bucket of a sync, which expandable segments do not allow; releases before 0.6 never
    // switch them on.
    const bool switches = s_.after(0, 6, 0);
    if (switches) act(Verb::expandable_off, "actor");
    if (early) {
      if (loads) act(Verb::load, "actor", kWeights);
      if (exports) act(Verb::export_weights, "actor");
      if (loads) act(Verb::offload, "actor", kWeights);
    }
    act(Verb::empty_cache, "actor");
    if (sleeps()) engine(Verb::wake_weights);
    if (!early) {
      if (loads) act(Verb::load, "actor", kWeights);
      if (exports) act(Verb::export_weights, "actor");
      // A state dict of its own is all that is sent.
      if (loads && exports) {
        act(Verb::offload, "actor", kWeights);
        act(Verb::empty_cache, "actor");
      }
    }
    engine(Verb::sync_weights, "actor");
    if (loads && !early && !exports) act(Verb::offload, "actor", kWeights);
    act(Verb::empty_cache, "actor");
    if (sleeps()) engine(Verb::wake_kv);
    if (switches) act(Verb::expandable_on, "actor");
  }

  void sleep() {
    if (!sleeps()) return;
    phase(PhaseKind::sleep);
    engine(Verb::sleep);
  }

  void generate() {
    phase(PhaseKind::generate).overlaps_next = separate_ && s_.trainer_mode == "separate_async";
    engine(Verb::generate);
    sleep();
  }

  void reward() {
    for (const Teacher& teacher : s_.teachers) {
      phase(PhaseKind::reward).name = teacher.name + "_logprob";
      engine(Verb::score, "", teacher.name);
    }
    if (s_.reward_engine.exists) {
      phase(PhaseKind::reward);
      engine(Verb::score, "", "reward");
    } else if (s_.reward.exists) {
      forward(PhaseKind::reward, s_.reward, "reward", Output::rewards);
    }
  }

  void forward(PhaseKind kind, const Worker& w, const std::string& name, Output output) {
    phase(kind);
    const bool moves = moves_weights(w) && (name == "actor" || name == "critic" || megatron(w));
    if (moves) act(Verb::load, name, kWeights);
    StepBuilder::forward(name, output);
    if (!moves) return;
    act(Verb::offload, name, kWeights);
    act(Verb::empty_cache, name);
  }

  void forward_passes() {
    if (!s_.bypass_mode) forward(PhaseKind::actor_logprob, s_.actor, "actor", Output::logprobs);
    if (s_.ref.exists) {
      // With LoRA the actor's own weights run, adapters off, and are moved as the actor's.
      if (s_.actor.lora.rank > 0 && moves_weights(s_.actor)) {
        phase(PhaseKind::ref_logprob);
        act(Verb::load, "actor", kWeights);
        act(Verb::forward, "ref");
        act(Verb::offload, "actor", kWeights);
        act(Verb::empty_cache, "actor");
      } else {
        forward(PhaseKind::ref_logprob, s_.ref, "ref", Output::logprobs);
      }
    }
    if (s_.critic.exists) forward(PhaseKind::critic_values, s_.critic, "critic", Output::values);
  }

  void train(PhaseKind kind, const Worker& w, const std::string& name, std::int64_t from) {
    phase(kind).when.from = from;
    if (moves_weights(w)) act(Verb::load, name, megatron(w) ? kWeights | kGradients : unsigned{kWeights});
    if (moves_optimizer(w)) {
      act(Verb::load, name, optimizer_parts(w));
      if (megatron(w)) act(Verb::empty_cache, name);
    }
    act(Verb::train, name);
    if (!megatron(w)) act(Verb::release, name, kGradients);
    to_host(w, name);
  }

  void updates() {
    if (s_.critic.exists) train(PhaseKind::train_critic, s_.critic, "critic", 0);
    // verl counts steps from 1: the actor is updated from step number critic_warmup on.
    train(PhaseKind::train_actor, s_.actor, "actor", std::max<std::int64_t>(0, s_.critic_warmup - 1));
  }

  void save() {
    if (s_.save_freq <= 0) return;
    phase(PhaseKind::save_checkpoint).when.every = s_.save_freq;
    for (const auto& [worker, name] : {std::pair{&s_.actor, "actor"}, std::pair{&s_.critic, "critic"}}) {
      if (!worker->exists) continue;
      const unsigned moved = megatron(*worker) ? kWeights | kGradients : unsigned{kWeights};
      if (moves_weights(*worker)) act(Verb::load, name, moved);
      if (worker->saved_parts != 0 || worker->saves_whole_model)
        act(Verb::save, name, worker->saved_parts).gathered = worker->saves_whole_model;
      if (!moves_weights(*worker)) continue;
      act(Verb::offload, name, kWeights);
      if (megatron(*worker)) act(Verb::release, name, kGradients);
      act(Verb::empty_cache, name);
    }
  }

  /// Old releases wake the engine for it and put it to sleep again.
  void validate(When when) {
    const std::size_t first = phases_.size();
    if (!sync_at_end()) weight_sync(PhaseKind::weight_sync);
    phase(PhaseKind::validate);
    engine(Verb::generate);
    if (s_.reward_engine.exists) {
      // A colocated reward engine scores while the rollout sleeps; afterwards it is synced again.
      const bool takes_turns = sleeps() && s_.reward_engine.nodes == 0;
      if (takes_turns) engine(Verb::sleep);
      engine(Verb::score, "", "reward");
      if (takes_turns && sync_at_end()) weight_sync(PhaseKind::weight_sync);
    } else if (!sync_at_end()) {
      sleep();
    }
    for (std::size_t i = first; i < phases_.size(); ++i) phases_[i].when = when;
  }

  const Settings& s_;
  bool separate_;
};

}  // namespace

std::vector<PhaseSpec> make_start(const Settings& settings) {
  return StepMaker(settings).start().take();
}

std::vector<PhaseSpec> make_step(const Settings& settings) {
  return StepMaker(settings).step().take();
}

}  // namespace headroom::verl
