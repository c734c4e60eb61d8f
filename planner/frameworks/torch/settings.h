#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "models/architecture/architecture.h"
#include "models/base/dtype.h"
#include "planner/configuration/values.h"
#include "planner/frameworks/case_file.h"

namespace headroom::torch {

/// The plain PyTorch loop's own settings: the `case` object of a recording, or such an object alone.
struct Settings : cases::MachineSettings {
  std::string name;
  std::shared_ptr<const Architecture> actor, critic;
  std::string algo = "ppo";
  bool use_ref = true, use_reward = true;
  std::string precision = "bf16";
  DType amp_dtype = DType::bf16;
  bool grad_scaler = false;
  std::optional<DType> frozen_dtype;
  std::int64_t batch = 1, micro_batch = 1, logprob_micro_batch = 1;
  std::int64_t prompt = 1, response = 1, epochs = 1;
  int steps = 2;
  std::string adam = "foreach";
  bool clip = true, dropout_off = true;
  std::string token_logprob = "log_softmax";
  std::int64_t fused_chunk = 512;
  bool logits_fp32 = false;
  std::string entropy = "none";
  std::int64_t entropy_chunk = 2048;
  bool grad_ckpt = false, reentrant = false;
  std::int64_t grad_ckpt_every = 1;
  std::int64_t lora = 0;
  std::vector<std::string> lora_targets;                   ///< as given
  std::vector<std::string> actor_targets, critic_targets;  ///< what they come to in the trained models
  bool activation_offload = false, ems = false;
  std::string empty_cache = "none";
  bool empty_after_init = true;
  std::string attn = "sdpa", sdpa_kernel = "by_gpu";
  bool no_generate = false, pass_mask = false, trace = false;
  bool traces_stacks = false;  ///< the trace has a stack of every allocation
  bool cpu_offload = false, ref_offload = false, shard_frozen = true, reshard_after_forward = true;
  std::int64_t world = 1;
};

/// Every key of a case, in the order of the documentation.
std::span<const std::string_view> known_keys();

/// Reads and checks a case. Errors name the key: unknown words, numbers out of range, and values that
/// contradict each other (a micro-batch that does not divide the batch, more tokens than positions …).
Result<std::shared_ptr<Settings>> read_settings(Values& values, const JobOptions& options);

/// The Job that runs these settings: roles, start and step as the loop's code orders them.
Job make_job(const Settings& settings);

}  // namespace headroom::torch
