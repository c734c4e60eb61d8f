#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "planner/frameworks/lora_targets.h"
#include "planner/frameworks/torch/settings.h"

namespace headroom::torch {
namespace {

constexpr std::int64_t kMost = cases::kMostSequences, kMostTokens = cases::kMostTokens;

constexpr std::array<std::string_view, 51> kKeys = {"name",
                                                    "group",
                                                    "trace",
                                                    "actor",
                                                    "critic",
                                                    "algo",
                                                    "algorithm",
                                                    "use_ref",
                                                    "use_reward",
                                                    "precision",
                                                    "frozen_dtype",
                                                    "amp_dtype",
                                                    "grad_scaler",
                                                    "grad_ckpt_every",
                                                    "batch",
                                                    "micro_batch",
                                                    "logprob_micro_batch",
                                                    "prompt",
                                                    "response",
                                                    "steps",
                                                    "epochs",
                                                    "adam",
                                                    "clip",
                                                    "dropout_off",
                                                    "token_logprob",
                                                    "fused_chunk",
                                                    "logits_fp32",
                                                    "grad_ckpt",
                                                    "reentrant",
                                                    "lora",
                                                    "lora_targets",
                                                    "activation_offload",
                                                    "ems",
                                                    "empty_cache",
                                                    "empty_after_init",
                                                    "entropy",
                                                    "entropy_chunk",
                                                    "attn",
                                                    "sdpa_kernel",
                                                    "no_generate",
                                                    "pass_mask",
                                                    "cpu_offload",
                                                    "ref_offload",
                                                    "shard_frozen",
                                                    "reshard_after_forward",
                                                    "_conf",
                                                    "_world",
                                                    "device",
                                                    "total_memory",
                                                    "alloc_conf",
                                                    "seed"};

void check_divides(Values& values, std::string_view key, std::int64_t part, std::int64_t batch) {
  if (batch % part != 0)
    values.fail_at(key,
                   fmt::format("expected a divisor of the batch of {} sequences, found {}", batch, part));
}

/// SFT, reward models and DPO learn from given sequences: nothing is generated, scored or valued.
void check_algorithm(Values& values, const Settings& s) {
  if (s.algo == "ppo" || s.algo == "grpo") return;
  const std::string why =
      fmt::format("expected algo: ppo or grpo, found {}: it works on given sequences", s.algo);
  for (const char* key : {"use_reward", "no_generate"})
    if (values.given(key)) values.fail_at(key, why);
  if (s.algo != "dpo" && values.given("use_ref"))
    values.fail_at("use_ref", fmt::format("expected an algorithm with a reference, found {}", s.algo));
  if (s.algo == "dpo" && !s.use_ref)
    values.fail_at("use_ref", "expected true with algo: dpo, whose loss compares with the reference");
  if (s.algo == "sft") return;
  for (const auto& [key, count] : {std::pair{"batch", s.batch}, std::pair{"micro_batch", s.micro_batch}})
    if (count % 2 != 0)
      values.fail_at(key, fmt::format("expected an even number (chosen and rejected), found {}", count));
}

/// Every trained model has modules that the targets name.
void read_targets(Values& values, Settings& s) {
  const bool is_list = values.given("lora_targets") && values.listed("lora_targets");
  const auto targets = [&](const Architecture& model, bool scalar) -> std::vector<std::string> {
    Result<cases::LoraTargets> made = cases::lora_targets(model, s.lora_targets, is_list, scalar);
    if (!made) {
      values.fail_with(std::move(made.error()), "lora_targets");
      return {};
    }
    for (const std::string& word : made->unmatched)
      values.warn_at("lora_targets", fmt::format("no linear module of {} is named {}", model.family, word));
    return std::move(made->names);
  };
  s.actor_targets = targets(*s.actor, s.algo == "reward_model");
  if (s.algo == "ppo") s.critic_targets = targets(*s.critic, true);
}

/// What each key needs of another one.
void check_needs(Values& values, const Settings& s) {
  if (s.precision != "amp" && values.given("amp_dtype"))
    values.fail_at("amp_dtype", fmt::format("expected precision: amp, found {}", s.precision));
  if (s.grad_scaler && (s.precision != "amp" || s.amp_dtype != DType::fp16))
    values.fail_at("grad_scaler",
                   "expected precision: amp with amp_dtype: fp16; gradients in fp16 are never unscaled");
  if (s.entropy != "none" && s.algo != "ppo" && s.algo != "grpo")
    values.fail_at("entropy", fmt::format("expected algo: ppo or grpo, found {}", s.algo));
  if (values.given("entropy_chunk") && s.entropy != "chunked")
    values.fail_at("entropy_chunk", fmt::format("expected entropy: chunked, found {}", s.entropy));
  if (values.given("grad_ckpt_every") && !s.grad_ckpt)
    values.fail_at("grad_ckpt_every", "expected grad_ckpt: true, found no checkpointing");
  if (s.adam == "8bit" && s.precision == "fsdp")
    values.fail_at("adam", "expected foreach, fused or loop with precision: fsdp, found 8bit");
}

/// Whether a model of the critic's shape exists.
bool has_critic_shape(const Settings& s) {
  return s.algo == "ppo" || (s.algo == "grpo" && s.use_reward);
}

/// Keys that the loop does not come to read under the others' values.
void note_without_effect(Values& values, const Settings& s) {
  const auto note = [&](std::initializer_list<const char*> keys, bool read, const char* why) {
    for (const char* key : keys)
      if (!read && values.given(key)) values.without_effect(key, why);
  };
  const bool sharded = s.precision == "fsdp";
  note({"fused_chunk"}, s.token_logprob == "fused", "it is of `token_logprob: fused`");
  note({"logits_fp32", "entropy_chunk"}, s.token_logprob != "fused",
       "fused log-probs have no logits of all positions");
  note({"lora_targets"}, s.lora > 0, "nothing is adapted without a rank in `lora`");
  note({"reentrant"}, s.grad_ckpt, "nothing is checkpointed without `grad_ckpt: true`");
  note({"cpu_offload", "ref_offload", "reshard_after_forward", "shard_frozen"}, sharded,
       "it is FSDP's (`precision: fsdp`)");
  note({"ref_offload"}, !sharded || s.shard_frozen, "frozen models are not sharded");
  note({"critic"}, has_critic_shape(s), "the algorithm has neither a critic nor a reward model");
}

void check(Values& values, const Settings& s) {
  check_divides(values, "micro_batch", s.micro_batch, s.batch);
  check_algorithm(values, s);
  check_needs(values, s);
  cases::check_positions(values, "actor", s.actor.get(), s.prompt, s.response);
  const AttentionImplementation attention =
      s.attn == "eager" ? AttentionImplementation::eager : AttentionImplementation::sdpa;
  cases::check_program(values, "actor", s.actor.get(), attention, "attn");
  if (has_critic_shape(s) && s.critic != s.actor) {
    cases::check_positions(values, "critic", s.critic.get(), s.prompt, s.response);
    cases::check_vocabulary(values, "critic", s.critic.get(), s.actor.get());
    cases::check_program(values, "critic", s.critic.get(), attention, "attn");
  }
  note_without_effect(values, s);
}

}  // namespace

std::span<const std::string_view> known_keys() {
  return kKeys;
}

Result<std::shared_ptr<Settings>> read_settings(Values& v, const JobOptions& options) {
  auto made = std::make_shared<Settings>();
  Settings& s = *made;
  s.name = v.text("name");
  s.actor = cases::model(v, "actor", options.model);
  s.critic = v.given("critic") ? cases::model(v, "critic") : s.actor;
  s.algo = v.word(cases::either(v, "algo", "algorithm"), {"ppo", "grpo", "sft", "reward_model", "rm", "dpo"},
                  "ppo");
  if (s.algo == "rm") s.algo = "reward_model";
  s.use_ref = v.flag("use_ref", true);
  s.use_reward = v.flag("use_reward", s.algo == "ppo");
  s.precision = v.word("precision", {"bf16", "fp16", "fp32", "amp", "master", "fsdp"}, "bf16");
  s.amp_dtype = v.word("amp_dtype", {"bf16", "fp16"}, "bf16") == "fp16" ? DType::fp16 : DType::bf16;
  s.grad_scaler = v.flag("grad_scaler");
  if (v.given("frozen_dtype")) s.frozen_dtype = v.dtype("frozen_dtype", DType::bf16);
  if (s.frozen_dtype && *s.frozen_dtype != DType::bf16 && *s.frozen_dtype != DType::fp16 &&
      *s.frozen_dtype != DType::fp32)
    v.fail_at("frozen_dtype", "expected bfloat16, float16 or float32: models are built in no other");
  cases::require(v, {"batch", "prompt", "response"}, "a number");
  s.batch = v.integer("batch", 1, kMost, 1);
  s.micro_batch = v.integer("micro_batch", 1, kMost, s.batch);
  s.logprob_micro_batch = std::min(v.integer("logprob_micro_batch", 1, kMost, s.micro_batch), s.batch);
  s.prompt = v.integer("prompt", 1, kMostTokens, 1);
  s.response = v.integer("response", 1, kMostTokens, 1);
  s.steps = static_cast<int>(v.integer("steps", 1, 1000, 2));
  s.epochs = v.integer("epochs", 1, 1000, 1);
  s.adam = v.word("adam", {"foreach", "fused", "loop", "8bit"}, "foreach");
  s.clip = v.flag("clip", true);
  s.dropout_off = v.flag("dropout_off", true);
  s.token_logprob = v.word(
      "token_logprob", {"log_softmax", "cross_entropy", "logsumexp", "selective", "fused"}, "log_softmax");
  s.fused_chunk = v.integer("fused_chunk", 1, kMost, 512);
  s.logits_fp32 = v.flag("logits_fp32");
  s.grad_ckpt = v.flag("grad_ckpt");
  s.reentrant = v.flag("reentrant");
  s.grad_ckpt_every = v.integer("grad_ckpt_every", 1, 1000, 1);
  s.lora = v.integer("lora", 0, 65536);
  s.lora_targets = v.given("lora_targets") ? v.texts("lora_targets") : std::vector<std::string>{"all-linear"};
  s.activation_offload = v.flag("activation_offload");
  s.ems = v.flag("ems");
  s.empty_cache = v.word("empty_cache", {"none", "inference", "training", "all"}, "none");
  s.empty_after_init = v.flag("empty_after_init", true);
  s.entropy = v.word("entropy", {"none", "eager", "chunked"}, "none");
  s.entropy_chunk = v.integer("entropy_chunk", 1, kMost, 2048);
  s.attn = v.word("attn", {"sdpa", "eager"}, "sdpa");
  s.sdpa_kernel = v.word("sdpa_kernel", {"by_gpu", "cudnn", "flash", "efficient", "math"}, "by_gpu");
  s.no_generate = v.flag("no_generate");
  s.pass_mask = v.flag("pass_mask");
  // Any word switches tracing on; it may be a boolean too.
  const std::string trace = v.text("trace");
  s.traces_stacks = trace == "frames" || trace == "true" || trace == "True" || trace == "1";
  s.trace = !trace.empty() && trace != "false" && trace != "False" && trace != "0";
  s.cpu_offload = v.flag("cpu_offload");
  s.ref_offload = v.flag("ref_offload");
  s.shard_frozen = v.flag("shard_frozen", true);
  s.reshard_after_forward = v.flag("reshard_after_forward", true);
  s.world = v.integer("_world", 1, 65536, 1);
  cases::read_machine(v, s, "_conf");
  if (!v.failed()) check(v, s);
  if (!v.failed() && s.lora > 0) read_targets(v, s);
  HEADROOM_TRY(v.status());
  return made;
}

}  // namespace headroom::torch
