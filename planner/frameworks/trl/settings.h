#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/architecture/architecture.h"
#include "models/base/dtype.h"
#include "planner/frameworks/case_file.h"
#include "planner/frameworks/settings/run.h"
#include "planner/frameworks/settings/table.h"
#include "simulator/job/role.h"

namespace headroom::trl {

using settings::Release;

/// The newest release that is read.
inline constexpr Release kHead{1, 9, 0};

enum class Trainer { grpo, rloo, ppo, dpo, sft, reward };

/// What Accelerate makes of the run's processes.
enum class Distributed { none, data_parallel, deepspeed, fsdp };

/// What the launcher says: Accelerate's configuration or flags, with a DeepSpeed configuration.
struct Launcher {
  std::string type;                       ///< distributed_type as written: NO, MULTI_GPU, DEEPSPEED, FSDP
  std::optional<std::int64_t> processes;  ///< of all machines
  std::int64_t machines = 1;
  std::string mixed_precision;
  bool use_deepspeed = false, use_fsdp = false;
  // DeepSpeed.
  std::int64_t stage = 2;
  std::string offload_optimizer = "none", offload_parameters = "none", accumulation;
  bool zero3_init = true;
  // FSDP.
  std::int64_t fsdp_version = 1;
  std::string reshard = "true", wrap_policy, state_dict = "FULL_STATE_DICT";
  std::string sharding_strategy;
  bool offload_params = false, fsdp_checkpointing = false, forward_prefetch = false, ram_efficient = true;
};

/// A DeepSpeed configuration file; an empty text is a key that is not in it.
struct DeepspeedFile {
  bool given = false;
  std::optional<std::int64_t> stage;
  std::string reduce_bucket = "500000000", allgather_bucket = "500000000";
  std::string prefetch_bucket = "50000000", persistence = "100000";
  std::string live = "1000000000", reuse = "1000000000";
  std::string contiguous = "true", overlap;
  std::string offload_optimizer = "none", offload_parameters = "none";
  std::string pin_optimizer, pin_parameters, optimizer, bf16, fp16, accumulation;
};

/// vLLM beside the trainer.
struct Generation {
  bool use_vllm = false;
  std::string mode = "server", device;
  double utilization = 0.3;
  std::int64_t tensor = 1;
  std::optional<std::int64_t> max_length;
  bool sleep = false;
  // Of a server, which its own command starts.
  std::int64_t server_tensor = 1, server_data = 1;
  double server_utilization = 0.9;
  bool enforce_eager = false;
};

/// What a run's keys say.
struct Settings : settings::TableSettings {
  cases::MachineSettings machine;
  bool recorded = false;  ///< a case file: each training step is a step of the job
  std::string name;
  Trainer trainer = Trainer::grpo;
  Launcher launcher;
  DeepspeedFile deepspeed;
  Generation generation;
  std::int64_t gpus = 1;  ///< of all machines that train
  std::optional<std::int64_t> stated_gpus;
  std::string named_trainer;
  bool takes_accelerate_flags = true;  ///< `accelerate launch` starts it, or `trl`, which passes them on

