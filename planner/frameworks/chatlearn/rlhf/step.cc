#include "planner/frameworks/chatlearn/rlhf/settings.h"
#include "simulator/job/step_builder.h"

namespace headroom::chatlearn::rlhf {
namespace {

/// EMS: a model leaves after its last call (gradient buffers are dropped; fp32 weights, Adam's states and weights go to
/// the host, then the cache is emptied) and comes back before its first (weights, buffers, fp32 weights, states).
class StepMaker : public StepBuilder {
 public:
  explicit StepMaker(const Settings& s) : s_(s) {}

  /// One model after the other is built and leaves.
  void start() {
    phase(PhaseKind::engine_init);
    engine(Verb::start_engine);
    engine(Verb::sleep);
    for (const ModelIndex i : {kReference, kValue, kReward, kPpoPolicy, kPpoValue}) {
      if (!s_.model(i).exists) continue;
      phase(PhaseKind::init, "init_" + s_.model(i).name);
      act(Verb::build, role(i));
      if (s_.model(i).trained) act(Verb::build_optimizer, role(i));
      away(i);
    }
    if (s_.resumed) {
      phase(PhaseKind::load);
      for (const ModelIndex i : {kPpoPolicy, kPpoValue}) {
        if (!s_.model(i).exists) continue;
        back(i, true);
        act(Verb::create_states, role(i));
        away(i);
      }
    }
    sync();
  }

  /// Experience, updates, syncs, checkpoint.
  void step() {
    phase(PhaseKind::generate);
    engine(Verb::wake_weights);
    engine(Verb::wake_kv);
    engine(Verb::generate);
    phase(PhaseKind::sleep);
    engine(Verb::sleep);
    score(kReference, PhaseKind::ref_logprob, Output::logprobs);
    score(kValue, PhaseKind::critic_values, Output::values);
    score(kReward, PhaseKind::reward, Output::rewards);
    train(kPpoPolicy, PhaseKind::train_actor);
    train(kPpoValue, PhaseKind::train_critic);
    sync();
    if (s_.save_interval <= 0) return;
    for (const ModelIndex i : {kPpoPolicy, kPpoValue}) {
      if (!s_.model(i).exists) continue;
      phase(PhaseKind::save_checkpoint, "save_" + s_.model(i).name).when.every = s_.save_interval;
      back(i, false, true);
      act(Verb::save, role(i));
      away(i);
    }
  }

 private:
  static const char* role(ModelIndex i) {
    constexpr const char* kRoles[] = {"rollout", "ref", "value", "reward", "actor", "critic"};
    return kRoles[i];
  }

  void away(ModelIndex i) {
    const Model& m = s_.model(i);
    if (!s_.moves(m)) return;
    if (m.frees_gradients()) act(Verb::release, role(i), kGradients);
    if (m.offloads_optimizer()) act(Verb::offload, role(i), kOptimizer);
    if (m.offloads_weights()) act(Verb::offload, role(i), kWeights | (m.trained ? kMasterWeights : 0u));
    act(Verb::empty_cache, role(i));
  }

  void back(ModelIndex i, bool states, bool buffers = false) {
    const Model& m = s_.model(i);
    if (!s_.moves(m)) return;
    const bool all = states || buffers;
    if (m.offloads_weights()) act(Verb::load, role(i), kWeights | (m.trained && all ? kMasterWeights : 0u));
    if (!m.trained || !all) return;
    if (m.frees_gradients()) act(Verb::load, role(i), kGradients);
    if (states && m.offloads_optimizer()) act(Verb::load, role(i), kOptimizer);
  }

  void score(ModelIndex i, PhaseKind kind, Output output) {
    if (!s_.model(i).exists) return;
    phase(kind);
    back(i, false);
    forward(role(i), output);
    away(i);
  }

  void train(ModelIndex i, PhaseKind kind) {
    if (!s_.model(i).exists) return;
    phase(kind);
    back(i, true);
    act(Verb::train, role(i));
    away(i);
  }

  /// The policy's weights to the generator; the value trainer's to the model that scores.
  void sync() {
    phase(PhaseKind::weight_sync);
    back(kPpoPolicy, false);
    engine(Verb::wake_weights);
    engine(Verb::sync_weights, "actor");
    away(kPpoPolicy);
    engine(Verb::sleep);
    if (!s_.model(kValue).exists || !s_.model(kPpoValue).exists) return;
    phase(PhaseKind::weight_sync, "weight_sync_value");
    back(kPpoValue, false);
    back(kValue, false);
    away(kPpoValue);
    away(kValue);
  }

  const Settings& s_;
};

}  // namespace

std::vector<PhaseSpec> make_start(const Settings& settings) {
  StepMaker maker(settings);
  maker.start();
  return maker.take();
}

std::vector<PhaseSpec> make_step(const Settings& settings) {
  StepMaker maker(settings);
  maker.step();
  return maker.take();
}

}  // namespace headroom::chatlearn::rlhf
