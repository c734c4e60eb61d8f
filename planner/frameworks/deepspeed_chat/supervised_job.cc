#include <algorithm>

#include "models/architecture/family.h"
#include "planner/frameworks/case_file.h"
#include "planner/frameworks/deepspeed_chat/models.h"
#include "planner/frameworks/deepspeed_chat/settings.h"
#include "planner/frameworks/deepspeed_chat/supervised.h"
#include "planner/frameworks/deepspeed_chat/supervised_loop.h"
#include "planner/frameworks/settings/deepspeed.h"
#include "simulator/job/step_builder.h"
#include "simulator/trainer/repeat_scope.h"

namespace headroom::deepspeed_chat::supervised {
namespace {

/// Sizes that the scripts' configuration states, in elements.
constexpr std::int64_t kPrefetch = 30'000'000, kLive = 30'000'000, kPersistent = 10'000;
/// The power of two that the loss scale starts at.
constexpr std::int64_t kScale = 16;
/// Evaluations and checkpoints come once in so many steps: seldom.
constexpr std::int64_t kSeldom = 1000;

/// `--dropout 0.0` reaches the names that most configurations give it.
bool has_dropout(const Settings& s) {
  if (s.disable_dropout) return false;
  const bool off = !s.dropout.empty() && Document::scalar(s.dropout).as_double().value_or(1) == 0;
  return !off || family_facts(s.model->family).own_dropout_names;
}

void set_sharding(const Settings& s, Role& role) {
  constexpr ShardingKind kStages[] = {ShardingKind::zero0, ShardingKind::zero1, ShardingKind::zero2,
                                      ShardingKind::zero3};
  Sharding& z = role.sharding;
  // An engine that only evaluates is spread like the trained one at stage 3, else not at all.
  z.kind = kStages[role.trained || s.zero_stage == 3 ? s.zero_stage : 0];
  z.overlap_communication = true;
  z.persistence_threshold = kPersistent;
  settings::set_deepspeed_release(s.versions.deepspeed, true, z);
  if (!role.trained) {
    z.offload_parameters = s.zero_stage == 3 && s.offload_reference;
    return;
  }
  z.prefetch_bucket = kPrefetch;
  z.max_live_parameters = kLive;
  z.offload_optimizer = s.offload && s.zero_stage > 0;
  z.offload_parameters = s.offload && s.zero_stage == 3;
  role.optimizer.implementation = s.offload ? OptimizerImplementation::cpu : OptimizerImplementation::apex;
}

Role make_role(const Settings& s, bool trained) {
  Role role;
  role.name = trained ? "actor" : "ref";
  role.model = s.model;
  role.model_name = s.model_path;
  role.loop = &kSupervisedLoop;
  role.trained = trained;
  role.head = s.program == Program::rm ? HeadKind::scalar : HeadKind::language_model;
  Precision& p = role.precision;
  p.weights = p.compute = p.gradients = p.reduce = s.dtype == "bf16" ? DType::bf16 : DType::fp16;
  p.gradient_scaler = s.dtype == "fp16";
  if (p.gradient_scaler && trained) p.skipped_steps = skipped_steps(kScale);
  set_sharding(s, role);
  role.dropout = trained && has_dropout(s);
  role.attention = cases::default_attention(*s.model);
  role.attention_mask = true;
  role.padded = !s.full_rows;
  role.loads_on_every_rank = s.zero_stage < 3;
  role.train.sequences = s.batch * s.rows();
  role.forward.sequences = s.eval_batch * s.rows();
  role.mini_batch = s.batch * s.rows() * s.accumulation * s.gpus;
  role.epochs = 1;
  if (trained && s.checkpointing) role.recompute.kind = RecomputeKind::full;
  const std::vector<std::string> adapted = adapted_modules(*s.model, s.lora_scope);
  if (trained && s.lora_rank > 0 && !adapted.empty()) {
    LoraSpec lora;
    lora.rank = s.lora_rank;
    lora.targets = adapted;
    lora.dtype = p.weights;
    lora.rest_trains = !s.only_lora;
    role.lora = lora;
  }
  return role;
}

/// Batches of an evaluation that are run: the first, and one that finds the outputs of the one before.
constexpr int kEvaluated = 2;

class StepMaker : public StepBuilder {
 public:
  explicit StepMaker(const Settings& s) : s_(s) {}

  /// The scripts evaluate before they train.
  void start() {
    phase(PhaseKind::init);
    act(Verb::build, "actor");
    if (s_.program == Program::dpo) act(Verb::build, "ref");
    if (s_.resumed) act(Verb::create_states, "actor");
    evaluate("first_evaluation");
  }

  void step() {
    phase(PhaseKind::train_actor);
    for (std::int64_t i = 0; i < trainer::shown_runs(s_.accumulation); ++i) {
      if (s_.program == Program::dpo) {
        call("actor", "forward_policy");
        call("ref", "forward_reference");
      }
      act(Verb::train, "actor");
    }
    evaluate("evaluation").when.every = kSeldom;
    phase(PhaseKind::save_checkpoint).when.every = kSeldom;
    act(Verb::save, "actor");
  }

 private:
  void call(const char* role, const char* name) { phases_.back().actions.push_back(call_action(role, name)); }

  PhaseSpec& evaluate(const char* name) {
    PhaseSpec& out = phase(PhaseKind::validate, name);
    if (s_.program != Program::dpo) {
      call("actor", "evaluate");
      return out;
    }
    for (int batch = 0; batch < kEvaluated; ++batch)
      for (const char* role : {"actor", "ref"}) call(role, "evaluate_pair");
    call("actor", "end_evaluation");
    return out;
  }

  const Settings& s_;
};

}  // namespace

Result<Job> make_job(const Settings& s) {
  if (s.offload && s.zero_stage == 0)
    return fail(Error{.message = "expected zero_stage 1 to 3: without sharding there is no offload", .file = {}, .key = "offload"});
  Job job;
  job.framework = "deepspeed-chat";
  job.algorithm = s.program == Program::sft  ? Algorithm::sft
                  : s.program == Program::rm ? Algorithm::reward_model
                                             : Algorithm::dpo;
  job.versions = s.versions;
  job.gpu = s.gpu;
  job.pools.push_back({.name = "main", .nodes = 1, .gpus_per_node = s.gpus});
  job.roles.push_back(make_role(s, true));
  if (s.program == Program::dpo) job.roles.push_back(make_role(s, false));
  Process trainer;
  trainer.name = "trainer";
  for (const Role& role : job.roles) trainer.roles.push_back(role.name);
  trainer.communicators = s.gpus > 1 ? (s.zero_stage == 3 ? 2 : 1) : 0;
  job.processes.push_back(std::move(trainer));
  job.batch.prompts = job.batch.mini_batch = job.roles.front().mini_batch;
  job.batch.prompt_length = s.length;
  job.assumptions = s.assumptions;
  job.not_modelled = s.not_modelled;
  StepMaker start(s), step(s);
  start.start();
  step.step();
  job.start = start.take();
  job.step = step.take();
  job.steps = s.steps + static_cast<int>(job.roles.front().precision.skipped_steps);
  job.resumed = s.resumed;
  note_skipped_steps(job);
  HEADROOM_TRY(validate_job(job));
  return job;
}

}  // namespace headroom::deepspeed_chat::supervised
