#include "planner/frameworks/trl/input.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "planner/configuration/override.h"
#include "planner/frameworks/settings/arguments.h"
#include "planner/frameworks/shell/runner_count.h"
#include "planner/frameworks/trl/launcher.h"

namespace headroom::trl {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 6> kNames = {"grpo", "rloo", "ppo", "dpo", "sft", "reward"};

/// Parts of a script's name and the trainer that it then has, the first that fits. Empty: one that is not
/// read.
constexpr std::array<std::pair<std::string_view, std::string_view>, 30> kScripts = {{
    {"online_dpo", ""},   {"dpo_online", ""},   {"async_grpo", ""}, {"grpo_with_replay", ""},
    {"gspo", "grpo"},     {"grpo", "grpo"},     {"rloo", "rloo"},   {"ppo", "ppo"},
    {"reward", "reward"}, {"kto", ""},          {"cpo", ""},        {"orpo", ""},
    {"mpo", "dpo"},       {"tpo", ""},          {"bco", ""},        {"sdpo", ""},
    {"dpo", "dpo"},       {"sdft", ""},         {"dft", "sft"},     {"sft", "sft"},
    {"gkd", ""},          {"gold", ""},         {"nash_md", ""},    {"xpo", ""},
    {"prm", ""},          {"distillation", ""}, {"minillm", ""},    {"ssd", ""},
    {"papo", ""},         {"iw_opd", ""},
}};

bool has_flag(const shell::Launch& launch, std::string_view name) {
  return std::any_of(launch.words.begin(), launch.words.end(), [&](const shell::Word& word) {
    std::string_view text = word.text;
    if (!text.starts_with("--")) return false;
    text.remove_prefix(2);
    text = text.substr(0, text.find('='));
    std::string plain(text);
    std::replace(plain.begin(), plain.end(), '-', '_');
    return plain == name;
  });
}

/// Words that TRL's scripts take, and none of another framework's of the same file names.
bool takes_words(const shell::Launch& launch) {
  if (launch.words.empty()) return true;
  constexpr std::array<std::string_view, 6> kOwn = {
      "model_name_or_path", "config",   "per_device_train_batch_size",
      "num_generations",    "use_vllm", "vllm_mode"};
  constexpr std::array<std::string_view, 6> kForeign = {"pretrain",    "plugin",     "strategy",
                                                        "config_file", "data_split", "zero_stage"};
  const auto has = [&](std::string_view name) { return has_flag(launch, name); };
  return std::any_of(kOwn.begin(), kOwn.end(), has) && std::none_of(kForeign.begin(), kForeign.end(), has);
}

/// Files that a run's files and words name are looked for where they would be: from the directory of the
/// start, then beside the file that names them.
Result<fs::path> find_file(const std::string& name, const std::string& beside, const std::string& file,
                           int line, const std::string& key) {
  std::vector<fs::path> tried = {fs::path(name)};
  if (!fs::path(name).is_absolute() && !beside.empty())
    tried.push_back(fs::path(beside).parent_path() / name);
  std::error_code code;
  for (const fs::path& path : tried)
    if (fs::is_regular_file(path, code)) return path;
  std::string paths;
  for (const fs::path& path : tried) paths += (paths.empty() ? "" : ", ") + path.string();
  return fail(Error{.message = fmt::format("expected a file, found none of {}", paths),
                    .file = file,
                    .line = line,
                    .key = key});
}

Result<Document> read_file(const fs::path& path) {
  constexpr std::size_t kLargest = 8 << 20;
  HEADROOM_ASSIGN(std::string text, read_text(path.string(), kLargest));
  HEADROOM_ASSIGN(Document document, parse_document(text, path.string()));
  if (!document.is_map())
    return fail(Error{.message = "expected a map of keys", .file = path.string(), .line = 1, .key = {}});
  return document;
}

/// A value of the words or the files, with its place.
struct Named {
  std::string text, file, key;
  int line = 0;
};

class Laying {
 public:
  Laying(const Sources& sources, std::span<const settings::Key> keys, const JobOptions& options)
      : sources_(sources), keys_(keys), options_(options) {}

