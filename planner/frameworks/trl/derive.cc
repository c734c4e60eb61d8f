#include <algorithm>

#include "planner/frameworks/trl/settings.h"

namespace headroom::trl {
namespace {

constexpr std::int64_t kPrompt = 512, kLength = 1024;

bool is_true(const std::string& text) {
  return Document::scalar(text).as_bool().value_or(false);
}

/// Autocast's type, or DeepSpeed's: of the trainer's flags, else of the launcher's.
void derive_precision(Settings& s) {
  std::string loaded = s.since(0, 27) || !s.type.empty() ? s.type : s.torch_type;
  for (const std::string* own : {&s.init_type_old, &s.init_type})
    if (!own->empty()) loaded = *own;
  // Nothing asked for: fp32 in Transformers 4, which releases before 0.27 had. "auto" is what checkpoints
  // of today's models have.
  s.dtype = loaded == "auto" ? DType::bf16 : parse_dtype(loaded).value_or(DType::fp32);
  const bool fp16 = is_true(s.fp16);
  bool bf16 = is_true(s.bf16) || (s.bf16.empty() && s.since(0, 19) && !fp16);
  const std::string& launcher = s.launcher.mixed_precision;
  if (s.trainer == Trainer::ppo) {
    // Its loop makes an Accelerator of its own, which finds the launcher's setting alone since
    // Transformers 5.
    const bool heard = !s.since(1, 2);
    s.mixed_precision = !launcher.empty() ? launcher != "no" : heard && (bf16 || fp16);
    s.half_ = launcher == "fp16" || (launcher.empty() && fp16) ? DType::fp16 : DType::bf16;
    s.disable_dropout = true;  // without being asked
  } else if (bf16 || fp16) {
    s.mixed_precision = true;
    s.half_ = fp16 ? DType::fp16 : DType::bf16;
  } else {
    s.mixed_precision = launcher == "bf16" || launcher == "fp16";
    s.half_ = launcher == "fp16" ? DType::fp16 : DType::bf16;
  }
  if (s.distributed() == Distributed::deepspeed && s.deepspeed.given) {
    const bool half = s.deepspeed.fp16 != "auto" && is_true(s.deepspeed.fp16);
    if (half) s.half_ = DType::fp16;
    if (half || (s.deepspeed.bf16 != "auto" && is_true(s.deepspeed.bf16))) s.mixed_precision = true;
  }
}

void derive_optimizer(Settings& s) {
  // Transformers asks for the fused one from PyTorch 2.8 on.
  const std::string name = !s.optim.empty() ? s.optim : s.since(0, 22) ? "adamw_torch_fused" : "adamw_torch";
  s.optimizer_kind = name == "sgd" ? OptimizerKind::sgd : OptimizerKind::adamw;
  s.optimizer = name.find("8bit") != std::string::npos ? OptimizerImplementation::eight_bit
                : name == "adamw_torch_fused"          ? OptimizerImplementation::fused
                                                       : OptimizerImplementation::foreach_;
}

void derive_lengths(Settings& s) {
  const auto rounded = [&](std::int64_t tokens) { return ceil_div(tokens, s.pad_to) * s.pad_to; };
  if (s.generates()) {
    // A name of Headroom's own says how long prompts are; else the trainer's bound, where it has one.
    s.prompt = rounded(s.max_length.value_or(s.max_prompt.value_or(kPrompt)));
    return;
  }
  const std::int64_t length = rounded(s.max_length.value_or(kLength));
  if (s.trainer == Trainer::dpo) {
    s.response = length / 2;
    s.prompt = length - s.response;
    return;
  }
  s.response = 0;
  s.prompt = s.one_row() ? length * s.batch : length;
}

}  // namespace

Distributed Settings::distributed() const {
  if (deepspeed.given || launcher.use_deepspeed || launcher.type == "DEEPSPEED")
    return Distributed::deepspeed;
  if (launcher.use_fsdp || launcher.type == "FSDP") return Distributed::fsdp;
  if (launcher.type == "NO") return Distributed::none;
  return gpus > 1 ? Distributed::data_parallel : Distributed::none;
}

void derive(Settings& s) {
  if (s.deepspeed.stage) s.launcher.stage = *s.deepspeed.stage;
  s.gpus = s.launcher.type == "NO" ? 1 : s.launcher.processes.value_or(s.stated_gpus.value_or(1));
  s.lora = s.use_peft ? s.lora_r : 0;
  if (s.attention.empty()) s.attention = s.init_attention;
  s.resumed = s.resumed || (!s.resume.empty() && s.resume != "false" && s.resume != "False");
  derive_precision(s);
  derive_optimizer(s);
  derive_lengths(s);
  if (s.trainer == Trainer::ppo) s.prompts = 0;
  if (!s.online()) return;
  const std::int64_t a_step = s.rows() * s.gpus;
  s.steps_per_generation = s.given_steps_per_generation ? *s.given_steps_per_generation
                           : s.generation_batch ? std::max<std::int64_t>(1, *s.generation_batch / a_step)
                           : s.since(0, 17)     ? s.accum
                                                : 1;
}

}  // namespace headroom::trl
