#include "planner/frameworks/easyr1/read.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>

#include "planner/configuration/value_grammar.h"
#include "planner/configuration/values.h"
#include "planner/frameworks/easyr1/settings.h"
#include "planner/frameworks/settings/run.h"
#include "planner/frameworks/verl/knobs.h"
#include "planner/frameworks/verl/read.h"

namespace headroom::easyr1 {
namespace {

constexpr const char* kVerl = "0.5.0";  ///< whose worker EasyR1's is closest to

/// A key with its name in verl and EasyR1's default. Several rows of one EasyR1 key set several of verl's.
struct Pair {
  std::string_view own, verl, fallback;
};

// clang-format off
constexpr std::array kPairs = {
    Pair{"data.rollout_batch_size", "data.train_batch_size", "512"},
    Pair{"data.max_prompt_length", "data.max_prompt_length", "512"},
    Pair{"data.max_response_length", "data.max_response_length", "512"},
    Pair{"algorithm.adv_estimator", "algorithm.adv_estimator", "grpo"},
    Pair{"worker.actor.global_batch_size", "actor_rollout_ref.actor.ppo_mini_batch_size", "256"},
    Pair{"worker.actor.micro_batch_size_per_device_for_update", "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu", "4"},
    Pair{"worker.actor.micro_batch_size_per_device_for_experience", "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu", "16"},
    Pair{"worker.actor.micro_batch_size_per_device_for_experience", "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu", "16"},
    Pair{"worker.actor.padding_free", "actor_rollout_ref.model.use_remove_padding", "true"},
    Pair{"worker.actor.ppo_epochs", "actor_rollout_ref.actor.ppo_epochs", "1"},
    Pair{"worker.actor.ulysses_size", "actor_rollout_ref.actor.ulysses_sequence_parallel_size", "1"},
    Pair{"worker.actor.ulysses_size", "actor_rollout_ref.ref.ulysses_sequence_parallel_size", "1"},
    Pair{"worker.actor.dynamic_batching", "actor_rollout_ref.actor.use_dynamic_bsz", "true"},
    Pair{"worker.actor.model.model_path", "actor_rollout_ref.model.path", ""},
    Pair{"worker.actor.model.enable_gradient_checkpointing", "actor_rollout_ref.model.enable_gradient_checkpointing", "true"},
    Pair{"worker.actor.model.lora.rank", "actor_rollout_ref.model.lora_rank", "0"},
    Pair{"worker.actor.model.lora.target_modules", "actor_rollout_ref.model.target_modules", "all-linear"},
    Pair{"worker.actor.fsdp.torch_dtype", "actor_rollout_ref.actor.fsdp_config.model_dtype", "fp32"},
    Pair{"worker.actor.fsdp.mp_param_dtype", "actor_rollout_ref.actor.fsdp_config.mixed_precision.param_dtype", "bf16"},
    Pair{"worker.actor.fsdp.mp_reduce_dtype", "actor_rollout_ref.actor.fsdp_config.mixed_precision.reduce_dtype", "fp32"},
    Pair{"worker.actor.fsdp.enable_full_shard", "actor_rollout_ref.actor.fsdp_config.reshard_after_forward", "true"},
    Pair{"worker.ref.fsdp.enable_full_shard", "actor_rollout_ref.ref.fsdp_config.reshard_after_forward", "true"},
    Pair{"worker.actor.offload.offload_params", "actor_rollout_ref.actor.fsdp_config.param_offload", "false"},
    Pair{"worker.actor.offload.offload_optimizer", "actor_rollout_ref.actor.fsdp_config.optimizer_offload", "false"},
    Pair{"worker.actor.fsdp.fsdp_size", "actor_rollout_ref.actor.fsdp_config.fsdp_size", "-1"},
    Pair{"worker.rollout.n", "actor_rollout_ref.rollout.n", "1"},
    Pair{"worker.rollout.tensor_parallel_size", "actor_rollout_ref.rollout.tensor_model_parallel_size", "2"},
    Pair{"worker.rollout.gpu_memory_utilization", "actor_rollout_ref.rollout.gpu_memory_utilization", "0.6"},
    Pair{"worker.rollout.enforce_eager", "actor_rollout_ref.rollout.enforce_eager", "false"},
    Pair{"worker.rollout.max_num_batched_tokens", "actor_rollout_ref.rollout.max_num_batched_tokens", "8192"},
    Pair{"worker.rollout.max_model_len", "actor_rollout_ref.rollout.max_model_len", "null"},
    Pair{"worker.critic.dynamic_batching", "critic.use_dynamic_bsz", "true"},
    Pair{"worker.critic.ulysses_size", "critic.ulysses_sequence_parallel_size", "1"},
    Pair{"worker.critic.fsdp.torch_dtype", "critic.model.fsdp_config.model_dtype", "fp32"},
    Pair{"worker.critic.fsdp.enable_full_shard", "critic.model.fsdp_config.reshard_after_forward", "true"},
    Pair{"worker.critic.fsdp.fsdp_size", "critic.model.fsdp_config.fsdp_size", "-1"},
    Pair{"worker.critic.global_batch_size", "critic.ppo_mini_batch_size", "256"},
    Pair{"worker.critic.micro_batch_size_per_device_for_update", "critic.ppo_micro_batch_size_per_gpu", "4"},
    Pair{"worker.critic.micro_batch_size_per_device_for_experience", "critic.forward_micro_batch_size_per_gpu", "16"},
    Pair{"worker.critic.padding_free", "critic.model.use_remove_padding", "true"},
    Pair{"worker.critic.model.model_path", "critic.model.path", ""},
    Pair{"worker.critic.model.enable_gradient_checkpointing", "critic.model.enable_gradient_checkpointing", "true"},
    Pair{"worker.critic.offload.offload_params", "critic.model.fsdp_config.param_offload", "false"},
    Pair{"worker.critic.offload.offload_optimizer", "critic.model.fsdp_config.optimizer_offload", "false"},
    Pair{"trainer.nnodes", "trainer.nnodes", "1"},
    Pair{"trainer.n_gpus_per_node", "trainer.n_gpus_per_node", "8"},
    Pair{"trainer.save_freq", "trainer.save_freq", "-1"},
    Pair{"trainer.val_freq", "trainer.test_freq", "-1"},
    Pair{"trainer.val_before_train", "trainer.val_before_train", "true"},
    Pair{"headroom.gpu", "headroom.gpu", ""},
    Pair{"headroom.resumed", "headroom.resumed", ""},
};

/// Keys that verl has none for, with EasyR1's defaults.
struct Own {
  std::string_view key, fallback;
};
constexpr Own kOwn[] = {
    {"worker.actor.optim.strategy", "adamw"}, {"worker.critic.optim.strategy", "adamw"},
    {"worker.actor.fsdp.enable_rank0_init", "true"}, {"worker.critic.fsdp.enable_rank0_init", "true"},
    {"worker.actor.model.freeze_vision_tower", "false"}, {"worker.critic.model.freeze_vision_tower", "false"},
    {"worker.actor.model.lora.exclude_modules", "null"}, {"worker.ref.fsdp.enable_cpu_offload", "false"},
    {"worker.ref.offload.offload_params", "false"},
};
// clang-format on

const Pair* by_verl(std::string_view key) {
  const auto found = std::find_if(kPairs.begin(), kPairs.end(), [&](const Pair& pair) { return pair.verl == key; });
  return found == kPairs.end() ? nullptr : &*found;
}
const Pair* by_own(std::string_view key) {
  const auto found = std::find_if(kPairs.begin(), kPairs.end(), [&](const Pair& pair) { return pair.own == key; });
  return found == kPairs.end() ? nullptr : &*found;
}

/// The budgets of tokens that stand in verl for a number of sequences: the part of EasyR1's key behind the worker,
/// and verl's key.
struct Budget {
  std::string_view own, verl;
};
constexpr Budget kBudgets[] = {
    {"worker.actor.micro_batch_size_per_device_for_update", "actor_rollout_ref.actor.ppo_max_token_len_per_gpu"},
    {"worker.actor.micro_batch_size_per_device_for_experience", "actor_rollout_ref.rollout.log_prob_max_token_len_per_gpu"},
    {"worker.actor.micro_batch_size_per_device_for_experience", "actor_rollout_ref.ref.log_prob_max_token_len_per_gpu"},
    {"worker.critic.micro_batch_size_per_device_for_update", "critic.ppo_max_token_len_per_gpu"},
    {"worker.critic.micro_batch_size_per_device_for_experience", "critic.forward_max_token_len_per_gpu"},
};

DynamicBatch dynamic_batch(const verl::Settings& s, std::string_view verl_key) {
  return {.length = s.prompt_length + s.response_length,
          .ulysses = verl_key.starts_with("critic.") ? s.critic.ulysses : s.actor.ulysses};
}

/// EasyR1 asks for whole micro-batches also where they are cut by tokens.
void check_update(Values& v) {
  const std::string at = "worker.actor.", key = at + "micro_batch_size_per_device_for_update";
  const std::int64_t micro = v.integer(key, 1, 1 << 30, 4), ulysses = v.integer(at + "ulysses_size", 1, 1 << 20, 1),
                     gpus = v.integer("trainer.nnodes", 1, 1 << 20, 1) * v.integer("trainer.n_gpus_per_node", 1, 1024, 8),
                     batch = v.integer(at + "global_batch_size", 1, 1 << 30, 256) * v.integer("worker.rollout.n", 1, 1 << 20, 1);
  if (const std::int64_t share = batch / std::max<std::int64_t>(1, gpus / ulysses); share % micro != 0)
    v.fail_at(key, fmt::format("expected a divisor of the {} sequences that a GPU updates with, found {}", share, micro));
}

/// verl's file of the same run, each value at the line of EasyR1's.
Result<Document> translated(Values& v) {
  Document out = Document::map();
  const auto put = [&](std::string_view key, std::string value, int line) {
    static_cast<void>(out.set_path(key, Document::scalar(std::move(value), line)));
  };
  const auto line_of = [&](std::string_view key) {
    std::string file;
    int line = 0;
    if (v.given(key)) v.layers().locate(key, file, line);
    return line;
  };
  for (const Pair& pair : kPairs)
    if (const std::string text = v.text(pair.own, std::string(pair.fallback)); !text.empty() && text != "null")
      put(pair.verl, text, line_of(pair.own));
  const std::int64_t length =
      v.integer("data.max_prompt_length", 0, 1 << 24, 512) + v.integer("data.max_response_length", 0, 1 << 24, 512);
  for (const Budget& budget : kBudgets) {
    const std::string worker = fmt::format("worker.{}.", budget.own.starts_with("worker.critic.") ? "critic" : "actor");
    if (!v.flag(worker + "dynamic_batching", true)) continue;
    const DynamicBatch batch{.length = length, .ulysses = v.integer(worker + "ulysses_size", 1, 1 << 20, 1)};
    const std::int64_t sequences = v.integer(budget.own, 1, 1 << 30, budget.own.ends_with("update") ? 4 : 16);
    put(budget.verl, std::to_string(batch.tokens(sequences)), line_of(budget.own));
  }
  check_update(v);
  const bool kl = !v.flag("algorithm.disable_kl"), loss = v.flag("algorithm.use_kl_loss");
  put("actor_rollout_ref.actor.use_kl_loss", kl && loss ? "true" : "false", 0);
  put("algorithm.use_kl_in_reward", kl && !loss ? "true" : "false", 0);
  put("actor_rollout_ref.rollout.name", "vllm", 0);
  put("actor_rollout_ref.rollout.mode", "sync", 0);
  if (v.integer("worker.actor.model.lora.rank", 0, 1 << 16, 0) > 0) {
    // The engine reads the model itself, and is sent adapters alone, gathered layer by layer.
    put("actor_rollout_ref.rollout.load_format", "safetensors", 0);
    put("actor_rollout_ref.rollout.layered_summon", "true", 0);
  }
  for (const char* role : {"actor", "critic"})
    if (const std::string key = fmt::format("worker.{}.fsdp.enable_cpu_offload", role); v.flag(key))
      v.fail_at(key, "expected false: a trained model that lives on the host under FSDP1 is not modelled");
  HEADROOM_TRY(v.status());
  return out;
}

/// What verl has no key for.
void read_own(Values& v, Settings& s) {
  const auto not_modelled = [&](const std::string& key, const std::string& what) {
    v.warn_at(key, what + " is not modelled: the verdict is undetermined");
    s.not_modelled.push_back(fmt::format("{}: {}", key, what));
  };
  for (const auto& [worker, optimizer] :
       {std::pair{"actor", &s.actor_optimizer}, std::pair{"critic", &s.critic_optimizer}}) {
    const std::string at = fmt::format("worker.{}.", worker);
    if (v.word(at + "optim.strategy", {"adamw", "adamw_bf16"}, "adamw") == "adamw_bf16")
      *optimizer = OptimizerStrategy::adamw_bf16;
    if (const std::string key = at + "fsdp.enable_rank0_init"; !v.flag(key, true))
      not_modelled(key, "that every GPU builds the whole model");
    // What is frozen has no gradients and no optimizer states; counting them is on the safe side of a small part.
    if (const std::string key = at + "model.freeze_vision_tower"; v.flag(key))
      v.warn_at(key, "the tower is counted as trained");
  }
  s.reference_on_host = v.flag("worker.ref.fsdp.enable_cpu_offload");
  if (const std::string key = "worker.ref.offload.offload_params"; v.flag(key) && !s.reference_on_host)
    not_modelled(key, "a reference that moves to the host between its passes");
  const std::string excluded = v.text("worker.actor.model.lora.exclude_modules", "null");
  if (s.actor.lora.rank > 0 && excluded != "null" && !excluded.empty() && excluded.find("visual") == std::string::npos)
    not_modelled("worker.actor.model.lora.exclude_modules", "linears without adapters");
  const Architecture* model = s.actor.model.architecture.get();
  if (model != nullptr && model->vision.blocks > 0 && v.given("data.image_key"))
    not_modelled("data.image_key", "what pictures take in the policy");
}

/// In EasyR1's words.
std::string own_words(std::string text) {
  for (const Pair& pair : kPairs)
    if (const std::size_t at = text.find(pair.verl); at != std::string::npos && pair.own != pair.verl)
      text.replace(at, pair.verl.size(), pair.own);
  return text;
}

Error own_error(Error error) {
  if (const Pair* pair = by_verl(error.key)) error.key = pair->own;
  for (const Budget& budget : kBudgets)
    if (error.key == budget.verl) error.key = budget.own;
  error.message = own_words(std::move(error.message));
  return error;
}

/// What became of each given key.
std::vector<KeyUse> uses(const Values& v) {
  std::vector<KeyUse> out;
  for (const Layers::Leaf& leaf : v.layers().given_leaves()) {
    KeyUse use{.key = leaf.key, .value = format_value(*leaf.value), .file = *leaf.file, .line = leaf.value->line()};
    use.state = v.used().count(leaf.key) > 0 ? KeyUse::State::used : KeyUse::State::ignored;
    out.push_back(std::move(use));
  }
  for (const auto& [key, value] : v.used()) {
    if (value.given) continue;
    const Pair* pair = by_own(key);
    const auto own = std::find_if(std::begin(kOwn), std::end(kOwn), [&](const Own& one) { return one.key == key; });
    const std::string_view fallback = pair != nullptr ? pair->fallback : own != std::end(kOwn) ? own->fallback : "";
    if (!fallback.empty())
      out.push_back({.key = key, .value = std::string(fallback), .file = {}, .line = 0, .state = KeyUse::State::defaulted});
  }
  return out;
}

/// EasyR1's key and value of one of verl's.
Result<Setting> own_setting(const ReadJob& read, const Setting& setting) {
  const auto& s = static_cast<const Settings&>(*read.settings);
  for (const Budget& budget : kBudgets) {
    if (budget.verl != setting.key) continue;
    const auto sequences = dynamic_batch(s, budget.verl).sequences(std::strtoll(setting.value.c_str(), nullptr, 10));
    if (!sequences) return fail(Error{.message = "is no whole number of sequences", .file = {}, .key = setting.key});
    return Setting{std::string(budget.own), std::to_string(*sequences)};
  }
  const Pair* pair = by_verl(setting.key);
  if (pair == nullptr) return fail(Error{.message = "is no key of EasyR1", .file = {}, .key = setting.key});
  return Setting{std::string(pair->own), setting.value};
}

}  // namespace

bool detect(const JobInput& input) {
  return std::any_of(input.files.begin(), input.files.end(), [](const JobInput::File& file) {
    return file.document.find_path("worker.actor") != nullptr ||
           (file.document.find("worker") != nullptr && file.document.find_path("data.rollout_batch_size") != nullptr);
  });
}

Result<ReadJob> read(const JobInput& input, const JobOptions& options) {
  HEADROOM_ASSIGN(const Layers layers, settings::lay_files(input, options, "a map of EasyR1's keys at the top"));
  Values values(layers);
  HEADROOM_ASSIGN(Document document, translated(values));
  JobInput asked;
  asked.files.push_back(
      {.path = input.files.front().path, .document = std::move(document), .text = {}, .launch = {}});
  JobOptions rest = options;
  rest.overrides.clear();
  rest.versions.framework = kVerl;
  Result<ReadJob> made = verl::read(asked, rest);
  if (!made) return tl::unexpected<Error>(own_error(std::move(made.error())));
  auto own = std::make_shared<Settings>();
  static_cast<verl::Settings&>(*own) = static_cast<const verl::Settings&>(*made->settings);
  read_own(values, *own);
  HEADROOM_TRY(values.status());
  adapt(made->job, *own);
  made->settings = own;
  for (Notice& notice : values.take_warnings()) made->warnings.push_back(std::move(notice));
  made->job.name = std::filesystem::path(input.files.back().path).stem().string();
  made->job.assumptions.push_back(fmt::format("EasyR1's workers work as verl {}'s", kVerl));
  for (Notice& warning : made->warnings) {
    if (const Pair* pair = by_verl(warning.key)) warning.key = pair->own;
    warning.message = own_words(std::move(warning.message));
  }
  made->keys = uses(values);
  made->input = input;
  made->overrides = settings::effective_overrides(options, {.models = {"worker.actor.model.model_path"},
                                                            .release = {},
                                                            .nodes = "trainer.nnodes",
                                                            .gpus_per_node = "trainer.n_gpus_per_node"});
  return made;
}

std::vector<Knob> knobs(const ReadJob& read) {
  const auto& s = static_cast<const Settings&>(*read.settings);
  std::vector<Knob> out;
  for (Knob& knob : verl::knobs(read)) {
    // With budgets of tokens the group would share as many sequences as before, where verl's share grows.
    if (knob.name.find("ulysses") != std::string::npos && s.actor.train.dynamic) continue;
    if (knob.name == "dynamic_batching") continue;  // changes what the numbers of sequences mean
    // One key says both.
    if (knob.needs.knob == "dynamic_batching" && (knob.needs.value == "true") != s.actor.train.dynamic) continue;
    std::erase_if(knob.values, [&](const std::string& value) {
      return !settings_for(read, std::vector<Choice>{{knob.name, value}});
    });
    if (knob.values.size() > 1) out.push_back(std::move(knob));
  }
  return out;
}

Result<Job> with(const ReadJob& read, std::span<const Choice> choices) {
  HEADROOM_ASSIGN(Job job, verl::with(read, choices));
  adapt(job, static_cast<const Settings&>(*read.settings));
  job.assumptions = read.job.assumptions;
  return job;
}

Result<std::vector<Setting>> settings_for(const ReadJob& read, std::span<const Choice> choices) {
  HEADROOM_ASSIGN(const std::vector<Setting> keys, verl::settings_for(read, choices));
  std::vector<Setting> out;
  for (const Setting& setting : keys) {
    HEADROOM_ASSIGN(Setting own, own_setting(read, setting));
    const auto same = std::find_if(out.begin(), out.end(), [&](const Setting& known) { return known.key == own.key; });
    if (same == out.end())
      out.push_back(std::move(own));
    else if (same->value != own.value)
      return fail(Error{.message = "has one value for two passes", .file = {}, .key = own.key});
  }
  return out;
}

}  // namespace headroom::easyr1