  Result<Laid> run() {
    HEADROOM_TRY(read_words());
    HEADROOM_TRY(lay_accelerate());
    for (const JobInput::File* file : sources_.deepspeed) add_deepspeed(file->path, file->document);
    for (auto& [path, document] : trainers_) laid_.layers.add_file(path, document);
    HEADROOM_TRY(lay_runner());
    HEADROOM_TRY(lay_words());
    HEADROOM_TRY(lay_deepspeed());
    laid_.layers.set_environment(options_.environment);
    return std::move(laid_);
  }

 private:
  /// The command's words, and the YAML of the trainer that they or Headroom's command line name.
  Status read_words() {
    std::vector<std::pair<std::string, Document>> given;
    if (sources_.command != nullptr) {
      const shell::Launch& launch = *sources_.command->launch;
      HEADROOM_ASSIGN(words_, settings::read_arguments(launch, keys_, options_, true));
      if (const auto config = word("config")) {
        HEADROOM_ASSIGN(const fs::path path, find_file(config->text, sources_.command->path, config->file,
                                                       config->line, "config"));
        HEADROOM_ASSIGN(Document document, read_file(path));
        given.emplace_back(path.string(), std::move(document));
      }
    } else {
      for (const std::string& text : options_.overrides) {
        HEADROOM_ASSIGN(const Override change, parse_override(text, "--set"));
        HEADROOM_TRY(words_.layers.apply(change));
      }
    }
    for (const JobInput::File* file : sources_.trainers) given.emplace_back(file->path, file->document);
    for (auto& [path, document] : given) {
      HEADROOM_ASSIGN(Document maps, with_maps(std::move(document), path));
      trainers_.emplace_back(path, with_accelerate_keys(maps));
    }
    return {};
  }

  std::optional<Named> word(const std::string& key) const {
    for (const Layers::Leaf& leaf : words_.layers.given_leaves())
      if (leaf.key == key && leaf.value->is_scalar() && words_.unknown.count(key) == 0)
        return Named{.text = leaf.value->text(), .file = *leaf.file, .key = key, .line = leaf.value->line()};
    return std::nullopt;
  }
  /// Of the words, else of the trainer's YAML.
  std::optional<Named> named(const std::string& key) const {
    if (auto found = word(key)) return found;
    for (auto at = trainers_.rbegin(); at != trainers_.rend(); ++at)
      if (const Document* value = at->second.find_path(key); value != nullptr && value->is_scalar())
        return Named{.text = value->text(), .file = at->first, .key = key, .line = value->line()};
    return std::nullopt;
  }
  std::string beside() const {
    if (sources_.command != nullptr) return sources_.command->path;
    return sources_.trainers.empty() ? "" : sources_.trainers.front()->path;
  }

  Status lay_accelerate() {
    for (const JobInput::File* file : sources_.accelerate)
      laid_.layers.add_file(file->path, with_accelerate_keys(file->document));
    std::optional<Named> configuration = named("accelerate_config");
    if (sources_.command != nullptr)
      if (const shell::Word* file =
              sources_.command->launch->runner_option({"--config_file", "--config-file"}))
        configuration = Named{
            .text = file->text, .file = file->place.file, .key = "config_file", .line = file->place.line};
    if (!configuration) return {};
    // A name of TRL's own, or a file; one of TRL's examples is known by its name too.
    std::string stem = fs::path(configuration->text).stem().string();
    Result<fs::path> path = find_file(configuration->text, beside(), configuration->file, configuration->line,
                                      configuration->key);
    if (path) {
      HEADROOM_ASSIGN(const Document document, read_file(*path));
      laid_.layers.add_file(path->string(), with_accelerate_keys(document));
      return {};
    }
    if (stem.starts_with("deepspeed_")) stem = stem.substr(std::string_view("deepspeed_").size());
    const std::string_view text = shipped_configuration(stem);
    if (text.empty()) return tl::unexpected<Error>(path.error());
    HEADROOM_ASSIGN(const Document document, parse_document(text, configuration->text));
    laid_.layers.add_file(configuration->text, with_accelerate_keys(document));
    if (configuration->text != stem)
      laid_.assumptions.push_back(
          fmt::format("{} is not there: TRL's own configuration of that name is taken", configuration->text));
    return {};
  }

