#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "models/base/nearest.h"
#include "models/presets/mention.h"
#include "planner/configuration/model_lookup.h"
#include "planner/frameworks/settings/run.h"
#include "planner/frameworks/verl/sections.h"
#include "planner/frameworks/verl/settings_reader.h"
#include "simulator/allocator/simulated_settings.h"

namespace headroom::verl {
namespace {

bool same_letters(std::string_view a, std::string_view b) {
  return a.size() == b.size() && std::is_permutation(a.begin(), a.end(), b.begin());
}

/// Models of more than language whose language model is another public one's: what else they hold has no program.
struct PartlyKnown {
  std::string_view name;  ///< the last part of its name, in lower case
  const char* stand_in;
  std::string_view lacking;
};
constexpr auto kPartlyKnown = std::to_array<PartlyKnown>({
    {"minicpm-o-2_6", "Qwen/Qwen2.5-7B-Instruct", "the towers for images, sound and speech"},
    {"qwen2.5-omni-3b", "Qwen/Qwen2.5-VL-3B-Instruct", "the tower for sound and the talker"},
    {"qwen2.5-omni-7b", "Qwen/Qwen2.5-VL-7B-Instruct", "the tower for sound and the talker"},
});

bool names_model(std::string_view path, std::string_view name) {
  while (path.ends_with('/')) path.remove_suffix(1);
  const std::string_view last = path.substr(path.rfind('/') == std::string_view::npos ? 0 : path.rfind('/') + 1);
  return std::equal(last.begin(), last.end(), name.begin(), name.end(),
                    [](char a, char b) { return std::tolower(static_cast<unsigned char>(a)) == b; });
}

const std::string kEnvironment = "ray_kwargs.ray_init.runtime_env.env_vars.";

}  // namespace

Settings SettingsReader::read() {
  hardware();
  batch();
  algorithm();
  actor();
  rollout();
  ref();
  critic();
  reward();
  distillation();
  trainer();
  pools();
  if (s_.train_batch_size == 0) v_.fail_at("data.train_batch_size", "expected at least 1, found 0");
  models();
  s_.assumptions = std::move(assumptions_);
  return std::move(s_);
}

std::string SettingsReader::variable(const std::string& name) {
  const auto given = options_.environment.find(name);
  if (given != options_.environment.end()) return given->second;
  return v_.text(kEnvironment + name);
}

void SettingsReader::not_modelled(const std::string& key, const std::string& what) {
  v_.warn_at(key, what + " is not modelled yet: the verdict is undetermined");
  s_.not_modelled.push_back(key + ": " + what);
}

std::string SettingsReader::covered(const std::string& key, Words words, std::string_view fallback) {
  const std::string word = v_.text(key, std::string(fallback));
  if (!is_one_of(word, words))
    not_modelled(key, fmt::format("{} (known: {})", word.substr(0, 80), listed(words)));
  return word;
}

std::vector<std::string> SettingsReader::each_of(const std::string& key, Words words) {
  std::vector<std::string> found = v_.texts(key);
  for (const std::string& word : found)
    if (!is_one_of(word, words))
      v_.fail_at(key, fmt::format("expected some of {}, found {}", listed(words), word.substr(0, 80)));
  return found;
}

void SettingsReader::hardware() {
  s_.gpu = options_.gpu.empty() ? v_.text("headroom.gpu") : options_.gpu;
  // What the command line gives need not be known of the launch, whose own is often a cluster's variable.
  s_.nodes = options_.nodes ? *options_.nodes : v_.integer("trainer.nnodes", 1, 1'000'000, 1);
  s_.gpus_per_node = options_.gpus_per_node ? *options_.gpus_per_node : v_.integer("trainer.n_gpus_per_node", 1, 1024, 8);
  const std::string device = v_.text("trainer.device", "cuda");
  if (device != "cuda") v_.fail_at("trainer.device", fmt::format("expected cuda, found {}", device));
}

/// Trainers that run one step off, or fully asynchronously, have pools of their own: the trainer's GPUs are
/// `trainer`'s, the rollout's stand in a section `rollout` of their own.
void SettingsReader::pools() {
  const std::string hybrid = "actor_rollout_ref.hybrid_engine";
  if (v_.flag(hybrid, true)) return;
  EngineSettings& e = s_.rollout;
  e.nodes = v_.integer("rollout.nnodes", 1, 1'000'000, e.nodes);
  e.gpus_per_node = v_.integer("rollout.n_gpus_per_node", 1, 1024, e.gpus_per_node);
  if (e.nodes == 0)
    v_.fail_at(
        hybrid,
        "expected GPUs for the rollout (rollout.nnodes and rollout.n_gpus_per_node), since false keeps it "
        "off the trainer's");
  e.sync_mode = false;  // on GPUs of its own there is no trainer to run inside of
  s_.trainer_mode = "separate_async";
  s_.v1 = false;
  // Fully asynchronous: batches arrive as they are done, and the rollout's own log-probs are used.
  if (s_.train_batch_size == 0)
    s_.train_batch_size = s_.actor.mini_batch * v_.integer("async_training.require_batches", 1, kMost, 1);
  if (v_.layers().given("async_training") || v_.optional_integer("async_training.require_batches", 1, kMost))
    s_.bypass_mode = v_.flag("async_training.use_rollout_log_probs", true) &&
                     !v_.flag("async_training.compute_prox_log_prob", false);
}

void SettingsReader::batch() {
  s_.train_batch_size = v_.integer("data.train_batch_size", 0, kMost, 1024);
  s_.gen_batch_size = v_.integer("data.gen_batch_size", 1, kMost, 0);
  s_.prompt_length = v_.integer("data.max_prompt_length", 1, kMost, 512);
  s_.response_length = v_.integer("data.max_response_length", 1, kMost, 512);
  s_.n = v_.integer(kRollout + "n", 1, 1'000'000, 1);
}

void SettingsReader::algorithm() {
  const std::string key = "algorithm.adv_estimator";
  // Null in trainers that have no advantages, and so no critic (SPIN, SPPO).
  const std::string estimator = v_.text(key, "none");
  s_.critic_estimator = estimator == "gae";
  // verl makes a critic for GAE alone, and otherwise where critic.enable says so. A project's own estimator is taken
  // for a kind of GAE by its name only (bi_level_gae); one that is nearly verl's is most likely mistyped.
  if (!is_one_of(estimator, kEstimators) && !v_.optional_text("critic.enable")) {
    const bool mistyped = std::any_of(kEstimators.begin(), kEstimators.end(), [&](std::string_view known) {
      return edit_distance(estimator, known) <= 1 || same_letters(estimator, known);
    });
    if (mistyped)
      not_modelled(key, fmt::format("the estimator {} (known: {}; critic.enable says whether it has a critic)",
                                    estimator.substr(0, 80), listed(kEstimators)));
    s_.critic_estimator = estimator.find("gae") != std::string::npos;
    if (!mistyped)
      v_.warn_at(key, fmt::format("{} is not verl's: taken to work {} a critic (critic.enable says which)",
                                  estimator.substr(0, 80), s_.critic_estimator ? "with" : "without"));
  }
  s_.use_kl_in_reward = v_.flag("algorithm.use_kl_in_reward");
  s_.bypass_mode = v_.flag("algorithm.rollout_correction.bypass_mode");
}

void SettingsReader::trainer() {
  s_.save_freq = v_.integer("trainer.save_freq", -1, kMost, -1);
  s_.test_freq = v_.integer("trainer.test_freq", -1, kMost, -1);
  s_.critic_warmup = v_.integer("trainer.critic_warmup", 0, kMost, 0);
  s_.val_before_train = v_.flag("trainer.val_before_train", true);
  s_.v1 = s_.after(0, 9, 0) && v_.flag("trainer.use_v1", true);
  s_.trainer_mode = v_.word("trainer.v1.trainer_mode", {"sync", "colocate_async", "separate_async"}, "sync");
  const std::string mode = v_.word("trainer.resume_mode", {"auto", "disable", "resume_path"}, "auto");
  s_.resumed = options_.resumed || v_.flag("headroom.resumed", mode == "resume_path");
  if (s_.after(0, 7, 0) && !s_.after(0, 8, 0) &&
      v_.word("trainer.use_legacy_worker_impl", {"auto", "enable", "disable"}, "auto") == "disable")
    v_.warn_at("trainer.use_legacy_worker_impl",
               "the new workers of this release are read as the legacy ones");
  if (s_.critic.exists && s_.v1) {
    const std::int64_t fixed = v_.integer("critic.ppo_infer_max_token_len_per_gpu", 1, kMost, 32768);
    if (v_.given("critic.ppo_max_token_len_per_gpu") && s_.critic.train.tokens != fixed)
      v_.warn_at(
          "critic.ppo_max_token_len_per_gpu",
          fmt::format("is not read by the V1 trainer, which always packs the critic's sequences to {} tokens "
                      "(+critic.ppo_infer_max_token_len_per_gpu changes it)",
                      fixed));
    s_.critic.train = s_.critic.forward = {.dynamic = true, .micro = {}, .tokens = fixed};
  }
  for (const char* name : {"PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"}) {
    if (const std::string value = variable(name); !value.empty()) s_.allocator_settings = value;
    if (const auto settings = allocator::parse_simulated_settings(s_.allocator_settings); !settings)
      v_.fail_at(kEnvironment + name,
                 fmt::format("{}{}{}", settings.error().key, settings.error().key.empty() ? "" : ": ",
                             settings.error().message));
    s_.allocator_from_environment = s_.allocator_from_environment || options_.environment.count(name) > 0;
  }
  s_.agent_workers = v_.integer(kRollout + "agent.num_workers", 0, 100000, 8);
  if (options_.steps) s_.steps = *options_.steps;
}

void SettingsReader::models() {
  if (v_.failed()) return;
  if (!options_.model.empty()) {
    s_.actor.model.path = options_.model;
    s_.actor.model.hf_config_path.clear();
    if (!v_.given(kRef + "model.path")) s_.ref.model = s_.actor.model;
  } else if (!v_.given(kModel + "path")) {
    return v_.fail_at(kModel + "path", "no model is given; name it here or with --model");
  }
  s_.actor.model.architecture = find(s_.actor.model, kModel + "path", HeadKind::language_model);
  choose_modules(s_.actor, kModel);
  if (s_.ref.exists)
    s_.ref.model.architecture = s_.ref.model.path == s_.actor.model.path
                                    ? s_.actor.model.architecture
                                    : find(s_.ref.model, kRef + "model.path", HeadKind::language_model);
  if (s_.critic.exists) {
    // With a model named in place of what is not there, the critic's is not there either.
    const bool named = v_.given("critic.model.path") &&
                       (options_.model.empty() || find_model({.name = v_.text("critic.model.path"),
                                                              .config = s_.critic.model.hf_config_path,
                                                              .base = base_,
                                                              .head = HeadKind::scalar,
                                                              .overrides = s_.critic.model.override_config}));
    if (!named) {
      s_.critic.model.path = s_.actor.model.path;
      s_.critic.model.hf_config_path = s_.actor.model.hf_config_path;
      assumptions_.push_back(
          "critic.model.path is not given: the critic is taken to be as large as the actor");
    }
    s_.critic.model.architecture = find(s_.critic.model, "critic.model.path", HeadKind::token_classification);
    choose_modules(s_.critic, "critic.model.");
  }
  if (s_.reward.exists)
    s_.reward.model.architecture = find(s_.reward.model, "reward_model.model.path", HeadKind::token_classification);
  for (Teacher& teacher : s_.teachers)
    teacher.model = find({.path = teacher.path, .hf_config_path = {}, .attention = {}, .architecture = {}},
                         teacher.key + ".model_path", HeadKind::language_model);
  if (s_.reward_engine.exists) {
    const std::string key = s_.after(0, 7, 1) ? "reward.reward_model.model_path" : "reward_model.model.path";
    s_.reward_model =
        find({.path = s_.reward_model_path, .hf_config_path = {}, .attention = {}, .architecture = {}}, key,
             HeadKind::token_classification);
  }
}

std::shared_ptr<const Architecture> SettingsReader::find(const ModelSettings& model, const std::string& key,
                                                         HeadKind head) {
  ModelRequest request{.name = model.path,
                       .config = model.hf_config_path,
                       .base = base_,
                       .head = head,
                       .overrides = model.override_config};
  // The values of a config.json may stand in the configuration itself.
  if (const Document own = v_.tree("headroom.model_config");
      own.is_map() && !own.entries().empty() && model.path == s_.actor.model.path)
    return settings::stated_model(v_, head);
  for (const PartlyKnown& partly : kPartlyKnown) {
    if (!names_model(model.path, partly.name) || !model.hf_config_path.empty() || find_model(request)) continue;
    request.name = partly.stand_in;
    not_modelled(key, fmt::format("{} of {}, which is read as {},", partly.lacking, partly.name, partly.stand_in));
  }
  Result<std::shared_ptr<const Architecture>> found = find_model(request);
  settings::tell_shape(v_, key, request);
  if (found) return *found;
  // The run's own name may say which model its script leaves out.
  for (const char* name : {"trainer.experiment_name", "trainer.project_name", "trainer.default_local_dir"}) {
    const auto words = v_.layers().get(name);
    if (!words || !*words || !(*words)->value.is_scalar()) continue;
    if (const std::string known = mentioned_preset((*words)->value.text()).name; !known.empty()) {
      found.error().message += fmt::format(" ({} mentions {})", name, known);
      break;
    }
  }
  v_.fail_with(std::move(found.error()), key);
  return nullptr;
}

Settings read_settings(Values& values, const Version& version, const JobOptions& options,
                       const std::string& base) {
  return SettingsReader(values, version, options, base).read();
}

}  // namespace headroom::verl
