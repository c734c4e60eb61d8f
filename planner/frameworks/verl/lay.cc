#include "planner/frameworks/verl/lay.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "planner/configuration/override.h"
#include "planner/frameworks/input.h"
#include "planner/frameworks/shell/launch.h"
#include "planner/frameworks/shell/model_word.h"
#include "planner/frameworks/verl/named.h"
#include "planner/frameworks/verl/recording.h"

namespace headroom::verl {
namespace {

namespace fs = std::filesystem;

constexpr int kDeepest = 20, kMostAncestors = 12, kMostBeside = 5;

std::string stem(std::string name) {
  if (name.ends_with(".yaml")) name.resize(name.size() - 5);
  return name;
}

/// A path without its first folder, its first two …, its last one alone being left out: too many have it.
std::vector<fs::path> ends_of(const fs::path& path) {
  std::vector<fs::path> parts(path.begin(), path.end()), out;
  for (std::size_t from = 1; from + 2 <= parts.size() && from < 8; ++from) {
    fs::path end;
    for (std::size_t i = from; i < parts.size(); ++i) end /= parts[i];
    out.push_back(end);
  }
  return out;
}

/// Which configuration Hydra is told to start from, and where that is told.
struct Start {
  std::string name, path;
  shell::Place place;
};

class Composer {
 public:
  Composer(Laid& out, const JobOptions& options) : out_(out), options_(options) {}

  /// Below the words of a launch.
  Status start(const Start& start, const std::string& folder) {
    const std::string name = stem(start.name);
    const auto file = find(name, start.path, folder);
    if (file) return this->file(*file, 0);
    if (is_named(name)) {
      note(name);
      return {};
    }
    return fail(Error{.message = fmt::format(
                          "no {}.yaml beside the script, in the checkout around it or below --include-path, "
                          "and no configuration of verl's own ({})",
                          name, known_names()),
                      .file = start.place.file,
                      .line = start.place.line,
                      .key = "--config-name"});
  }

  /// Below the words of a program that is a project's own, or a changed copy of verl's: NAME.yaml in the `config` folder
  /// of its package, in the checkout around the script. Only one that is whole: what is put together from groups says
  /// less than what is known of verl's releases. Whether there is one.
  Result<bool> of_package(std::string_view program, const std::string& name, const std::string& folder) {
    const std::optional<fs::path> path = in_package(program, name, folder);
    if (!path) return false;
    HEADROOM_ASSIGN(Document document, read_document(path->string(), kConfigurationLimits));
    if (!document.is_map() || document.find("defaults") != nullptr) return false;
    HEADROOM_TRY(this->document(path->string(), std::move(document), 0));
    out_.own = path->string();
    return true;
  }

  Status file(const std::string& path, int depth) {
    HEADROOM_ASSIGN(Document document, read_document(path, kConfigurationLimits));
    return this->document(path, std::move(document), depth);
  }

  /// A configuration with what its `defaults:` name: before `_self_` below it, after it above.
  Status document(const std::string& path, Document document, int depth) {
    if (!document.is_map())
      return fail(Error{.message = "expected a map of verl's keys at the top",
                        .file = path,
                        .line = document.line(),
                        .key = {}});
    if (depth > kDeepest)
      return fail(Error{
          .message = "expected at most 20 levels of defaults", .file = path, .line = 0, .key = "defaults"});
    std::vector<Document> after;
    bool own_laid = false;
    const Document defaults =
        document.find("defaults") == nullptr ? Document::list() : *document.find("defaults");
    for (const Document& item : defaults.is_list() ? defaults.items() : std::vector<Document>{}) {
      if (item.is_scalar() && item.text() == "_self_") {
        out_.layers.add_file(path, document);
        own_laid = true;
        continue;
      }
      HEADROOM_TRY(named(item, path, depth));
    }
    if (!own_laid) out_.layers.add_file(path, std::move(document));
    return {};
  }

 private:
  void note(const std::string& name) {
    if (std::find(out_.named.begin(), out_.named.end(), name) == out_.named.end()) out_.named.push_back(name);
  }

