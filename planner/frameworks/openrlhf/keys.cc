#include <algorithm>

#include "planner/frameworks/openrlhf/settings.h"

namespace headroom::openrlhf {
namespace {

using settings::Effect;
using settings::Key;
using R = settings::Row<Settings>;

constexpr std::int64_t kMost = std::int64_t{1} << 30;

/// A flag in both dialects. Without a member it decides nothing, or nothing that is modelled.
struct Flag {
  std::string_view classic, dotted;
  settings::Member<Settings> member = std::monostate{};
  std::string_view fallback = "null";
  Effect effect = Effect::modelled;
  std::string_view note = {};
  std::int64_t least = 0, most = kMost;
};

// clang-format off
#define FIELD(type, name) [](Settings& s) -> type& { return s.name; }
using I = std::int64_t;
using O = std::optional<std::int64_t>;
using T = std::string;

/// Of every program.
constexpr Flag kCommon[] = {
    {"zero_stage", "ds.zero_stage", FIELD(I, stage), "2", Effect::modelled, "", 0, 3},
    {"adam_offload", "ds.adam_offload", FIELD(bool, adam_offload), "false"},
    {"overlap_comm", "ds.overlap_comm", FIELD(bool, overlap), "false"},
    {"grad_accum_dtype", "ds.grad_accum_dtype", FIELD(T, accumulation)},
    {"param_dtype", "ds.param_dtype", FIELD(T, precision), "bf16"},
    {"bf16", "", FIELD(bool, bf16), "false"},
    {"zpg", "ds.zpg", std::monostate{}, "1", Effect::unmodelled, "a second copy of ZeRO-3's weights in each node"},
    {"ds_tensor_parallel_size", "ds.tensor_parallel_size", FIELD(I, tensor), "1", Effect::modelled, "", 1, 1024},
    {"deepcompile", "ds.deepcompile", std::monostate{}, "false", Effect::unmodelled, "DeepCompile moves gathers and releases"},
    {"packing_samples", "ds.packing_samples", FIELD(bool, packing), "false"},
    {"ring_attn_size", "ds.ring_attn_size", FIELD(I, ring), "1", Effect::modelled, "", 1, 4096},
    {"ring_head_stride", "ds.ring_attn_head_stride", std::monostate{}, "1", Effect::none},
    {"micro_train_batch_size", "train.micro_batch_size", FIELD(I, micro_train), "null", Effect::modelled, "", 1},
    {"train_batch_size", "train.batch_size", FIELD(I, train_batch), "128", Effect::modelled, "", 1},
    {"max_epochs", "train.max_epochs", FIELD(I, epochs), "1", Effect::modelled, "", 1, 10000},
    {"flash_attn", "", FIELD(bool, flash), "false"},
    {"attn_implementation", "ds.attn_implementation", FIELD(T, attention), "flash_attention_2"},
    {"experts_implementation", "ds.experts_implementation", std::monostate{}, "null", Effect::unmodelled, "kernels of routed experts"},
    {"use_liger_kernel", "ds.use_liger_kernel", FIELD(bool, liger), "false"},
    {"load_in_4bit", "ds.load_in_4bit", FIELD(bool, load_in_4bit), "false"},
    {"lora_rank", "ds.lora.rank", FIELD(I, lora_rank), "0", Effect::modelled, "", 0, 65536},
    {"lora_alpha", "ds.lora.alpha", std::monostate{}, "16", Effect::none, "a factor"},
    {"target_modules", "ds.lora.target_modules", FIELD(std::vector<std::string>, lora_targets)},
    {"lora_dropout", "ds.lora.dropout", FIELD(double, lora_dropout), "0"},
    {"load_checkpoint", "ckpt.load_enable", FIELD(bool, resumed), "false"},
    {"save_steps", "ckpt.save_steps", FIELD(I, save_steps), "-1", Effect::modelled, "", -1},
    {"optim", "optim", std::monostate{}, "adam", Effect::unmodelled, "the optimizer"},
};

/// Of the RL program.
constexpr Flag kRl[] = {
    {"actor_num_nodes", "actor.num_nodes", FIELD(I, actor.nodes), "1", Effect::modelled, "", 1, 100000},
    {"actor_num_gpus_per_node", "actor.num_gpus_per_node", FIELD(I, actor.gpus), "8", Effect::modelled, "", 1, 1024},
    {"ref_num_nodes", "ref.num_nodes", FIELD(I, ref.nodes), "1", Effect::modelled, "", 1, 100000},
    {"ref_num_gpus_per_node", "ref.num_gpus_per_node", FIELD(I, ref.gpus), "8", Effect::modelled, "", 1, 1024},
    {"critic_num_nodes", "critic.num_nodes", FIELD(I, critic.nodes), "1", Effect::modelled, "", 1, 100000},
    {"critic_num_gpus_per_node", "critic.num_gpus_per_node", FIELD(I, critic.gpus), "8", Effect::modelled, "", 1, 1024},
    {"reward_num_nodes", "reward.num_nodes", FIELD(I, reward.nodes), "1", Effect::modelled, "", 0, 100000},
    {"reward_num_gpus_per_node", "reward.num_gpus_per_node", FIELD(I, reward.gpus), "8", Effect::modelled, "", 0, 1024},
    {"colocate_all_models", "train.colocate_all", FIELD(bool, colocate_all), "false"},
    {"colocate_actor_ref", "train.colocate_actor_ref", FIELD(bool, colocate_actor_ref), "false"},
    {"colocate_critic_reward", "train.colocate_critic_reward", FIELD(bool, colocate_critic_reward), "false"},
    {"async_train", "train.async_enable", FIELD(bool, async), "false"},
    {"vllm_num_engines", "vllm.num_engines", FIELD(O, engines), "null", Effect::modelled, "", 0, 100000},
    {"vllm_tensor_parallel_size", "vllm.tensor_parallel_size", FIELD(I, engine_tensor), "1", Effect::modelled, "", 1, 1024},
    {"vllm_gpu_memory_utilization", "vllm.gpu_memory_utilization", FIELD(double, utilization), "0.95"},
    {"vllm_enable_sleep", "vllm.enable_sleep", FIELD(bool, engine_sleep), "false"},
    {"enforce_eager", "vllm.enforce_eager", FIELD(bool, enforce_eager), "false"},
    {"enable_prefix_caching", "vllm.enable_prefix_caching", std::monostate{}, "false", Effect::none, "keeps blocks that the cache has anyway"},
    {"enable_vllm_is_correction", "algo.advantage.is_correction_enable", FIELD(bool, corrects), "false"},
    {"vllm_sync_backend", "vllm.sync_backend", std::monostate{}, "nccl", Effect::none, "the buffers are alike"},
    {"deepspeed_enable_sleep", "ds.enable_sleep", FIELD(bool, sleep), "false"},
    {"use_dynamic_batch", "train.dynamic_batch_enable", FIELD(bool, dynamic), "false"},
    {"train_max_tokens_per_gpu", "train.max_tokens_per_gpu", FIELD(I, train_tokens), "16192", Effect::modelled, "", 1},
    {"rollout_max_tokens_per_gpu", "rollout.max_tokens_per_gpu", FIELD(O, rollout_tokens), "null", Effect::modelled, "", 1},
    {"micro_rollout_batch_size", "rollout.micro_batch_size", FIELD(I, micro_rollout), "null", Effect::modelled, "", 1},
    {"rollout_batch_size", "rollout.batch_size", FIELD(I, rollout_batch), "1024", Effect::modelled, "", 1},
    {"n_samples_per_prompt", "rollout.n_samples_per_prompt", FIELD(I, samples), "1", Effect::modelled, "", 1, 100000},
    {"prompt_max_len", "", FIELD(I, prompt_length), "1024", Effect::modelled, "", 1, 1 << 24},
    {"generate_max_len", "", FIELD(I, response_length), "1024", Effect::modelled, "", 1, 1 << 24},
    {"max_len", "data.max_len", FIELD(I, max_length), "2048", Effect::modelled, "", 1, 1 << 24},
    {"max_new_tokens", "rollout.max_new_tokens", FIELD(O, max_new_tokens), "null", Effect::modelled, "", 1, 1 << 24},
    {"gradient_checkpointing", "actor.gradient_checkpointing_enable", FIELD(bool, checkpointing), "false"},
    {"gradient_checkpointing_use_reentrant", "actor.gradient_checkpointing_reentrant", FIELD(bool, reentrant), "false"},
    {"enable_ema", "train.enable_ema", FIELD(bool, ema), "false"},
    {"ref_reward_offload", "", FIELD(bool, ref_offload), "false"},
    {"", "ref.offload", FIELD(bool, ref_offload), "false"},
    {"", "reward.offload", FIELD(bool, reward_offload), "false"},
    {"init_kl_coef", "algo.kl.init_coef", FIELD(double, kl_coefficient), "0.01"},
    {"use_kl_loss", "algo.kl.use_loss", FIELD(bool, kl_loss), "false"},
    {"advantage_estimator", "algo.advantage.estimator", FIELD(T, estimator), "gae"},
    {"entropy_loss_coef", "actor.entropy_coef", FIELD(T, entropy)},
    {"temperature", "rollout.temperature", FIELD(double, temperature), "1.0"},
    {"freezing_actor_steps", "critic.freezing_steps", FIELD(I, freezing_steps), "-1", Effect::modelled, "", -1},
    {"pretrain", "actor.model_name_or_path", FIELD(T, pretrain)},
    {"reward_pretrain", "reward.model_name_or_path", FIELD(T, reward_pretrain)},
    {"critic_pretrain", "critic.model_name_or_path", FIELD(T, critic_pretrain)},
    {"remote_rm_url", "reward.remote_url", FIELD(T, remote_rm)},
    {"agent_func_path", "train.agent_func_path", FIELD(T, agent)},
    {"actor_optim", "actor.optim", std::monostate{}, "adam", Effect::unmodelled, "the optimizer"},
    {"critic_optim", "critic.optim", std::monostate{}, "adam", Effect::unmodelled, "the optimizer"},
    {"max_images_per_prompt", "data.max_images_per_prompt", std::monostate{}, "0", Effect::unmodelled, "pictures"},
};

/// Of SFT, reward models and DPO.
constexpr Flag kSupervised[] = {
    {"max_len", "data.max_len", FIELD(I, max_length), "2048", Effect::modelled, "", 1, 1 << 24},
    {"gradient_checkpointing", "model.gradient_checkpointing_enable", FIELD(bool, checkpointing), "false"},
    {"gradient_checkpointing_use_reentrant", "model.gradient_checkpointing_reentrant", FIELD(bool, reentrant), "false"},
    {"pretrain", "model.model_name_or_path", FIELD(T, pretrain)},
    {"ref_pretrain", "ref.model_name_or_path", FIELD(T, ref_pretrain)},
    {"ref_offload", "ref.offload", FIELD(bool, ref_offload), "false"},
};
// clang-format on
#undef FIELD

std::vector<Flag> flags_of(Program program) {
  std::vector<Flag> out(std::begin(kCommon), std::end(kCommon));
  if (program == Program::rl)
    out.insert(out.end(), std::begin(kRl), std::end(kRl));
  else
    out.insert(out.end(), std::begin(kSupervised), std::end(kSupervised));
  for (Flag& flag : out) {
    // Programs differ in these defaults.
    if (flag.classic == "micro_train_batch_size") flag.fallback = program == Program::rm ? "1" : "8";
    if (flag.classic == "max_len" && (program == Program::rm || program == Program::dpo))
      flag.fallback = "512";
  }
  return out;
}

/// Rows of both dialects. The RL program's micro-batches were larger before 0.10.
std::vector<R> rows_of(Program program) {
  constexpr Release kMicro{0, 10, 0}, kSingleLength{0, 9, 8};
  std::vector<R> out;
  const auto add = [&](const Flag& flag, std::string_view name, std::string_view fallback, Release since,
                       Release until) {
    if (!name.empty())
      out.push_back({.key = name,
                     .member = flag.member,
                     .fallback = fallback,
                     .effect = flag.effect,
                     .note = flag.note,
                     .least = flag.least,
                     .most = flag.most,
                     .since = since,
                     .until = until});
  };
  for (const Flag& flag : flags_of(program)) {
    const bool micro = program == Program::rl && (flag.classic == "micro_train_batch_size" ||
                                                  flag.classic == "micro_rollout_batch_size");
    const bool length = flag.classic == "max_len" && program == Program::rl;
    if (micro) {
      add(flag, flag.classic, flag.classic == "micro_train_batch_size" ? "4" : "8", settings::kFirst, kMicro);
      add(flag, flag.classic, "1", kMicro, kDotted);
      add(flag, flag.dotted, "1", kDotted, settings::kNever);
    } else {
      add(flag, flag.classic, flag.fallback, length ? kSingleLength : settings::kFirst, kDotted);
      add(flag, flag.dotted, flag.fallback, kDotted, settings::kNever);
    }
  }
  for (std::string_view name : {"headroom.gpu"})
    out.push_back({.key = name,
                   .member = [](Settings& s) -> std::string& { return s.gpu; },
                   .fallback = "null",
                   .effect = Effect::modelled,
                   .note = {},
                   .least = 0,
                   .most = 0,
                   .since = settings::kFirst,
                   .until = settings::kNever});
  return out;
}

/// Flags that no row names decide nothing: data, logging, learning rates.
constexpr std::string_view kWithoutEffect[] = {
    "data", "eval", "logger", "adam",    "muon", "lr_scheduler", "ckpt",  "actor",    "critic",  "reward",
    "ref",  "algo", "train",  "rollout", "vllm", "ds",           "model", "headroom", "max_norm"};

const std::vector<R>& known_rows(Program program) {
  static const std::vector<R> rows[] = {rows_of(Program::rl), rows_of(Program::sft), rows_of(Program::rm),
                                        rows_of(Program::dpo)};
  return rows[static_cast<std::size_t>(program)];
}

}  // namespace

std::vector<Key> keys_of(Program program) {
  std::vector<Key> out;
  settings::append_keys(out, "", std::span<const R>(known_rows(program)));
  settings::append_without_effect(out, kWithoutEffect);
  return out;
}

void read_settings(Values& values, Settings& s) {
  settings::read_section(values, "", std::span<const R>(known_rows(s.program)), s.release, s);
}

bool assign(Settings& s, const Setting& setting) {
  return settings::assign(s, std::span<const R>(known_rows(s.program)), setting.key, setting.value);
}

std::string flag(const Settings& s, std::string_view dotted) {
  for (const Flag& flag : flags_of(s.program))
    if (flag.dotted == dotted)
      return std::string(s.release >= kDotted || flag.classic.empty() ? flag.dotted : flag.classic);
  return std::string(dotted);
}

}  // namespace headroom::openrlhf
