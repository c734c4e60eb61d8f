#include <fmt/format.h>

#include <array>
#include <cmath>
#include <string>

#include "planner/frameworks/deepspeed_chat/settings.h"

namespace headroom::deepspeed_chat {
namespace {

constexpr std::int64_t kMostRank = 65536;
constexpr std::int64_t kMost = cases::kMostSequences, kMostTokens = cases::kMostTokens;

constexpr std::array<std::string_view, 45> kKeys = {"name",
                                                    "group",
                                                    "actor",
                                                    "critic",
                                                    "dtype",
                                                    "zero_stage",
                                                    "offload",
                                                    "pin_memory",
                                                    "offload_reference_model",
                                                    "offload_reward_model",
                                                    "batch",
                                                    "prompt",
                                                    "response",
                                                    "steps",
                                                    "fp16_extra",
                                                    "fp16_extra.initial_scale_power",
                                                    "fp16_extra.loss_scale",
                                                    "zero_extra",
                                                    "grad_ckpt",
                                                    "padded",
                                                    "empty_cache",
                                                    "world",
                                                    "device",
                                                    "total_memory",
                                                    "alloc_conf",
                                                    "seed",
                                                    "reduce_bucket_size",
                                                    "allgather_bucket_size",
                                                    "stage3_prefetch_bucket_size",
                                                    "stage3_max_live_parameters",
                                                    "stage3_param_persistence_threshold",
                                                    "stage3_max_reuse_distance",
                                                    "overlap_comm",
                                                    "contiguous_gradients",
                                                    "sub_group_size",
                                                    "gradient_accumulation_steps",
                                                    "generation_batches",
                                                    "actor_lora_dim",
                                                    "critic_lora_dim",
                                                    "enable_hybrid_engine",
                                                    "enable_ema",
                                                    "compute_fp32_loss",
                                                    "memory_efficient_linear",
                                                    "only_optimize_lora",
                                                    "ppo_epochs"};

/// Sizes of DeepSpeed's zero_optimization section, in elements.
struct Size {
  std::string_view key;
  std::int64_t Settings::*member;
};
constexpr std::array<Size, 6> kSizes = {{
    {"reduce_bucket_size", &Settings::reduce_bucket},
    {"allgather_bucket_size", &Settings::allgather_bucket},
    {"stage3_prefetch_bucket_size", &Settings::prefetch_bucket},
    {"stage3_max_live_parameters", &Settings::max_live_parameters},
    {"stage3_param_persistence_threshold", &Settings::persistence_threshold},
    {"stage3_max_reuse_distance", &Settings::max_reuse_distance},
}};
constexpr double kMostElements = 1e15;

/// A key of that section: beside the others or in `zero_extra`.
std::string zero_key(Values& v, std::string_view key) {
  const std::string extra = "zero_extra." + std::string(key);
  return std::string(cases::either(v, key, extra));
}

/// A whole number, which DeepSpeed's configurations also write as 5e8.
std::int64_t elements(Values& v, const std::string& key, std::int64_t fallback) {
  const double value = v.number(key, 0, kMostElements, static_cast<double>(fallback));
  if (value != std::floor(value)) v.fail_at(key, fmt::format("expected a whole number, found {}", value));
  return static_cast<std::int64_t>(value);
}

void read_zero_section(Values& v, Settings& s) {
  for (const Size& size : kSizes) s.*size.member = elements(v, zero_key(v, size.key), s.*size.member);
  const std::string bucket = zero_key(v, "reduce_bucket_size"), overlap = zero_key(v, "overlap_comm");
  if (s.reduce_bucket == 0) v.fail_at(bucket, "expected a number of elements above 0");
  s.overlap_communication = v.flag(overlap, true);
  if (s.zero_stage == 1 && !s.overlap_communication)
    v.fail_at(overlap, "expected true at zero_stage 1: the other way is not modelled");
  s.contiguous_gradients = v.flag(zero_key(v, "contiguous_gradients"), true);
  const std::string groups = zero_key(v, "sub_group_size"), linear = zero_key(v, "memory_efficient_linear");
  if (v.given(groups)) v.fail_at(groups, "expected none: only DeepSpeed's default is modelled");
  if (v.flag(linear)) v.fail_at(linear, "expected false, as the script sets it: true is not modelled");
}

/// Flags of the script that would take other tensors than those that are modelled.
void refuse_others(Values& v) {
  for (const char* key : {"enable_hybrid_engine", "enable_ema", "compute_fp32_loss"})
    if (v.flag(key)) v.fail_at(key, "expected false: true is not modelled");
  for (const char* key : {"gradient_accumulation_steps", "generation_batches", "ppo_epochs"})
    if (v.integer(key, 1, kMost, 1) != 1) v.fail_at(key, "expected 1: more are not modelled");
}

/// The scale at which gradients of a fresh model no longer overflow fp16; an assumption.
constexpr std::int64_t kSafeScalePower = 8;
/// Overflows that the scaler lets pass before it halves the scale (hysteresis).
constexpr std::int64_t kHysteresis = 2;

}  // namespace

std::span<const std::string_view> known_keys() {
  return kKeys;
}

std::int64_t skipped_steps(std::int64_t power) {
  return power <= kSafeScalePower ? 0 : power - kSafeScalePower + kHysteresis - 1;
}

Result<std::shared_ptr<Settings>> read_settings(Values& v, const JobOptions& options) {
  auto made = std::make_shared<Settings>();
  Settings& s = *made;
  s.name = v.text("name");
  s.actor = cases::model(v, "actor", options.model);
  s.critic = v.given("critic") ? cases::model(v, "critic") : s.actor;
  cases::require(v, {"batch", "prompt", "response", "zero_stage"}, "a number");
  s.zero_stage = s.critic_stage = v.integer("zero_stage", 0, 3);
  s.dtype = v.word("dtype", {"fp16", "bf16"}, "fp16") == "bf16" ? DType::bf16 : DType::fp16;
  s.batch = v.integer("batch", 1, kMost, 1);
  s.prompt = v.integer("prompt", 1, kMostTokens, 1);
  s.response = v.integer("response", 1, kMostTokens, 1);
  for (const char* section : {"fp16_extra", "zero_extra"})
    if (v.given(section)) v.tree(section);
  s.steps_given = v.given("steps");
  s.steps = static_cast<int>(v.integer("steps", 1, 1000, 3));
  s.initial_scale_power = v.integer("fp16_extra.initial_scale_power", 0, 32, 16);
  // A scale of its own choice, not one that falls from a power of two: as far as it is known, it fits.
  if (v.number("fp16_extra.loss_scale", 0, 1e9, 0) > 0) s.initial_scale_power = 0;
  s.offload = v.flag("offload");
  s.pin_memory = v.flag("pin_memory");
  s.offload_reference = v.flag("offload_reference_model");
  s.offload_reward = v.flag("offload_reward_model");
  read_zero_section(v, s);
  refuse_others(v);
  s.grad_ckpt = s.critic_ckpt = v.flag("grad_ckpt");
  s.actor_lora = v.integer("actor_lora_dim", 0, kMostRank, 0);
  s.critic_lora = v.integer("critic_lora_dim", 0, kMostRank, 0);
  s.only_lora = v.flag("only_optimize_lora");
  s.padded = v.flag("padded", true);
  s.empty_cache = v.word("empty_cache", {"none", "inference", "all"}, "none");
  s.world = v.integer("world", 1, 65536, 2);
  cases::read_machine(v, s);
  if (!v.failed()) {
    if (s.offload && s.zero_stage == 0)
      v.fail_at("offload", "expected zero_stage 1 to 3: without sharding there is no offload");
    if (s.only_lora && s.actor_lora + s.critic_lora == 0)
      v.without_effect("only_optimize_lora", "no model has adapters");
    if (!s.offload && v.given("pin_memory")) v.without_effect("pin_memory", "nothing is offloaded");
    for (const char* key : {"offload_reference_model", "offload_reward_model"})
      if (s.zero_stage != 3 && v.given(key)) v.without_effect(key, "only zero_stage 3 offloads parameters");
    cases::check_positions(v, "actor", s.actor.get(), s.prompt, s.response);
    cases::check_program(v, "actor", s.actor.get(), cases::default_attention(*s.actor));
    if (s.critic != s.actor) {
      cases::check_positions(v, "critic", s.critic.get(), s.prompt, s.response);
      cases::check_vocabulary(v, "critic", s.critic.get(), s.actor.get());
      cases::check_program(v, "critic", s.critic.get(), cases::default_attention(*s.critic));
    }
  }
  HEADROOM_TRY(v.status());
  return made;
}

}  // namespace headroom::deepspeed_chat