  /// One item of `defaults:`. Groups of verl's own (`actor@actor_rollout_ref.actor: megatron_actor`) say
  /// which backend a role has.
  Status named(const Document& item, const std::string& path, int depth) {
    if (item.is_scalar()) {
      const std::string name = stem(item.text());
      if (const auto found = find(name, "", fs::path(path).parent_path().string()))
        return file(*found, depth + 1);
      if (is_named(name)) {
        note(name);
        return {};
      }
      return fail(Error{.message = fmt::format(
                            "no {}.yaml beside this file or below --include-path, and no configuration of "
                            "verl's own ({})",
                            name, known_names()),
                        .file = path,
                        .line = item.line(),
                        .key = "defaults"});
    }
    if (!item.is_map()) return {};
    for (const auto& [group, option] : item.entries()) {
      const std::size_t at = group.find('@');
      if (at == std::string::npos || !option.is_scalar()) continue;
      const std::string package = group.substr(at + 1);
      if (option.text().find("megatron") == std::string::npos) continue;
      if (package == "actor_rollout_ref.actor" || package == "actor_rollout_ref.ref" || package == "critic")
        HEADROOM_TRY(out_.layers.apply({.kind = Override::Kind::set,
                                        .key = package + ".strategy",
                                        .value = Document::scalar("megatron", item.line(), true),
                                        .file = path,
                                        .line = item.line()}));
    }
    return {};
  }

  /// `our.trainer.main_ppo` has its configurations in our/trainer/config: from the script's folder, one above it, or one
  /// beside those, into which a script may go before it starts.
  std::optional<fs::path> in_package(std::string_view program, const std::string& name, const std::string& folder) const {
    const std::size_t dot = program.rfind('.');
    if (dot == std::string_view::npos || program.find('/') != std::string_view::npos) return std::nullopt;
    std::string package(program.substr(0, dot));
    std::replace(package.begin(), package.end(), '.', '/');
    const fs::path wanted = fs::path(package) / "config" / (name + ".yaml");
    std::error_code code;
    std::vector<fs::path> roots(options_.include_paths.begin(), options_.include_paths.end());
    fs::path above = fs::absolute(folder.empty() ? "." : folder, code);
    for (int i = 0; i < kMostAncestors; ++i, above = above.parent_path()) {
      roots.push_back(above);
      if (above == above.parent_path()) break;
    }
    for (const fs::path& root : roots)
      if (fs::is_regular_file(root / wanted, code)) return root / wanted;
    // One that stands beside: the first by its name.
    for (std::size_t i = 0; i < roots.size() && i < kMostBeside; ++i) {
      std::optional<fs::path> first;
      for (const fs::directory_entry& entry : fs::directory_iterator(roots[i], code))
        if (fs::is_regular_file(entry.path() / wanted, code) && (!first || entry.path() / wanted < *first))
          first = entry.path() / wanted;
      if (first) return first;
    }
    return std::nullopt;
  }

  /// NAME.yaml in `path` (absolute, or seen from the working directory, the folder, or one above it, where
  /// verl's own trainer may stand), or in the folder itself.
  std::optional<std::string> find(const std::string& name, const std::string& path,
                                  const std::string& folder) const {
    std::vector<fs::path> places;
    for (const std::string& include : options_.include_paths) {
      places.emplace_back(include);
      places.push_back(fs::path(include) / path);
    }
    std::error_code code;
    const fs::path given(path), here = fs::absolute(folder.empty() ? "." : folder, code);
    if (!path.empty()) places.push_back(given);
    // A path below the working directory may be meant to start at the checkout.
    const fs::path below = given.is_absolute() ? given.lexically_relative(fs::current_path(code)) : given;
    places.push_back(here);
    places.push_back(here / "config");
    fs::path above = here;
    for (int i = 0; i < kMostAncestors && !path.empty() && above.has_parent_path(); ++i) {
      if (!below.empty() && *below.begin() != "..") places.push_back(above / below);
      if (above == above.parent_path()) break;
      above = above.parent_path();
    }
    // What stands in front of it may be a variable's stand-in (base_dir/recipe/x/config).
    for (const fs::path& end : ends_of(below)) {
      above = here;
      for (int i = 0; i < kMostAncestors; ++i, above = above.parent_path()) {
        places.push_back(above / end);
        if (above == above.parent_path()) break;
      }
    }
    for (const fs::path& place : places) {
      const fs::path file = place / (name + ".yaml");
      if (fs::is_regular_file(file, code) && !is_named(name)) return file.string();
    }
    return std::nullopt;
  }

