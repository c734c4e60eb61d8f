#pragma once

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "planner/frameworks/deepspeed_chat/launcher.h"
#include "planner/frameworks/settings/arguments.h"
#include "planner/frameworks/settings/run.h"

namespace headroom::deepspeed_chat {

/// Whether the command line has the flag, as `--flag value` or `--flag=value`.
inline bool has(const shell::Launch& launch, std::string_view flag) {
  return std::any_of(launch.words.begin(), launch.words.end(), [&](const shell::Word& word) {
    return word.text == flag || word.text.starts_with(std::string(flag) + "=");
  });
}

/// What the steps' command lines differ in.
template <typename S>
struct Step {
  std::vector<settings::Key> keys;
  std::string model_key;  ///< what `--model` stands for
  void (*read)(Values& values, S& settings);
  /// Finds the models, from `base` on, and refuses or warns of what can't stand together.
  void (*check)(Values& values, S& settings, const JobOptions& options, const std::string& base);
  Result<Job> (*make_job)(const S& settings);
};

/// A step's command line read into `made`, which knows its program and says so among its assumptions. Errors:
/// those of the words, of `check` and of the job.
template <typename S>
Result<ReadJob> read_flags(const JobInput& input, const JobInput::File& file, const JobOptions& options,
                           std::shared_ptr<S> made, const Step<S>& step) {
  S& s = *made;
  s.release = settings::kFirst;
  HEADROOM_ASSIGN(settings::Arguments arguments, settings::read_arguments(*file.launch, step.keys, options));
  Layers& layers = arguments.layers;
  {
    Values early(layers);
    s.versions = settings::stated_versions(early, options, "deepspeed_chat");
    HEADROOM_TRY(early.status());
  }
  if (s.versions.deepspeed.empty()) s.versions.deepspeed = "0.16.4";
  layers.set_defaults(settings::defaults(step.keys, s.release));
  Values values(layers);
  settings::refuse_unknown(values, step.keys, s.release, arguments.unknown);
  step.read(values, s);
  HEADROOM_ASSIGN(s.gpus, launched_gpus(*file.launch, options));
  settings::take_options(s, options);
  step.check(values, s, options, std::filesystem::path(file.path).parent_path().string());
  return settings::finish(values, std::move(made),
                          {.framework = "DeepSpeed-Chat",
                           .keys = step.keys,
                           .input = input,
                           .named_after = file.path,
                           .overrides = settings::effective_overrides(
                               options, {.models = {step.model_key},
                                         .release = "headroom.versions.deepspeed_chat",
                                         .nodes = {},
                                         .gpus_per_node = {}})},
                          [&] { return step.make_job(s); });
}

}  // namespace headroom::deepspeed_chat