  std::shared_ptr<const Architecture> model, reward_model;
  std::string model_name, reward_name, sft_model, reward_path;
  std::int64_t batch = 8, accum = 1, prompt = 1, response = 256;
  std::optional<std::int64_t> max_prompt, max_length, generation_batch, precompute_batch;
  std::optional<std::int64_t> given_steps_per_generation;
  std::int64_t pad_to = 1;
  std::int64_t num_generations = 8, num_iterations = 1;
  std::int64_t steps_per_generation = 1;      ///< micro-batches that one generation fills
  std::int64_t epochs = 1, mini_batches = 1;  ///< PPO: passes over an update's completions, and cuts of each
  std::int64_t rollout_batch = 64;            ///< PPO: sequences a generation and a forward without gradients
  std::int64_t prompts = 32;                  ///< PPO: in the dataset; 0: many
  double temperature = 1;
  double beta = 0, entropy_coefficient = 0, entropy_quantile = 1;
  bool adaptive_entropy = false;
  std::string type;  ///< of the weights as they are loaded; empty: the release's default
  std::string torch_type;
  DType dtype = DType::fp32;
  std::string bf16, fp16;       ///< flags; empty: not given
  bool mixed_precision = true;  ///< bf16 autocast
  std::int64_t lora = 0, lora_r = 16;
  double lora_dropout = 0;
  bool use_peft = false, in_4bit = false, in_8bit = false;
  std::vector<std::string> lora_targets;
  bool grad_ckpt = true;
  bool reentrant = false;
  std::string attention, optim, loss_type;
  std::string init_type, init_type_old, init_attention;  ///< of model_init_kwargs
  std::string eval_strategy = "no", old_eval_strategy = "no";
  std::int64_t eval_batch = 8;
  double eval_steps = 0;
  OptimizerImplementation optimizer = OptimizerImplementation::fused;
  OptimizerKind optimizer_kind = OptimizerKind::adamw;
  double max_grad_norm = 1;
  bool liger = false, liger_loss = false, compiled = false;
  bool gathers_to_generate = true, offload_activations = false, sync_reference = false;
  bool precompute = false, reference_free = false, packing = false, padding_free = false;
  bool importance_sampling = true, head_fp32 = false, disable_dropout = false;
  std::string packing_strategy;
  std::string save_strategy = "steps";
  double save_steps = 500;
  std::string resume, find_unused;
  DType half_ = DType::bf16;  ///< of autocast and of DeepSpeed's weights

  Settings() { release = kHead; }
  bool generates() const {
    return trainer == Trainer::grpo || trainer == Trainer::rloo || trainer == Trainer::ppo;
  }
  bool online() const { return trainer == Trainer::grpo || trainer == Trainer::rloo; }
  bool pairs() const { return trainer == Trainer::dpo || trainer == Trainer::reward; }
  /// Rows of a micro-batch: chosen and rejected answers lie in one batch.
  std::int64_t rows() const {
    // GRPO's batch counted prompts before 0.15.
    if (online() && !since(0, 15)) return batch * num_generations;
    return pairs() ? 2 * batch : batch;
  }
  /// SFT's rows joined into one.
  bool one_row() const {
    const bool fills = packing && packing_strategy != "wrapped" && since(0, 19);
    return trainer == Trainer::sft && (padding_free || fills);
  }
  DType half() const { return half_; }
  bool evaluates() const { return eval_strategy != "no" || old_eval_strategy != "no"; }
  bool server() const { return generation.use_vllm && generation.mode == "server"; }
  bool colocated() const { return generation.use_vllm && !server(); }
  bool sleeps() const { return colocated() && generation.sleep; }
  bool has_reference() const {
    return trainer == Trainer::ppo || (online() && beta != 0) || (trainer == Trainer::dpo && !reference_free);
  }
  bool precomputes() const { return trainer == Trainer::dpo && precompute; }
  Distributed distributed() const;
  bool zero3() const { return distributed() == Distributed::deepspeed && launcher.stage == 3; }
};

/// The keys of `trainer`'s run in every release: of the trainer's own configuration, model and script, of
/// Accelerate (`accelerate.`, whose flags and files have them without that word) and of a DeepSpeed file
/// (`ds.`).
std::vector<settings::Key> keys_of(Trainer trainer);

void read_settings(Values& values, Settings& settings);
bool assign(Settings& settings, const Setting& setting);
/// What follows from the fields: lengths, dtypes, batches. Called again after a knob changed one.
void derive(Settings& settings);

/// What TRL, Accelerate or DeepSpeed refuse at start-up.
struct Problem {
  std::string key, message;
};
std::optional<Problem> find_problem(const Settings& settings);

/// The Job that runs these settings. Errors: `find_problem`'s, then what the job's own validation finds.
Result<Job> make_job(const Settings& settings);

}  // namespace headroom::trl
