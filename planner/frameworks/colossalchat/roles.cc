#include <algorithm>
#include <array>
#include <string_view>

#include "planner/frameworks/colossalchat/job.h"
#include "planner/frameworks/colossalchat/loop.h"

namespace headroom::colossalchat {
namespace {

/// Elements of LowLevelZero's bucket. Coati passes bytes where megabytes are asked for: it is never full.
constexpr std::int64_t kBucket = 12 << 20, kNeverFull = std::int64_t{1} << 40;
/// Sequences whose logits PPO's experience maker has made at once.
constexpr std::int64_t kScored = 2;

bool offloads(const Settings& s) {
  return s.coati() ? s.strategy.ends_with("_cpu")
                   : s.plugin == "zero2_cpu" || (s.parallel() && s.zero_stage > 0 && s.zero_cpu_offload);
}

void set_low_level_zero(const Settings& s, Role& role, int stage) {
  Sharding& z = role.sharding;
  z.kind = stage == 1 ? ShardingKind::low_level_zero1 : ShardingKind::low_level_zero2;
  z.joins_lists = s.coati();
  z.reduce_bucket = s.coati() ? kNeverFull : kBucket;
  z.overlap_communication = true;
  z.offload_optimizer = role.trained && offloads(s);
  role.optimizer.implementation = z.offload_optimizer ? OptimizerImplementation::cpu : OptimizerImplementation::apex;
}

void set_gemini(const Settings& s, Role& role) {
  constexpr Release kFixed{0, 3, 4};
  Sharding& z = role.sharding;
  z.kind = ShardingKind::gemini;
  z.joins_lists = s.coati();
  z.pin_memory = s.coati();
  z.placement = s.coati() && offloads(s)            ? GeminiPlacement::host
                : s.coati() && s.release < kFixed ? GeminiPlacement::resident
                                                  : GeminiPlacement::fixed;
  z.offload_optimizer = role.trained && z.placement == GeminiPlacement::host;
  z.overlap_communication = s.release >= Release{0, 3, 8};
  z.gradient_chunks = !s.coati() && (s.program != Program::sft || s.accumulation > 1);
  role.optimizer.implementation = z.offload_optimizer ? OptimizerImplementation::cpu : OptimizerImplementation::apex;
}

/// DistributedDataParallel around weights as they were loaded; 3d's plugin keeps fp32 copies of narrow ones.
void set_data_parallel(const Settings& s, Role& role) {
  role.sharding.kind = ShardingKind::data_parallel;
  // Coati and HybridParallel's plugin leave it off; of the others SFT and DPO look where nothing is recomputed.
  const bool either = s.program == Program::sft || s.program == Program::dpo;
  role.sharding.finds_unused = !s.coati() && !s.parallel() && !(either && s.checkpointing);
  const DType narrow = s.narrow() ? DType::fp16 : DType::bf16;
  // SFT's script says in what type its model is loaded; the others' models come in fp32.
  const bool typed = s.parallel() || s.flash || (s.program == Program::sft && s.release >= Release{0, 4, 0});
  const DType stored = s.coati() ? DType::fp16 : typed ? narrow : DType::fp32;
  Precision& p = role.precision;
  p.weights = p.compute = p.gradients = p.reduce = stored;
  p.gradient_scaler = s.parallel() && s.narrow();
  if (s.parallel() && role.trained) {
    p.master = DType::fp32;
    role.optimizer.implementation = OptimizerImplementation::apex;
  }
  role.built_on_host = true;
}

void set_sharding(const Settings& s, Role& role) {
  const DType stored = s.coati() || s.narrow() ? DType::fp16 : DType::bf16;
  Precision& p = role.precision;
  p.weights = p.compute = p.gradients = p.reduce = stored;
  p.gradient_scaler = stored == DType::fp16;
  role.optimizer.clip = !s.coati() && s.clip > 0;
  const std::string& way = s.coati() ? s.strategy : s.plugin;
  if (s.gemini()) return set_gemini(s, role);
  if (way == "ddp" || way == "naive" || (s.parallel() && s.zero_stage == 0)) return set_data_parallel(s, role);
  const bool first = way.find("zero1") != std::string::npos || (s.parallel() && s.zero_stage == 1);
  set_low_level_zero(s, role, first ? 1 : 2);
}

/// Families whose heads' products Transformers up to 4.44 gives back as they are; all others' it widens to fp32.
constexpr std::array<std::string_view, 5> kNarrowLogits = {"gpt2", "opt", "bloom", "gpt_neox", "falcon"};

bool returns_wide_logits(const Settings& s, const Role& role) {
  return s.wide_logits() && role.model != nullptr &&
         std::find(kNarrowLogits.begin(), kNarrowLogits.end(), role.model->family) == kNarrowLogits.end();
}

/// DPO's reference under HybridParallel's plugin: whole, in the narrow type; DistributedDataParallel is put around it on
/// one GPU, and without ZeRO on several, and makes its buckets though nothing is trained.
void set_own_reference(const Settings& s, Role& role) {
  const bool wrapped = s.data_ranks() == 1 || s.zero_stage == 0;
  role.sharding = {};
  role.sharding.kind = wrapped ? ShardingKind::data_parallel : ShardingKind::none;
  const DType narrow = s.narrow() ? DType::fp16 : DType::bf16;
  Precision& p = role.precision;
  p.weights = p.compute = p.gradients = p.reduce = narrow;
  p.gradient_scaler = false;
  role.built_on_host = true;
}

Role make_role(const Settings& s, const std::string& name) {
  const bool scalar = name == "critic" || name == "reward" || s.program == Program::rm;
  Role role;
  role.name = name;
  role.trained = name == "actor" || name == "critic";
  role.head = scalar ? HeadKind::scalar : HeadKind::language_model;
  role.model = name == "critic" || name == "reward" ? s.critic_model : s.model;
  role.model_name = name == "critic" || name == "reward" ? s.reward_pretrain : s.pretrain;
  if (s.rl()) role.loop = s.coati() ? &kCoatiLoop : &kBoostedLoop;
  if (s.follows_sequences()) role.loop = s.wide_logits() ? &kShiftedSupervisedLoop : &kSupervisedLoop;
  set_sharding(s, role);
  if (name == "ref" && s.program == Program::dpo && s.release >= kOwnReference) set_own_reference(s, role);
  if (s.parallel()) role.parallel.tensor = s.tensor;
  role.attention = s.coati()  ? AttentionImplementation::eager
                   : s.flash ? AttentionImplementation::flash
                              : AttentionImplementation::sdpa;
  role.attention_mask = true;
  role.padded = !s.full_rows;
  role.dropout = s.coati() && role.trained;  // since 0.3.7 it is switched off
  // Models come from the host, but under Coati's Gemini, whose context makes them on the GPU in half precision.
  role.loads_on_every_rank = !(s.coati() && s.gemini());
  if (s.gemini()) role.built_on_host = !s.coati();
  role.train.sequences = s.train_batch * s.rows_a_sample();
  role.forward.sequences = s.rl() ? s.collected() : role.train.sequences;
  if (s.program == Program::grpo && s.inference_batch)
    role.forward.sequences = std::min(role.forward.sequences, *s.inference_batch);
  role.epochs = s.rl() ? s.updates : 1;
  if (role.trained && s.checkpointing) role.recompute.kind = RecomputeKind::full;
  if (role.trained && s.lora_rank > 0) {
    LoraSpec lora;
    lora.rank = s.lora_rank;
    lora.targets = {"all-linear"};
    lora.dtype = role.precision.weights;
    role.lora = lora;
  }
  if (role.head != HeadKind::language_model) return role;
  role.loss.logits_fp32 = !s.coati() && returns_wide_logits(s, role);
  role.loss.score_sequences = s.coati() || !s.rl() ? 0 : s.program == Program::grpo ? s.logits_batch : kScored;
  if (s.learns_texts() && s.program == Program::ppo && role.trained) {
    role.loss.text_sequences = s.text_batch;
    role.loss.text_tokens = s.coati() ? s.prompt_length : s.total_length;
  }
  return role;
}

}  // namespace

std::vector<Role> make_roles(const Settings& s) {
  std::vector<Role> out{make_role(s, "actor")};
  if (s.has_reference()) out.push_back(make_role(s, "ref"));
  if (s.has_critic()) out.push_back(make_role(s, "critic"));
  if (s.has_reward()) out.push_back(make_role(s, "reward"));
  return out;
}

}  // namespace headroom::colossalchat
