#include "planner/frameworks/verl/read.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "planner/configuration/override.h"
#include "planner/frameworks/settings/run.h"
#include "planner/frameworks/settings/usage.h"
#include "planner/frameworks/shell/launch.h"
#include "planner/frameworks/verl/job.h"
#include "planner/frameworks/verl/keys.h"
#include "planner/frameworks/verl/lay.h"
#include "planner/frameworks/verl/named.h"
#include "planner/frameworks/verl/recording.h"
#include "planner/frameworks/verl/release_hints.h"
#include "planner/frameworks/verl/schema.h"

namespace headroom::verl {
namespace {

/// A key that `--set` changes (not adds) is one of verl's: another one is most likely mistyped.
void warn_of_unknown_changes(Values& values, const JobOptions& options, const Version& version) {
  for (const std::string& text : options.overrides) {
    const Result<Override> change = parse_override(text, "--set");
    if (!change || change->kind != Override::Kind::set || find_key(change->key, version) != nullptr) continue;
    if (!settings::meant(keys(), change->key, true).empty()) continue;  // told with what is given
    values.warn_at(
        change->key,
        "is not a key of verl that Headroom knows, and changes nothing here (+KEY=VALUE adds one)");
  }
}

/// The engine ends a response where the model's positions end; what is asked for beyond is never there.
void warn_of_short_models(Values& values, const Settings& s) {
  const Architecture* model = s.actor.model.architecture.get();
  if (model == nullptr || model->decoder.max_positions == 0) return;
  const std::int64_t most = s.rollout.max_model_len.value_or(model->decoder.max_positions);
  if (s.rollout.prompt_length + s.rollout.response_length > most)
    values.warn_at(
        "data.max_response_length",
        fmt::format("prompts of {} and responses of {} tokens are longer than the {} that the engine "
                    "serves: verl cuts such responses, the prediction does not",
                    s.rollout.prompt_length, s.rollout.response_length, most));
}

/// A trainer of somebody's own makes its own batches from the prompts: what verl's asserts of the two does not
/// hold there.
void take_own_batches(const Laid& laid, Settings& s) {
  if (laid.program.empty() || is_trainer(laid.program) || s.actor.mini_batch <= s.train_batch_size) return;
  s.assumptions.push_back(fmt::format("{} makes steps of its own: one mini-batch, {} prompts", laid.program,
                                      s.actor.mini_batch));
  s.train_batch_size = s.actor.mini_batch;
}

/// Releases before 0.3 ask nothing of the two: a mini-batch larger than the batch is the batch (the check came with
/// verl's commit 4d27461d).
void take_whole_batches(Settings& s) {
  for (Worker* worker : {&s.actor, &s.critic}) {
    if (worker->mini_batch <= s.train_batch_size) continue;
    if (worker == &s.actor)
      s.assumptions.push_back(fmt::format("verl before 0.3: a step's {} prompts are one mini-batch", s.train_batch_size));
    worker->mini_batch = s.train_batch_size;
  }
}

/// Whether the launch's program, or a configuration that it starts from, has that name.
bool runs(const Laid& laid, std::string_view name) {
  return laid.program.find(name) != std::string::npos ||
         std::find(laid.named.begin(), laid.named.end(), name) != laid.named.end();
}

/// Trainers of verl's recipes that do more than the step that is modelled.
void tell_unmodelled_programs(Values& values, const Laid& laid, Settings& settings) {
  const auto tell = [&](const std::string& key, const std::string& what) {
    values.warn_at(key, what + " is not modelled yet: the verdict is undetermined");
    settings.not_modelled.push_back(what);
  };
  if ((runs(laid, "main_prime") || runs(laid, "prime_trainer")) && settings.reward.exists)
    tell("reward_model.enable", "PRIME's reward model, which is trained beside the actor,");
  if (runs(laid, "main_ppo_split") || runs(laid, "ppo_trainer_split"))
    tell("trainer.n_gpus_per_node", "the split placement, with actor and critic on halves of the GPUs,");
}

std::string folder_of(const JobInput& input) {
  if (input.files.empty()) return {};
  return std::filesystem::path(input.files.front().path).parent_path().string();
}

const settings::OptionKeys kOptions{.models = {"actor_rollout_ref.model.path"},
                                    .release = "headroom.versions.verl",
                                    .nodes = "trainer.nnodes",
                                    .gpus_per_node = "trainer.n_gpus_per_node"};

}  // namespace

bool detect(const JobInput& input) {
  for (const JobInput::File& file : input.files) {
    if (file.launch != nullptr) {
      if (file.launch->module && is_trainer(file.launch->program)) return true;
      for (const shell::Word& word : file.launch->words)
        if (word.text.find("actor_rollout_ref.") < word.text.find('=')) return true;
      continue;
    }
    if (is_list_of_overrides(file)) {
      if (file.text.find("actor_rollout_ref.") != std::string::npos) return true;
      continue;
    }
    if (file.document.find("actor_rollout_ref") != nullptr || is_recording(file.document)) return true;
  }
  return false;
}

/// Puts an engine's own name where a rollout of that engine has another: the asynchronous SGLang rollout of
/// the first releases, and what a fork of verl calls its rollouts (vllm_with_tool).
Status name_engine(Layers& layers, const Version& version, std::vector<std::string>& assumptions) {
  const std::string key = "actor_rollout_ref.rollout.name";
  const auto found = layers.get(key);
  if (!found || !*found || !(*found)->value.is_scalar()) return {};
  const std::string name = (*found)->value.text();
  const bool asynchronous = name == "sglang_async" && version < Version{0, 5, 0};
  for (const char* engine : {"vllm", "sglang"}) {
    const std::string own = engine;
    if (!name.starts_with(own + "_") || (name == "sglang_async" && !asynchronous)) continue;
    if (!asynchronous) assumptions.push_back(fmt::format("the rollout {} is {}'s", name, own));
    return layers.apply({.kind = Override::Kind::set,
                         .key = key,
                         .value = Document::scalar(own, (*found)->line, true),
                         .file = (*found)->file,
                         .line = (*found)->line});
  }
  return {};
}

/// Hydra takes no key of a section that the configuration lacks: Megatron's stand in its own configuration only.
void refuse_missing_sections(Values& values, const Laid& laid, const Settings& s) {
  if (laid.program != "verl.trainer.main_ppo" || s.actor.strategy == Strategy::megatron) return;
  for (const std::string section : {"actor_rollout_ref.actor.megatron", "actor_rollout_ref.ref.megatron", "critic.megatron"}) {
    for (const std::string& word : laid.words) {
      if (!word.starts_with(section + ".")) continue;
      values.fail_at(word.substr(0, word.find('=')),
                     fmt::format("verl's configuration for FSDP has no section {}, so Hydra stops; start with {}", section,
                                 s.after(0, 7, 1) ? "model_engine=megatron (or --config-name=ppo_megatron_trainer)"
                                                  : "--config-name=ppo_megatron_trainer"));
      return;
    }
  }
}

/// The run as its release makes it; `older`: those that it may be of too, where nothing states the release.
Result<ReadJob> read_once(const JobInput& input, const JobOptions& given, std::vector<Version>& older) {
  HEADROOM_ASSIGN(Laid laid, lay(input, given));
  Layers& layers = laid.layers;
  JobOptions options = given;
  options.environment = laid.environment;
  if (!options.model.empty())
    for (const char* key : {"actor_rollout_ref.model.path", "critic.model.path"}) layers.close(key);
  auto settings = std::make_shared<Settings>();
  ReadJob out;
  Versions stated;
  Version version;
  bool before_checks = false;
  std::vector<std::string> assumptions;
  {
    Values early(layers);
    stated = settings::stated_versions(early, options, "verl");
    HEADROOM_TRY(early.status());
    const ReleaseHints hints = stated.framework.empty() ? release_hints(input, laid.own) : ReleaseHints{};
    const bool settled = !hints.verl.empty() && hints.verl.find("dev") == std::string::npos;
    ReleaseClues clues{.vllm = stated.vllm.empty() ? hints.vllm : stated.vllm,
                       .development = settled ? "" : hints.verl,
                       .program = laid.program,
                       .words = laid.words};
    InferredVersion inferred = infer_version(layers, clues);
    version = !stated.framework.empty() ? *parse_version(stated.framework)
              : settled                 ? *parse_version(hints.verl)
                                        : inferred.version;
    const auto developed = parse_version(hints.verl);
    const auto offloads = layers.get(kGradOffload);
    const bool has_oldest_keys = hints.verl.empty() && offloads && *offloads && (*offloads)->given;
    before_checks = version < kOldest || (!settled && !hints.verl.empty() && developed && *developed < kOldest) ||
                    (stated.framework.empty() && has_oldest_keys);
    if (version < kOldest)
      assumptions.push_back(fmt::format("verl {} works like {}, the oldest release that was read",
                                        to_string(std::exchange(version, kOldest)), to_string(kOldest)));
    if (version >= kUnread)
      assumptions.push_back(
          fmt::format("verl {} works like the newest release that was read", to_string(version)));
    if (settled) assumptions.push_back(fmt::format("verl {} ({})", to_string(version), hints.because));
    if (stated.framework.empty() && !settled) {
      out.warnings = std::move(inferred.conflicts);
      std::string because = hints.verl.empty() && hints.vllm.empty() ? "" : hints.because + ", ";
      because += inferred.because.empty() ? "the newest known; no key tells" : inferred.because;
      assumptions.push_back(fmt::format("verl {} ({})", to_string(version), because));
      older = inferred.older;
      if (!older.empty()) out.alternatives.push_back(to_string(older.back()));
    }
    if (stated.vllm.empty()) stated.vllm = hints.vllm;
  }
  HEADROOM_TRY(name_engine(layers, version, assumptions));
  Document below = defaults(version);
  for (const std::string& name : laid.named) lay_over(below, named_settings(name, version));
  layers.set_defaults(std::move(below));
  Values values(layers);
  *settings = read_settings(values, version, options, folder_of(input));
  settings->versions = settings::stated_versions(values, options, "verl");
  if (settings->versions.vllm.empty()) settings->versions.vllm = stated.vllm;
  complete_versions(version, settings->versions);
  take_own_batches(laid, *settings);
  settings->before_checks = before_checks;
  if (before_checks) take_whole_batches(*settings);
  if (runs(laid, "spin_trainer") || runs(laid, "main_spin")) settings->logprob_entropy = false;
  tell_unmodelled_programs(values, laid, *settings);
  if (stated.vllm.empty() && settings->rollout.name == "vllm")
    assumptions.push_back(fmt::format("vLLM {}, PyTorch {} (the release's container image)",
                                      settings->versions.vllm, settings->versions.torch));
  settings->assumptions.insert(settings->assumptions.begin(), assumptions.begin(), assumptions.end());
  out.keys = settings::account_for_keys(
      values, keys(),
      {.framework = "verl",
       .release = version,
       .find = [&](std::string_view path) { return find_key(path, version); },
       .has = [](std::string_view path) { return releases_with(path) != 0; },
       .words = laid.words},
      settings->not_modelled);
  warn_of_unknown_changes(values, options, version);
  refuse_missing_sections(values, laid, *settings);
  HEADROOM_TRY(values.status());
  Result<Job> job = make_job(*settings);
  if (!job) {
    const std::string key = job.error().key;
    values.fail_with(std::move(job.error()), key);
    HEADROOM_TRY(values.status());
  }
  out.job = std::move(*job);
  HEADROOM_TRY(take_run(input, out.job));
  warn_of_short_models(values, *settings);
  if (!input.files.empty()) out.job.name = std::filesystem::path(input.files.back().path).stem().string();
  for (Notice& notice : values.take_warnings()) out.warnings.push_back(std::move(notice));
  out.input = input;
  out.overrides = settings::effective_overrides(options, kOptions);
  out.settings = std::move(settings);
  return out;
}

/// What a release refuses is no run of it: then it is one of the newest older release that its keys allow and that
/// takes it.
Result<ReadJob> read(const JobInput& input, const JobOptions& options) {
  std::vector<Version> older, none;
  Result<ReadJob> newest = read_once(input, options, older);
  if (newest) return newest;
  // What a release demands and a launch leaves out, whatever its other keys say, was written for one before it.
  if (options.versions.framework.empty())
    for (const Version& release : before_demand(newest.error().key)) older.push_back(release);
  for (const Version& release : older) {
    JobOptions as = options;
    as.versions.framework = to_string(release);
    Result<ReadJob> out = read_once(input, as, none);
    if (!out) continue;
    const Error& refused = newest.error();
    out->job.assumptions.insert(
        out->job.assumptions.begin(),
        fmt::format("verl {} (the newest that has its keys and does not refuse it)", to_string(release)));
    out->warnings.push_back({.file = refused.file,
                             .line = refused.line,
                             .key = refused.key,
                             .message = fmt::format("{}: newer releases than {} refuse it; read as that one "
                                                    "(headroom.versions.verl says which)",
                                                    refused.message, to_string(release))});
    return out;
  }
  return newest;
}

const Settings& settings_of(const ReadJob& read) {
  return static_cast<const Settings&>(*read.settings);
}

}  // namespace headroom::verl
