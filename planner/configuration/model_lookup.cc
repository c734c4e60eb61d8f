#include "planner/configuration/model_lookup.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <mutex>

#include "models/architecture/read.h"
#include "models/presets/mention.h"
#include "models/presets/presets.h"
#include "planner/configuration/value_grammar.h"

namespace headroom {
namespace {

namespace fs = std::filesystem;

const std::string kSuchAs =
    "--model, such as --model Qwen/Qwen2.5-7B-Instruct (`headroom models` lists names), or --model DIRECTORY "
    "with its config.json";

std::string expand_home(const std::string& path) {
  if (path.rfind("~/", 0) != 0 && path.rfind("$HOME/", 0) != 0) return path;
  const char* home = std::getenv("HOME");
  return (home == nullptr ? std::string("") : std::string(home)) + path.substr(path.find('/'));
}

/// The config.json that `path` names or holds, looked for from the working directory and from `base`.
std::optional<std::string> config_file(const std::string& path, const std::string& base) {
  if (path.empty()) return std::nullopt;
  const fs::path given = expand_home(path);
  for (const fs::path& start : {fs::path{}, fs::path(base)}) {
    const fs::path at = start.empty() || given.is_absolute() ? given : start / given;
    std::error_code code;
    if (fs::is_regular_file(at, code)) return at.string();
    if (fs::is_regular_file(at / "config.json", code)) return (at / "config.json").string();
  }
  return std::nullopt;
}

/// What stands for a model which somebody else is to name: <path>, /path/to/model, YOUR_MODEL, a sentence that says
/// what to do, global_step_100 (a checkpoint that a run of one's own wrote).
bool is_placeholder(const std::string& name) {
  if (name.find_first_of("<>{}$ ") != std::string::npos) return true;
  std::string word = fs::path(name).filename().string();
  std::transform(word.begin(), word.end(), word.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (word.empty()) word = fs::path(name).parent_path().filename().string();
  for (const char* start : {"your", "my_model", "my-model", "xxx", "global_step", "checkpoint-"})
    if (word.starts_with(start)) return true;
  for (const char* whole : {"model", "models", "model_path", "modelpath", "path", "actor", "ckpt", "checkpoint",
                            "hf_model", "huggingface", "base_model"})
    if (word == whole) return true;
  return name.find("path/to") != std::string::npos || name.find("path_to") != std::string::npos;
}

struct Found {
  Document config;
  std::string source;
};

Result<Found> find_config(const ModelRequest& request) {
  if (request.values.is_map()) return Found{request.values, "stated"};
  if (!request.config.empty()) {
    const auto file = config_file(request.config, request.base);
    if (!file) return fail(fmt::format("no config.json at {}", request.config));
    HEADROOM_ASSIGN(Document config, read_document(*file));
    return Found{std::move(config), *file};
  }
  if (request.name.empty()) return fail("expected a model's name or directory, found nothing; give " + kSuchAs);
  if (const auto file = config_file(request.name, request.base)) {
    HEADROOM_ASSIGN(Document config, read_document(*file));
    return Found{std::move(config), *file};
  }
  Result<Document> preset = find_preset(request.name);
  if (const Mention made = preset ? Mention{} : mentioned_preset(request.name); made.preset != nullptr)
    return Found{made.preset->config, request.name};
  if (!preset && is_placeholder(request.name))
    return fail(fmt::format("{} stands for a model that is not named here; give {}", request.name, kSuchAs));
  if (!preset)
    return fail(
        fmt::format("{}: there is no directory with a config.json of that name, and {}; give the model's "
                    "directory or config.json, or a name that `headroom models` lists (--model)",
                    request.name, preset.error().message));
  return Found{std::move(*preset), request.name};
}

}  // namespace

std::string taken_for(const ModelRequest& request) {
  if (!request.config.empty() || request.name.empty() || config_file(request.name, request.base)) return {};
  return look_up_preset(request.name) ? std::string() : mentioned_preset(request.name).name;
}

Result<std::shared_ptr<const Architecture>> find_model(const ModelRequest& request) {
  static std::map<std::string, std::shared_ptr<const Architecture>> known;
  static std::mutex mutex;
  HEADROOM_ASSIGN(Found found, find_config(request));
  const bool changed = request.overrides.is_map() && !request.overrides.entries().empty();
  const std::string key = fmt::format("{}|{}|{}", found.source, static_cast<int>(request.head),
                                      changed ? format_value(request.overrides) : "");
  if (changed)
    for (const auto& [name, value] : request.overrides.entries())
      if (value.is_scalar()) found.config.set(name, value);
  // A file may change between two reads of one process (tests, a long-lived tool): only presets are kept.
  const bool preset = found.source == request.name && request.config.empty() && !request.values.is_map() &&
                      !fs::exists(found.source);
  if (preset) {
    const std::lock_guard lock(mutex);
    if (const auto at = known.find(key); at != known.end()) return at->second;
  }
  ReadOptions options;
  if (request.head != HeadKind::language_model) {
    options.head = request.head;
    options.labels = 1;
  }
  HEADROOM_ASSIGN(Architecture made, make_architecture(found.config, found.source, options));
  auto shared = std::make_shared<const Architecture>(std::move(made));
  if (preset) {
    const std::lock_guard lock(mutex);
    known.emplace(key, shared);
  }
  return shared;
}

}  // namespace headroom
