#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "planner/frameworks/trl/settings.h"

namespace headroom::trl {
namespace {

using Found = std::optional<Problem>;

Found problem(std::string key, std::string message) {
  return Problem{.key = std::move(key), .message = std::move(message)};
}

/// GRPOConfig's and RLOOConfig's own checks.
Found generations(const Settings& s) {
  if (s.num_generations < 2 && s.since(0, 15))
    return problem("num_generations", fmt::format("expected at least 2 to compare with each other, found {}",
                                                  s.num_generations));
  if (s.given_steps_per_generation && s.generation_batch)
    return problem("generation_batch_size",
                   "expected it or steps_per_generation, found both: one follows from the other");
  const std::int64_t a_step = s.rows() * s.gpus, all = a_step * s.steps_per_generation;
  if (s.generation_batch && *s.generation_batch % a_step != 0)
    return problem("generation_batch_size",
                   fmt::format("expected a multiple of the {} completions of a training step "
                               "(per_device_train_batch_size x {} processes), found {}",
                               a_step, s.gpus, *s.generation_batch));
  if (all % s.num_generations != 0)
    return problem("num_generations",
                   fmt::format("expected a divisor of the {} completions that are generated at once "
                               "(per_device_train_batch_size x {} processes x {} steps), found {}",
                               all, s.gpus, s.steps_per_generation, s.num_generations));
  if (std::lcm(s.accum, s.steps_per_generation * s.num_iterations) > 1024)
    return problem("steps_per_generation",
                   fmt::format("expected training steps of a generation ({}) and of an optimizer step ({}) "
                               "that meet within 1024 steps, found none",
                               s.steps_per_generation * s.num_iterations, s.accum));
  return {};
}

Found engine(const Settings& s) {
  const Generation& g = s.generation;
  if (!g.use_vllm) return {};
  if (g.mode != "server" && g.mode != "colocate")
    return problem("vllm_mode", fmt::format("expected server or colocate, found {}", g.mode.substr(0, 40)));
  if (!(g.utilization > 0 && g.utilization <= 1))
    return problem("vllm_gpu_memory_utilization",
                   fmt::format("expected a fraction above 0 and at most 1, found {}", g.utilization));
  if (s.colocated() && s.gpus % g.tensor != 0)
    return problem("vllm_tensor_parallel_size",
                   fmt::format("expected a divisor of the {} processes, found {}", s.gpus, g.tensor));
  if (s.in_8bit) return problem("load_in_8bit", "expected false: vLLM starts with 4-bit weights only");
  return {};
}

Found losses(const Settings& s) {
  const bool liger = s.liger || s.liger_loss;
  if (s.online() && liger && (s.entropy_coefficient != 0 || s.adaptive_entropy))
    return problem("entropy_coef", "expected 0: Liger's loss has no entropy");
  if (s.online() && liger && s.entropy_quantile < 1)
    return problem("top_entropy_quantile", "expected 1.0: Liger's loss has no entropies to choose by");
  if (s.trainer == Trainer::sft && s.liger && s.loss_type == "chunked_nll")
    return problem("loss_type", "expected nll or dft with use_liger_kernel, which has a loss of its own");
  if (s.trainer == Trainer::sft && !s.loss_type.empty() && s.loss_type != "nll" && s.loss_type != "dft" &&
      s.loss_type != "chunked_nll")
    return problem("loss_type",
                   fmt::format("expected nll, dft or chunked_nll, found {}", s.loss_type.substr(0, 40)));
  if (s.trainer == Trainer::dpo && s.sync_reference && s.precompute)
    return problem("sync_ref_model", "expected false: what is precomputed can't follow the policy");
  if (s.sync_reference && s.lora > 0)
    return problem("sync_ref_model", "expected false: with adapters there is no reference model of its own");
  if (s.trainer == Trainer::ppo && s.batch * s.accum % s.mini_batches != 0)
    return problem(
        "num_mini_batches",
        fmt::format("expected a divisor of the {} sequences of an update on each process, found {}",
                    s.batch * s.accum, s.mini_batches));
  return {};
}

Found launcher(const Settings& s) {
  const Launcher& l = s.launcher;
  if (!l.type.empty() && l.type != "NO" && l.type != "MULTI_GPU" && l.type != "DEEPSPEED" && l.type != "FSDP")
    return problem("accelerate.distributed_type",
                   fmt::format("expected NO, MULTI_GPU, DEEPSPEED or FSDP, found {}", l.type.substr(0, 40)));
  if (s.gpus % std::max<std::int64_t>(1, std::min(l.machines, s.gpus)) != 0)
    return problem("accelerate.num_processes",
                   fmt::format("expected a multiple of the {} machines, found {}", l.machines, s.gpus));
  if (s.distributed() == Distributed::fsdp) {
    if (l.fsdp_checkpointing && s.grad_ckpt && s.trainer != Trainer::ppo)
      return problem(
          "accelerate.fsdp_activation_checkpointing",
          "expected false with gradient_checkpointing, which does the same; Transformers takes one");
    if (l.fsdp_version == 2 && l.forward_prefetch)
      return problem("accelerate.fsdp_forward_prefetch", "expected false: FSDP2 has no such setting");
  }
  if (s.distributed() != Distributed::deepspeed) return {};
  for (const auto& [key, text] : {std::pair{"accelerate.gradient_accumulation_steps", &l.accumulation},
                                  std::pair{"ds.gradient_accumulation_steps", &s.deepspeed.accumulation}}) {
    const auto number = Document::scalar(*text).as_int();
    if (number && *number != s.accum)
      return problem(key, fmt::format("expected the trainer's gradient_accumulation_steps ({}) or auto, "
                                      "found {}: Transformers refuses a mismatch",
                                      s.accum, *number));
  }
  return {};
}

}  // namespace

std::optional<Problem> find_problem(const Settings& s) {
  if (Document::scalar(s.bf16).as_bool().value_or(false) &&
      Document::scalar(s.fp16).as_bool().value_or(false))
    return problem("fp16", "expected bf16 or fp16, found both");
  if (Found found = launcher(s)) return found;
  if (s.online())
    if (Found found = generations(s)) return found;
  if (Found found = engine(s)) return found;
  return losses(s);
}

}  // namespace headroom::trl