  void add_deepspeed(const std::string& path, const Document& document) {
    Document section = Document::map();
    section.set("ds", document);
    laid_.layers.add_file(path, std::move(section));
  }

  /// `deepspeed:` of the trainer, a file or a map, or the file that Accelerate's configuration names.
  Status lay_deepspeed() {
    for (const auto& [path, document] : trainers_)
      if (const Document* map = document.find("deepspeed"); map != nullptr && map->is_map())
        add_deepspeed(path, *map);
    std::optional<Named> name = named("deepspeed");
    if (!name) {
      const auto found = laid_.layers.get("accelerate.deepspeed_config_file");
      if (found && *found && (*found)->value.is_scalar() && !(*found)->value.is_null())
        name = Named{.text = (*found)->value.text(),
                     .file = (*found)->file,
                     .key = "accelerate.deepspeed_config_file",
                     .line = (*found)->line};
    }
    if (!name || name->text.empty()) return {};
    if (name->text.starts_with('{')) {
      HEADROOM_ASSIGN(const Document map, parse_document(name->text, name->file));
      add_deepspeed(name->file, map);
      return {};
    }
    HEADROOM_ASSIGN(const fs::path path, find_file(name->text, beside(), name->file, name->line, name->key));
    HEADROOM_ASSIGN(const Document document, read_file(path));
    add_deepspeed(path.string(), document);
    return {};
  }

  Status force(const std::string& key, Document value, const std::string& file, int line) {
    return laid_.layers.apply(
        {.kind = Override::Kind::force, .key = key, .value = std::move(value), .file = file, .line = line});
  }

  /// The launcher's words: `accelerate launch`'s are its file's keys, `torchrun` and `deepspeed` say how many
  /// processes there are, `python` starts one.
  Status lay_runner() {
    if (sources_.command == nullptr) return {};
    const shell::Launch& launch = *sources_.command->launch;
    const std::vector<shell::Word>& words = launch.runner_words;
    if (launch.runner == "accelerate") {
      for (std::size_t i = 0; i < words.size(); ++i) {
        if (!words[i].text.starts_with("--")) continue;
        std::string name = words[i].text.substr(2);
        std::replace(name.begin(), name.end(), '-', '_');
        const std::string key = key_of_flag(name);
        if (key == name) continue;
        const bool alone = i + 1 >= words.size() || words[i + 1].text.starts_with("--") ||
                           name == "multi_gpu" || name == "use_deepspeed" || name == "use_fsdp";
        const shell::Word& value = alone ? words[i] : words[i + 1];
        if (!alone && !value.known()) {
          laid_.unknown[key] = what_is_missing(value);
          continue;
        }
        HEADROOM_TRY(force(key, Document::scalar(alone ? "true" : value.text, value.place.line),
                           value.place.file.empty() ? "--" : value.place.file, value.place.line));
      }
      return {};
    }
    if (launch.runner == "torchrun" || launch.runner == "deepspeed") {
      std::optional<std::int64_t> nodes = options_.nodes, each = options_.gpus_per_node;
      if (!nodes) {
        HEADROOM_ASSIGN(nodes, shell::runner_count(launch, {"--nnodes", "--num_nodes"}));
      }
      if (!each) {
        HEADROOM_ASSIGN(each, shell::runner_count(launch, {"--nproc_per_node", "--nproc-per-node", "--num_gpus"}));
      }
      const std::int64_t machines = nodes.value_or(1);
      HEADROOM_TRY(force("accelerate.num_machines", Document::scalar(std::to_string(machines)), "--", 0));
      if (each)
        HEADROOM_TRY(
            force("accelerate.num_processes", Document::scalar(std::to_string(machines * *each)), "--", 0));
    } else if (launch.runner == "python") {
      HEADROOM_TRY(force("accelerate.num_processes", Document::scalar("1"), "--", 0));
    }
    return {};
  }

