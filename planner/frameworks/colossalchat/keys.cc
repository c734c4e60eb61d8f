#include <algorithm>
#include <array>

#include "planner/frameworks/colossalchat/settings.h"

namespace headroom::colossalchat {
namespace {

using settings::Effect;
using settings::Key;
using R = settings::Row<Settings>;

constexpr std::int64_t kMost = std::int64_t{1} << 24;

/// Programs that have a flag, as bits.
constexpr unsigned bit(Program program) {
  return 1u << static_cast<unsigned>(program);
}
constexpr unsigned kPpo = bit(Program::ppo), kBenchmark = bit(Program::benchmark), kGrpo = bit(Program::grpo),
                   kSft = bit(Program::sft), kRm = bit(Program::rm), kDpo = bit(Program::dpo),
                   kOrpo = bit(Program::orpo), kKto = bit(Program::kto);
constexpr unsigned kRl = kPpo | kGrpo, kPairs = kDpo | kOrpo | kKto, kOthers = kSft | kRm | kPairs,
                   kAll = kRl | kOthers, kCoati = kPpo | kSft | kRm, kOld = kCoati | kBenchmark;

struct Flag {
  unsigned programs;
  std::string_view name;
  settings::Member<Settings> member = std::monostate{};
  std::string_view fallback = "null";
  Effect effect = Effect::modelled;
  std::string_view note = {};
  std::int64_t least = 0, most = kMost;
};

// clang-format off
#define FIELD(type, name) [](Settings& s) -> type& { return s.name; }
using I = std::int64_t;
using T = std::string;
using L = std::vector<std::string>;

/// Of Coati, up to 0.3.6.
constexpr Flag kCoatiFlags[] = {
    {kOld, "strategy", FIELD(T, strategy), "colossalai_zero2"},
    {kCoati, "model", FIELD(T, family), "bloom"},
    {kBenchmark, "model", FIELD(T, pretrain), "125m"},
    {kBenchmark, "critic_model", FIELD(T, critic_size), "125m"},
    {kPpo, "rm_model", FIELD(T, reward_family)},
    {kCoati, "pretrain", FIELD(T, pretrain)},
    {kPpo, "rm_pretrain", FIELD(T, reward_pretrain)},
    {kPpo | kBenchmark, "experience_batch_size", FIELD(I, experience_batch), "8", Effect::modelled, "", 1},
    {kPpo | kBenchmark, "train_batch_size", FIELD(I, train_batch), "8", Effect::modelled, "", 1},
    {kPpo, "ptx_batch_size", FIELD(I, text_batch), "1", Effect::modelled, "", 1},
    {kSft, "batch_size", FIELD(I, train_batch), "4", Effect::modelled, "", 1},
    {kRm, "batch_size", FIELD(I, train_batch), "1", Effect::modelled, "", 1},
    {kPpo, "num_collect_steps", FIELD(I, collects), "10", Effect::modelled, "", 1, 100000},
    {kPpo, "num_update_steps", FIELD(I, updates), "5", Effect::modelled, "", 1, 100000},
    {kBenchmark, "num_collect_steps", FIELD(I, collects), "8", Effect::modelled, "", 1, 100000},
    {kBenchmark, "num_update_steps", FIELD(I, updates), "1", Effect::modelled, "", 1, 100000},
    {kPpo, "max_timesteps", FIELD(I, collects), "10", Effect::modelled, "", 1, 100000},
    {kPpo, "max_input_len", FIELD(I, prompt_length), "96", Effect::modelled, "", 1, 1 << 20},
    {kPpo, "max_seq_len", FIELD(I, total_length), "128", Effect::modelled, "", 2, 1 << 20},
    {kSft | kRm, "max_len", FIELD(I, total_length), "512", Effect::modelled, "", 2, 1 << 20},
    {kSft, "accimulation_steps", FIELD(I, accumulation), "8", Effect::modelled, "", 1, 1 << 16},  // as 0.2 spelt it
    {kSft, "accumulation_steps", FIELD(I, accumulation), "8", Effect::modelled, "", 1, 1 << 16},
    {kSft, "grad_checkpoint", FIELD(bool, checkpointing), "false"},
    {kOld, "lora_rank", FIELD(I, lora_rank), "0", Effect::modelled, "", 0, 65536},
    {kPpo, "ptx_coef", FIELD(double, text_coefficient), "0.9"},
    {kBenchmark, "cuda_mem_frac", FIELD(double, memory_fraction), "1.0"},
    {kBenchmark, "offload_inference_models", FIELD(bool, offloads_inference), "false"},
    {kBenchmark, "use_kernels", FIELD(bool, kernels), "false"},
    {kPpo, "rm_path", std::monostate{}, "null", Effect::none, "weights of the same model"},
    {kPpo, "merge_lora_weights", std::monostate{}, "True", Effect::none, "weights are merged one by one, in place"},
};

/// Since 0.3.7.
constexpr Flag kBoostedFlags[] = {
    {kAll, "plugin", FIELD(T, plugin), "gemini"},
    {kAll, "tp", FIELD(I, tensor), "1", Effect::modelled, "", 1, 1024},
    {kAll, "pp", FIELD(I, pipeline), "1", Effect::modelled, "", 1, 1024},
    {kAll, "sp", FIELD(I, sequence), "1", Effect::modelled, "", 1, 1024},
    {kAll, "sp_mode", std::monostate{}, "split_gather", Effect::none, "it has an effect with --sp alone"},
    {kAll, "enable_sequence_parallelism", FIELD(bool, sequence_parallel), "false"},
    {kAll, "zero_stage", FIELD(I, zero_stage), "0", Effect::modelled, "", 0, 2},
    {kAll, "zero_cpu_offload", FIELD(bool, zero_cpu_offload), "false"},
    {kAll, "mixed_precision", FIELD(T, precision), "fp16"},
    {kAll, "grad_clip", FIELD(double, clip), "1.0"},
    {kAll, "grad_checkpoint", FIELD(bool, checkpointing), "false"},
    {kAll, "use_flash_attn", FIELD(bool, flash), "false"},
    {kAll, "lora_config", FIELD(T, lora_config)},
    {kAll, "lora_rank", FIELD(I, lora_rank), "0", Effect::modelled, "", 0, 65536},
    {kAll, "pretrain", FIELD(T, pretrain)},
    {kRl, "rm_pretrain", FIELD(T, reward_pretrain)},
    {kPpo, "no_neural_reward_model", FIELD(bool, no_reward_model), "false"},
    {kRl, "reward_functions", std::monostate{}, "null", Effect::none, "rules run on the CPU"},
    {kRl, "experience_batch_size", FIELD(I, experience_batch), "16", Effect::modelled, "", 1},
    {kRl, "train_batch_size", FIELD(I, train_batch), "16", Effect::modelled, "", 1},
    {kRl, "ptx_batch_size", FIELD(I, text_batch), "4", Effect::modelled, "", 1},
    {kOthers, "batch_size", FIELD(I, train_batch), "4", Effect::modelled, "", 1},
    {kAll & ~kDpo, "accumulation_steps", FIELD(I, accumulation), "8", Effect::modelled, "", 1, 1 << 16},
    {kDpo, "accumulation_steps", FIELD(I, accumulation), "1", Effect::modelled, "", 1, 1 << 16},
    {kRl, "num_collect_steps", FIELD(I, collects), "2", Effect::modelled, "", 1, 100000},
    {kRl, "num_update_steps", FIELD(I, updates), "5", Effect::modelled, "", 1, 100000},
    {kGrpo, "num_generations", FIELD(I, generations), "8", Effect::modelled, "", 1, 100000},
    {kGrpo, "inference_batch_size", FIELD(std::optional<I>, inference_batch), "null", Effect::modelled, "", 1},
    {kGrpo, "logits_forward_batch_size", FIELD(I, logits_batch), "1", Effect::modelled, "", 1},
    {kRl, "max_length", FIELD(I, total_length), "2048", Effect::modelled, "", 2, 1 << 20},
    {kRl, "max_seq_len", FIELD(I, response_length), "256", Effect::modelled, "", 1, 1 << 20},
    {kSft, "max_len", FIELD(I, total_length), "512", Effect::modelled, "", 2, 1 << 20},
    {kRm | kPairs, "max_length", FIELD(I, total_length), "2048", Effect::modelled, "", 2, 1 << 20},
    {kRl, "ptx_coef", FIELD(double, text_coefficient), "0.0"},
    {kRl, "ptx_dataset", std::monostate{}, "null", Effect::none, "texts are learnt where --ptx_coef is not 0"},
    {kDpo | kOrpo, "disable_reference_model", FIELD(bool, no_reference), "false"},
    {kSft | kDpo, "microbatch_size", std::monostate{}, "1", Effect::none, "it has an effect with a pipeline alone"},
    {kOthers, "headroom.full_rows", FIELD(bool, full_rows), "false"},
    {kDpo, "ref_tp", std::monostate{}, "1", Effect::unmodelled, "tensor parallelism of the reference alone"},
};
#undef FIELD
// clang-format on

/// Of data, logging, learning rates and files.
constexpr std::string_view kWithoutEffect[] = {
    "dataset",        "prompt_dataset",     "pretrain_dataset", "prompt_path",
    "eval_dataset",   "tokenizer",          "tokenizer_dir",    "conversation_template_config",
    "save_path",      "save_dir",           "save_interval",    "need_optim_ckpt",
    "num_episodes",   "max_epochs",         "max_datasets_size", "lr",
    "critic_lr",      "kl_coef",            "weight_decay",     "warmup_steps",
    "log_interval",   "log_dir",            "use_wandb",        "config_file",
    "checkpoint_path", "critic_checkpoint_path", "rm_checkpoint_path", "disable_loss_mask",
    "loss_fn",        "subset",             "test",             "model_path",
    "update_timesteps", "beta",             "gamma",            "length_normalization",
    "loss_type",      "lam",                "model_type",       "desirable_weight",
    "undesirable_weight", "auto_weight",    "initial_temperature", "final_temperature",
    "max_tokens_thinking", "local_rank",    "headroom"};

std::vector<R> rows_of(Program program) {
  std::vector<R> out;
  const auto add = [&](const Flag& flag, std::string_view fallback, Release since, Release until) {
    if ((flag.programs & bit(program)) != 0)
      out.push_back({.key = flag.name,
                     .member = flag.member,
                     .fallback = fallback,
                     .effect = flag.effect,
                     .note = flag.note,
                     .least = flag.least,
                     .most = flag.most,
                     .since = since,
                     .until = until});
  };
  for (const Flag& flag : kCoatiFlags) {
    const bool gpt = flag.name == "model" && program == Program::ppo;
    Release since = settings::kFirst, until = kBoosted;
    if (flag.name == "max_timesteps") until = {0, 3, 1};
    if (flag.name == "num_collect_steps" && program == Program::ppo) since = {0, 3, 1};
    if (flag.name == "accimulation_steps") until = {0, 3, 0};
    if (flag.name == "accumulation_steps") since = {0, 3, 0};
    add(flag, gpt ? "gpt2" : flag.fallback, since, until);
  }
  for (const Flag& flag : kBoostedFlags) {
    const bool rank = flag.name == "lora_rank" && program != Program::ppo, file = flag.name == "lora_config";
    add(flag, flag.name == "mixed_precision" && program == Program::sft ? "bf16" : flag.fallback,
        file ? kLoraFiles : kBoosted, rank ? kLoraFiles : settings::kNever);
  }
  out.push_back({.key = "headroom.gpu",
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

constexpr std::size_t kPrograms = 8;

const std::vector<R>& known_rows(Program program) {
  static const std::vector<std::vector<R>> rows = [] {
    std::vector<std::vector<R>> out;
    for (std::size_t i = 0; i < kPrograms; ++i) out.push_back(rows_of(static_cast<Program>(i)));
    return out;
  }();
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

}  // namespace headroom::colossalchat
