#include "planner/frameworks/deepspeed_chat/command.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>

#include "models/presets/presets.h"
#include "planner/frameworks/deepspeed_chat/launcher.h"
#include "planner/frameworks/settings/arguments.h"

namespace headroom::deepspeed_chat {
namespace {

namespace fs = std::filesystem;

const shell::Launch* launch_of(const JobInput& input) {
  for (const JobInput::File& file : input.files)
    if (file.launch != nullptr && file.launch->program.ends_with("main.py"))
      for (const shell::Word& word : file.launch->words)
        if (word.text == "--actor_model_name_or_path" || word.text.starts_with("--actor_model_name_or_path="))
          return file.launch.get();
  return nullptr;
}

/// Flags that are keys of a case under another name, with the script's default.
struct Renamed {
  std::string_view flag, key, fallback;
};
constexpr std::array kRenamed = {
    Renamed{"per_device_training_batch_size", "batch", "16"},
    Renamed{"max_prompt_seq_len", "prompt", "256"},
    Renamed{"max_answer_seq_len", "response", "256"},
    Renamed{"actor_zero_stage", "zero_stage", "0"},
    Renamed{"dtype", "dtype", "fp16"},
};
/// Flags that are keys under their own name.
constexpr std::array<std::string_view, 12> kSame = {
    "offload",           "offload_reference_model",     "offload_reward_model", "enable_hybrid_engine",
    "enable_ema",        "compute_fp32_loss",           "only_optimize_lora",   "gradient_accumulation_steps",
    "generation_batches", "ppo_epochs",                 "actor_lora_dim",       "critic_lora_dim"};

class Translator {
 public:
  explicit Translator(const settings::Arguments& given) : given_(given), values_(given.layers) {}

  Result<Document> run(const shell::Launch& launch, const JobOptions& options) {
    model("actor", "actor_model_name_or_path");
    model("critic", "critic_model_name_or_path");
    for (const Renamed& one : kRenamed) {
      known(one.flag, true);
      put(one.key, one.flag, values_.text(one.flag, std::string(one.fallback)));
    }
    for (const std::string_view flag : kSame) {
      known(flag);
      if (values_.given(flag)) put(flag, flag, values_.text(flag));
    }
    equal("per_device_generation_batch_size", "per_device_training_batch_size", "16");
    equal("critic_zero_stage", "actor_zero_stage", "0");
    const bool actor = values_.flag("actor_gradient_checkpointing");
    if (values_.flag("critic_gradient_checkpointing") != actor)
      values_.fail_at(actor ? "actor_gradient_checkpointing" : "critic_gradient_checkpointing",
                      "expected actor and critic both to recompute their layers, or neither: one alone is not modelled");
    out_.set("grad_ckpt", Document::scalar(actor ? "true" : "false"));
    out_.set("world", Document::scalar(std::to_string(launched_gpus(launch, options))));
    HEADROOM_TRY(values_.status());
    return std::move(out_);
  }

 private:
  int line_of(std::string_view flag) const {
    std::string file;
    int line = 0;
    given_.layers.locate(flag, file, line);
    return values_.given(flag) ? line : 0;
  }
  void put(std::string_view key, std::string_view flag, std::string value) {
    out_.set(key, Document::scalar(std::move(value), line_of(flag)));
  }
  /// A value that nobody knows, or that is not there, is asked for.
  void known(std::string_view flag, bool takes_value = false) {
    if (takes_value && values_.given(flag) && values_.text(flag) == "true")
      values_.fail_at(flag, "expected a value, found none");
    const auto found = given_.unknown.find(std::string(flag));
    if (found != given_.unknown.end()) values_.fail_at(flag, "expected a value, found " + found->second);
  }
  void equal(std::string_view flag, std::string_view other, const std::string& fallback) {
    known(flag, true);
    const std::string a = values_.text(flag, fallback), b = values_.text(other, fallback);
    if (a != b)
      values_.fail_at(flag, fmt::format("expected --{}'s {}: another value is not modelled; found {}", other, b, a));
  }
  void model(const char* key, std::string_view flag) {
    known(flag, true);
    const std::string name = values_.text(flag);
    if (values_.failed()) return;
    if (name.empty()) return values_.fail_at(flag, "expected a model, found none");
    const fs::path config = fs::path(name) / "config.json";
    Result<Document> found = fs::is_regular_file(config) ? read_document(config.string()) : find_preset(name);
    if (!found) return values_.fail_with(std::move(found.error()), flag);
    out_.set(key, std::move(*found));
  }

  const settings::Arguments& given_;
  Values values_;
  Document out_ = Document::map();
};

}  // namespace

bool is_command(const JobInput& input) {
  return launch_of(input) != nullptr;
}

Result<JobInput> case_of_command(const JobInput& input, const JobOptions& options) {
  const shell::Launch& launch = *launch_of(input);
  HEADROOM_ASSIGN(const settings::Arguments given, settings::read_arguments(launch, {}, {}));
  HEADROOM_ASSIGN(Document keys, Translator(given).run(launch, options));
  JobInput out;
  out.files.push_back({.path = launch.place.file.empty() ? input.files.front().path : launch.place.file,
                       .document = std::move(keys),
                       .text = {},
                       .launch = {}});
  return out;
}

}  // namespace headroom::deepspeed_chat
