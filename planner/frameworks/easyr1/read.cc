#include "planner/frameworks/easyr1/read.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "planner/configuration/value_grammar.h"
#include "planner/configuration/values.h"
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
    Pair{"worker.actor.ulysses_sequence_parallel_size", "actor_rollout_ref.actor.ulysses_sequence_parallel_size", "1"},
    Pair{"worker.actor.ulysses_sequence_parallel_size", "actor_rollout_ref.ref.ulysses_sequence_parallel_size", "1"},
    Pair{"worker.actor.model.model_path", "actor_rollout_ref.model.path", ""},
    Pair{"worker.actor.model.enable_gradient_checkpointing", "actor_rollout_ref.model.enable_gradient_checkpointing", "true"},
    Pair{"worker.actor.offload.offload_params", "actor_rollout_ref.actor.fsdp_config.param_offload", "false"},
    Pair{"worker.actor.offload.offload_optimizer", "actor_rollout_ref.actor.fsdp_config.optimizer_offload", "false"},
    Pair{"worker.actor.fsdp.fsdp_size", "actor_rollout_ref.actor.fsdp_config.fsdp_size", "-1"},
    Pair{"worker.rollout.n", "actor_rollout_ref.rollout.n", "1"},
    Pair{"worker.rollout.tensor_parallel_size", "actor_rollout_ref.rollout.tensor_model_parallel_size", "2"},
    Pair{"worker.rollout.gpu_memory_utilization", "actor_rollout_ref.rollout.gpu_memory_utilization", "0.6"},
    Pair{"worker.rollout.enforce_eager", "actor_rollout_ref.rollout.enforce_eager", "false"},
    Pair{"worker.rollout.max_num_batched_tokens", "actor_rollout_ref.rollout.max_num_batched_tokens", "8192"},
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
// clang-format on

const Pair* by_verl(std::string_view key) {
  const auto found = std::find_if(kPairs.begin(), kPairs.end(), [&](const Pair& pair) { return pair.verl == key; });
  return found == kPairs.end() ? nullptr : &*found;
}
const Pair* by_own(std::string_view key) {
  const auto found = std::find_if(kPairs.begin(), kPairs.end(), [&](const Pair& pair) { return pair.own == key; });
  return found == kPairs.end() ? nullptr : &*found;
}

/// verl's file of the same run, each value at the line of EasyR1's.
Result<Document> translated(Values& v) {
  Document out = Document::map();
  const auto put = [&](std::string_view key, std::string value, int line) {
    static_cast<void>(out.set_path(key, Document::scalar(std::move(value), line)));
  };
  for (const Pair& pair : kPairs) {
    const std::string text = v.text(pair.own, std::string(pair.fallback));
    if (text.empty()) continue;
    std::string file;
    int line = 0;
    if (v.given(pair.own)) v.layers().locate(pair.own, file, line);
    put(pair.verl, text, line);
  }
  const bool kl = !v.flag("algorithm.disable_kl"), loss = v.flag("algorithm.use_kl_loss");
  put("actor_rollout_ref.actor.use_kl_loss", kl && loss ? "true" : "false", 0);
  put("algorithm.use_kl_in_reward", kl && !loss ? "true" : "false", 0);
  put("actor_rollout_ref.rollout.name", "vllm", 0);
  put("actor_rollout_ref.rollout.mode", "sync", 0);
  for (const char* role : {"actor", "critic"})
    if (const std::string key = fmt::format("worker.{}.fsdp.enable_cpu_offload", role); v.flag(key))
      v.fail_at(key, "expected false: a trained model that lives on the host under FSDP1 is not modelled");
  if (const std::string key = "worker.actor.optim.strategy"; v.text(key, "adamw") != "adamw")
    v.fail_at(key, "expected adamw: another optimizer is not modelled");
  HEADROOM_TRY(v.status());
  return out;
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
  for (const auto& [key, value] : v.used())
    if (const Pair* pair = by_own(key); pair != nullptr && !value.given && !pair->fallback.empty())
      out.push_back({.key = key,
                     .value = std::string(pair->fallback),
                     .file = {},
                     .line = 0,
                     .state = KeyUse::State::defaulted});
  return out;
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
  made->job.framework = "easyr1";
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
  std::vector<Knob> out;
  for (Knob& knob : verl::knobs(read)) {
    const auto keys = verl::settings_for(read, std::vector<Choice>{{knob.name, knob.current}});
    if (keys && std::all_of(keys->begin(), keys->end(),
                            [](const Setting& setting) { return by_verl(setting.key) != nullptr; }))
      out.push_back(std::move(knob));
  }
  return out;
}

Result<Job> with(const ReadJob& read, std::span<const Choice> choices) {
  HEADROOM_ASSIGN(Job job, verl::with(read, choices));
  job.framework = "easyr1";
  job.assumptions = read.job.assumptions;
  return job;
}

Result<std::vector<Setting>> settings_for(const ReadJob& read, std::span<const Choice> choices) {
  HEADROOM_ASSIGN(const std::vector<Setting> keys, verl::settings_for(read, choices));
  std::vector<Setting> out;
  for (const Setting& setting : keys) {
    const Pair* pair = by_verl(setting.key);
    if (pair == nullptr)
      return fail(Error{.message = "is no key of EasyR1", .file = {}, .key = setting.key});
    const std::string own(pair->own);
    if (std::none_of(out.begin(), out.end(), [&](const Setting& known) { return known.key == own; }))
      out.push_back({own, setting.value});
  }
  return out;
}

}  // namespace headroom::easyr1