  Status lay_words() {
    for (const Layers::Leaf& leaf : words_.layers.given_leaves()) {
      std::string name = leaf.key;
      Document value = *leaf.value;
      // `--no_x` switches a flag off that is on by default.
      if (name.starts_with("no_") && settings::find_key(keys_, name, kHead) == nullptr) {
        name = name.substr(3);
        value = Document::scalar("false", leaf.value->line());
      }
      const std::string key = key_of_flag(name);
      if (value.is_scalar() && value.text().starts_with('{')) {
        Document one = Document::map();
        one.set(name, value);
        HEADROOM_ASSIGN(one, with_maps(std::move(one), *leaf.file));
        value = *one.find(name);
      }
      HEADROOM_TRY(force(key, std::move(value), *leaf.file, leaf.value->line()));
    }
    for (const auto& [name, missing] : words_.unknown) laid_.unknown[key_of_flag(name)] = missing;
    if (options_.nodes)
      HEADROOM_TRY(
          force("accelerate.num_machines", Document::scalar(std::to_string(*options_.nodes)), "--nodes", 0));
    if (options_.gpus_per_node)
      HEADROOM_TRY(
          force("accelerate.num_processes",
                Document::scalar(std::to_string(options_.nodes.value_or(1) * *options_.gpus_per_node)),
                "--gpus-per-node", 0));
    return {};
  }

  const Sources& sources_;
  std::span<const settings::Key> keys_;
  const JobOptions& options_;
  settings::Arguments words_;
  std::vector<std::pair<std::string, Document>> trainers_;
  Laid laid_;
};

}  // namespace

Sources sort_files(const JobInput& input) {
  Sources out;
  for (const JobInput::File& file : input.files) {
    if (file.launch != nullptr)
      out.command = &file;
    else if (is_accelerate_file(file.document) && file.document.find("model_name_or_path") == nullptr)
      out.accelerate.push_back(&file);
    else if (is_deepspeed_file(file.document))
      out.deepspeed.push_back(&file);
    else
      out.trainers.push_back(&file);
  }
  return out;
}

std::string trainer_name(const shell::Launch& launch) {
  if (launch.runner == "trl" || launch.program == "trl") {
    const auto first = std::find_if(launch.words.begin(), launch.words.end(),
                                    [](const shell::Word& word) { return !word.text.starts_with('-'); });
    const std::string name = first == launch.words.end() ? "" : first->text;
    return name == "vllm-serve" || name == "env" || name == "skills" ? "" : name;
  }
  constexpr std::string_view kModules = "trl.scripts.";
  if (launch.program.starts_with(kModules)) return launch.program.substr(kModules.size());
  const fs::path path(launch.program);
  if (path.extension() != ".py" || !takes_words(launch)) return {};
  const std::string name = path.stem().string();
  // Other scripts are TRL's by the flags of its trainers alone.
  const bool own = has_flag(launch, "num_generations") ||
                   (has_flag(launch, "model_name_or_path") && has_flag(launch, "output_dir"));
  return names_a_trainer(name) || own ? name : std::string();
}

std::optional<Trainer> trainer_of(std::string_view name) {
  for (const auto& [part, trainer] : kScripts) {
    if (name.find(part) == std::string_view::npos) continue;
    for (std::size_t i = 0; i < kNames.size(); ++i)
      if (kNames[i] == trainer) return static_cast<Trainer>(i);
    return std::nullopt;
  }
  return std::nullopt;
}

bool names_a_trainer(std::string_view name) {
  return std::any_of(kScripts.begin(), kScripts.end(),
                     [&](const auto& script) { return name.find(script.first) != std::string_view::npos; });
}

std::string_view name_of(Trainer trainer) {
  return kNames[static_cast<std::size_t>(trainer)];
}

Result<Laid> lay(const Sources& sources, std::span<const settings::Key> keys, const JobOptions& options) {
  return Laying(sources, keys, options).run();
}

}  // namespace headroom::trl