  Laid& out_;
  const JobOptions& options_;
};

/// Hydra's own flags among the words; the rest are overrides.
struct HydraWords {
  Start start;
  std::vector<const shell::Word*> overrides;
};

bool take(const std::vector<const shell::Word*>& words, std::size_t& i,
          std::initializer_list<std::string_view> names, std::string& value) {
  const std::string& text = words[i]->text;
  for (const std::string_view name : names) {
    if (text == name && i + 1 < words.size()) {
      value = words[++i]->text;
      return true;
    }
    if (text.starts_with(name) && text.size() > name.size() && text[name.size()] == '=') {
      value = text.substr(name.size() + 1);
      return true;
    }
  }
  return false;
}

HydraWords hydra_words(const std::vector<const shell::Word*>& words) {
  HydraWords out;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::size_t at = i;
    if (take(words, i, {"--config-name", "-cn"}, out.start.name)) {
      out.start.place = words[at]->place;
    } else if (take(words, i, {"--config-path", "-cp", "--config-dir", "-cd"}, out.start.path)) {
      continue;
    } else if (!words[i]->text.starts_with("-") || words[i]->text.find('=') != std::string::npos) {
      if (!words[i]->text.starts_with("--")) out.overrides.push_back(words[i]);
    }
  }
  return out;
}

Status apply(Laid& out, const shell::Word& word) {
  const shell::Place& place = word.place;
  if (word.text.empty()) return {};
  out.words.push_back(word.text);
  if (word.known()) {
    HEADROOM_ASSIGN(const Override change, parse_override(word.text, place.file, place.line));
    return out.layers.apply(change);
  }
  const std::size_t equals = word.text.find('=');
  if (equals == std::string::npos || word.unknown.front().at < equals) {
    // A word that nobody knows may be any override.
    return fail(Error{.message = "expected KEY=VALUE, found " + shell::what_is_missing(word),
                      .file = place.file,
                      .line = place.line,
                      .key = {}});
  }
  HEADROOM_ASSIGN(Override change, parse_override(word.text.substr(0, equals + 1), place.file, place.line));
  const auto model = shell::model_at_end(shell::part_of(word, equals + 1, word.text.size()));
  change.value = Document::scalar(model.value_or(""), place.line, true);
  HEADROOM_TRY(out.layers.apply(change));
  if (model) return {};
  out.layers.leave_open(change.key, shell::what_is_missing(word));
  return {};
}

/// Not one of verl's own, whose configurations are known.
bool is_a_projects(std::string_view program) {
  constexpr std::string_view kVerls[] = {"verl.trainer.", "verl.experimental.", "recipe."};
  return !program.empty() && std::none_of(std::begin(kVerls), std::end(kVerls),
                                          [&](std::string_view own) { return program.starts_with(own); });
}

Status lay_words(Laid& out, const std::vector<const shell::Word*>& words, std::string_view program,
                 const std::string& folder, const JobOptions& options) {
  HydraWords hydra = hydra_words(words);
  if (hydra.start.name.empty() && !program.empty()) hydra.start.name = configuration_of(program);
  bool own = false;
  if (is_a_projects(program) && hydra.start.path.empty()) {
    HEADROOM_ASSIGN(own, Composer(out, options).of_package(program, stem(hydra.start.name), folder));
  }
  if (!own && !hydra.start.name.empty()) HEADROOM_TRY(Composer(out, options).start(hydra.start, folder));
  for (const shell::Word* word : hydra.overrides) HEADROOM_TRY(apply(out, *word));
  return {};
}

std::string folder_of(const std::string& path) {
  return fs::path(path).parent_path().string();
}

/// A list of overrides, one a line, may hold Hydra's flags too.
Status lay_list(Laid& out, const JobInput::File& file, const JobOptions& options) {
  HEADROOM_ASSIGN(const std::vector<ListedWord> list, parse_word_list(file.text, file.path));
  std::vector<shell::Word> words;
  for (const ListedWord& one : list)
    words.push_back({.text = one.text, .unknown = {}, .place = {file.path, one.line, 0, 0}});
  std::vector<const shell::Word*> views;
  for (const shell::Word& word : words) views.push_back(&word);
  return lay_words(out, views, "", folder_of(file.path), options);
}

}  // namespace

bool is_list_of_overrides(const JobInput::File& file) {
  return file.launch == nullptr && (file.document.is_scalar() || looks_like_overrides(file.text));
}

Result<Laid> lay(const JobInput& input, const JobOptions& options) {
  Laid out;
  for (const JobInput::File& file : input.files) {
    if (file.launch != nullptr) {
      std::vector<const shell::Word*> words;
      for (const shell::Word& word : file.launch->words) words.push_back(&word);
      out.program = file.launch->program;
      HEADROOM_TRY(lay_words(out, words, file.launch->program, folder_of(file.path), options));
      for (const auto& [name, value] : file.launch->environment)
        if (value.known()) out.environment[name] = value.text;
    } else if (is_recording(file.document)) {
      HEADROOM_TRY(lay_recording(file, out.layers));
    } else if (is_list_of_overrides(file)) {
      HEADROOM_TRY(lay_list(out, file, options));
    } else {
      HEADROOM_TRY(Composer(out, options).document(file.path, file.document, 0));
    }
  }
  for (const std::string& text : options.overrides) {
    HEADROOM_ASSIGN(const Override change, parse_override(text, "--set"));
    HEADROOM_TRY(out.layers.apply(change));
  }
  for (const auto& [name, value] : options.environment) out.environment[name] = value;
  out.layers.set_environment(out.environment);
  return out;
}

}  // namespace headroom::verl
