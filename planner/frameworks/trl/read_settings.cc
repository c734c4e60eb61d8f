#include <array>

#include "planner/frameworks/trl/settings.h"

namespace headroom::trl {
namespace {

constexpr std::int64_t kMost = 1 << 24;

constexpr std::array<std::string_view, 34> kKeys = {"name",
                                                    "group",
                                                    "trainer",
                                                    "model",
                                                    "batch",
                                                    "per_device_train_batch_size",
                                                    "accum",
                                                    "gradient_accumulation_steps",
                                                    "steps_per_generation",
                                                    "prompt",
                                                    "response",
                                                    "max_completion_length",
                                                    "steps",
                                                    "max_steps",
                                                    "beta",
                                                    "num_generations",
                                                    "num_iterations",
                                                    "dtype",
                                                    "bf16",
                                                    "fp16",
                                                    "lora",
                                                    "lora_targets",
                                                    "grad_ckpt",
                                                    "gradient_checkpointing",
                                                    "optim",
                                                    "loss_type",
                                                    "temperature",
                                                    "use_vllm",
                                                    "use_liger_kernel",
                                                    "torch_empty_cache_steps",
                                                    "seed",
                                                    "device",
                                                    "total_memory",
                                                    "alloc_conf"};

/// The key of the two that is given: the short one or GRPOConfig's own.
std::string_view either(const Values& v, std::string_view own, std::string_view grpo_config) {
  return v.given(grpo_config) ? grpo_config : own;
}

/// What would take other tensors than those that are modelled.
void refuse_others(Values& v) {
  for (const char* key : {"use_vllm", "use_liger_kernel", "fp16"})
    if (v.flag(key)) v.fail_at(key, "expected false: true is not modelled");
  if (v.optional_integer("torch_empty_cache_steps", 1, kMost))
    v.fail_at("torch_empty_cache_steps", "expected none: emptying the cache is not modelled");
  // These weigh the same tokens: their tensors are the same.
  v.word("loss_type", {"dapo", "grpo", "bnpo", "dr_grpo"}, "dapo");
}

}  // namespace

std::span<const std::string_view> known_keys() {
  return kKeys;
}

Result<std::shared_ptr<Settings>> read_settings(Values& v, std::optional<int> steps) {
  auto made = std::make_shared<Settings>();
  Settings& s = *made;
  s.name = v.text("name");
  v.word("trainer", {"grpo"}, "grpo");
  if (!v.given("model")) v.fail_at("model", "expected the model's config values (model_type and sizes)");
  s.model = cases::model(v, "model");
  const std::string_view batch = either(v, "batch", "per_device_train_batch_size"),
                         response = either(v, "response", "max_completion_length");
  for (const std::string_view key : {batch, std::string_view("prompt"), response})
    if (!v.given(key)) v.fail_at(key, "expected a number, found none");
  s.batch = v.integer(batch, 1, kMost, 8);
  s.accum = v.integer(either(v, "accum", "gradient_accumulation_steps"), 1, 65536, 1);
  s.steps_per_generation = v.integer("steps_per_generation", 1, 65536, s.accum);
  s.prompt = v.integer("prompt", 1, kMost, 1);
  s.response = v.integer(response, 1, kMost, 256);
  s.num_generations = v.integer("num_generations", 2, 65536, 8);
  s.num_iterations = v.integer("num_iterations", 1, 65536, 1);
  const std::int64_t given_steps = v.integer(either(v, "steps", "max_steps"), 1, 1000, 3);
  s.steps = steps ? *steps : given_steps;
  s.beta = v.number("beta", 0, 1e6, 0);
  s.dtype = v.word("dtype", {"float32", "bfloat16"}, "float32") == "bfloat16" ? DType::bf16 : DType::fp32;
  s.mixed_precision = v.flag("bf16", true);
  s.lora = v.integer("lora", 0, 65536, 0);
  s.lora_targets = v.texts("lora_targets");
  if (s.lora_targets.empty()) s.lora_targets = {"all-linear"};
  s.grad_ckpt = v.flag(either(v, "grad_ckpt", "gradient_checkpointing"), true);
  if (v.number("temperature", 0, 1e6, 1) != 1)
    v.fail_at("temperature", "expected 1: other temperatures are not modelled");
  if (v.word("optim", {"adamw_torch_fused", "adamw_torch"}, "adamw_torch_fused") == "adamw_torch")
    s.optimizer = OptimizerImplementation::foreach_;
  refuse_others(v);
  cases::read_machine(v, s);
  if (!v.failed()) {
    if (s.batch * s.steps_per_generation % s.num_generations != 0)
      v.fail_at("num_generations",
                "expected a divisor of batch times steps_per_generation, which are generated at once");
    if (!s.lora && v.given("lora_targets")) v.fail_at("lora_targets", "expected a rank at lora");
    cases::check_positions(v, "model", s.model.get(), s.prompt, s.response);
  }
  HEADROOM_TRY(v.status());
  return made;
}

}  // namespace headroom::trl
