#include "planner/frameworks/chatlearn/job.h"
#include "simulator/job/step_builder.h"

namespace headroom::chatlearn {
namespace {

/// An episode: sync, generate, sleep, old log-probs, reference, updates. A model whose memory is freed is on
/// the GPU only while it works; the trainer comes back whole, optimizer states too, for log-probs as for
/// updates, and with its weights alone for a sync.
class StepMaker : public StepBuilder {
 public:
  explicit StepMaker(const Settings& s) : s_(s) {}

  StepMaker& start() {
    phase(PhaseKind::engine_init);
    engine(Verb::start_engine);
    if (sleeps()) engine(Verb::sleep);
    phase(PhaseKind::init);
    act(Verb::build, "actor");
    act(Verb::build_optimizer, "actor");
    away(s_.trainer, "actor", "policy_trainer", true);
    act(Verb::build, "ref");
    away(s_.reference, "ref", "ref_policy", false);
    if (s_.resumed) {
      phase(PhaseKind::load);
      back(s_.trainer, "actor", "policy_trainer", false);
      act(Verb::create_states, "actor");
      away(s_.trainer, "actor", "policy_trainer", true);
    }
    return *this;
  }

  StepMaker& step() {
    phase(PhaseKind::weight_sync);
    back(s_.trainer, "actor", "policy_trainer", false);
    if (sleeps()) engine(Verb::wake_weights);
    engine(Verb::sync_weights, "actor");
    away(s_.trainer, "actor", "policy_trainer", true);
    if (sleeps()) engine(Verb::wake_kv);
    phase(PhaseKind::generate);
    engine(Verb::generate);
    if (sleeps()) {
      phase(PhaseKind::sleep);
      engine(Verb::sleep);
    }
    phase(PhaseKind::actor_logprob);
    back(s_.trainer, "actor", "policy_trainer", true);
    act(Verb::forward, "actor");
    away(s_.trainer, "actor", "policy_trainer", true);
    phase(PhaseKind::ref_logprob);
    back(s_.reference, "ref", "ref_policy", false);
    act(Verb::forward, "ref");
    away(s_.reference, "ref", "ref_policy", false);
    phase(PhaseKind::train_actor);
    back(s_.trainer, "actor", "policy_trainer", true);
    act(Verb::train, "actor");
    away(s_.trainer, "actor", "policy_trainer", true);
    if (s_.save_interval > 0) {
      phase(PhaseKind::save_checkpoint).when.every = s_.save_interval;
      back(s_.trainer, "actor", "policy_trainer", false);
      act(Verb::save, "actor");
      away(s_.trainer, "actor", "policy_trainer", true);
    }
    return *this;
  }

 private:
  bool sleeps() const { return s_.policy.free.weights; }

  unsigned states() const { return s_.megatron ? kOptimizer | kMasterWeights : unsigned{kOptimizer}; }

  /// What the model's switches free; alone on its GPUs it keeps everything.
  void away(const Model& m, const std::string& role, const std::string& key, bool trained) {
    if (!s_.colocated(key)) return;
    if (trained && m.free.gradients && s_.megatron) act(Verb::release, role, kGradients);
    if (trained && m.free.optimizer) act(Verb::offload, role, states());
    // Megatron's fp32 weights go with the weights.
    if (m.free.weights) act(Verb::offload, role, kWeights | (trained && s_.megatron ? kMasterWeights : 0u));
    act(Verb::empty_cache, role);
  }

  void back(const Model& m, const std::string& role, const std::string& key, bool whole) {
    if (!s_.colocated(key)) return;
    if (m.free.weights)
      act(Verb::load, role, kWeights | (whole && s_.megatron && role == "actor" ? kMasterWeights : 0u));
    if (!whole || role != "actor") return;
    if (m.free.gradients && s_.megatron) act(Verb::load, role, kGradients);
    if (m.free.optimizer) act(Verb::load, role, states());
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

}  // namespace headroom::chatlearn
