#include "planner/frameworks/chatlearn/rlhf/files.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "planner/configuration/override.h"
#include "planner/frameworks/chatlearn/rlhf/placeholders.h"

namespace headroom::chatlearn::rlhf {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kDeepest = 20;

class Loader {
 public:
  Loader(Layers& layers, const JobOptions& options, const std::map<std::string, std::string>& environment)
      : layers_(layers), options_(options), environment_(environment) {}

  /// A file's includes, then the file, below `at`.
  Status add(const std::string& file, const Document& document, const std::string& at) {
    if (!document.is_map())
      return fail(Error{.message = "expected a map of ChatLearn's keys", .file = file, .line = document.line(), .key = {}});
    const std::string name = fs::absolute(file).lexically_normal().string();
    if (std::find(way_.begin(), way_.end(), name) != way_.end() || way_.size() >= kDeepest)
      return fail(Error{.message = fmt::format("includes go in a circle: {} -> {}", fmt::join(way_, " -> "), name),
                        .file = file,
                        .key = "includes"});
    way_.push_back(name);
    if (const Document* includes = document.find("includes"); includes != nullptr && includes->is_list())
      for (const Document& one : includes->items()) {
        HEADROOM_ASSIGN(const std::string path, find_file(one.text(), file, one.line(), options_, "includes"));
        HEADROOM_ASSIGN(const Document included, read_last_wins(path));
        HEADROOM_TRY(add(path, included, at));
      }
    way_.pop_back();
    Document own = without_placeholders(document, environment_);
    own.erase("includes");
    Document root = Document::map(document.line());
    if (at.empty())
      root = std::move(own);
    else
      root.set_path(at, std::move(own));
    layers_.add_file(file, std::move(root));
    return {};
  }

 private:
  Layers& layers_;
  const JobOptions& options_;
  const std::map<std::string, std::string>& environment_;
  std::vector<std::string> way_;
};

/// The key that a line at the top gives; empty: none.
std::string_view key_of(std::string_view line) {
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos || colon == 0 || line.front() == ' ' || line.front() == '#' || line.front() == '-')
    return {};
  return line.substr(0, colon);
}

}  // namespace

/// Earlier lines of a key become empty, so that lines keep their numbers. Only values on the key's own line go: nested
/// ones given twice stay the reader's error.
Result<Document> parse_last_wins(std::string text, const std::string& path) {
  std::map<std::string, std::pair<std::size_t, std::size_t>, std::less<>> seen;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = std::string_view(text).substr(begin, end - begin);
    const std::string key(key_of(line));
    if (!key.empty() && line.size() > key.size() + 1) {
      if (const auto before = seen.find(key); before != seen.end())
        std::fill(text.begin() + static_cast<std::ptrdiff_t>(before->second.first),
                  text.begin() + static_cast<std::ptrdiff_t>(before->second.second), ' ');
      seen[key] = {begin, end};
    }
    begin = end + 1;
  }
  return parse_document(text, path);
}

Result<Document> read_last_wins(const std::string& path) {
  HEADROOM_ASSIGN(std::string text, read_text(path));
  return parse_last_wins(std::move(text), path);
}

Result<std::string> find_file(const std::string& wanted, const std::string& file, int line, const JobOptions& options,
                              const std::string& key) {
  std::vector<fs::path> places{wanted};
  if (!fs::path(wanted).is_absolute()) {
    places = {(fs::path(file).parent_path() / wanted).lexically_normal()};
    for (const std::string& folder : options.include_paths) {
      places.push_back((fs::path(folder) / wanted).lexically_normal());
      places.push_back(fs::path(folder) / fs::path(wanted).filename());
    }
  }
  std::string tried;
  for (const fs::path& place : places) {
    std::error_code error;
    if (fs::is_regular_file(place, error)) return place.string();
    tried += (tried.empty() ? "" : ", ") + place.string();
  }
  return fail(Error{.message = fmt::format("expected the file {}, found none; tried {}; give its folder with --include-path",
                                           wanted, tried),
                    .file = file,
                    .line = line,
                    .key = key});
}

Result<Layers> lay_run(const std::string& path, const Document& main, const JobOptions& options,
                       const std::map<std::string, std::string>& environment) {
  Layers layers;
  Loader loader(layers, options, environment);
  HEADROOM_TRY(loader.add(path, main, ""));
  if (const Document* models = main.find("models"); models != nullptr)
    for (const auto& [name, model] : models->entries()) {
      const Document* config = model.find("model_config_file");
      if (config == nullptr || !config->is_scalar()) continue;
      const Document named = without_placeholders(*config, environment);
      HEADROOM_ASSIGN(const std::string file,
                      find_file(named.text(), path, config->line(), options, "models." + name + ".model_config_file"));
      HEADROOM_ASSIGN(const Document document, read_last_wins(file));
      HEADROOM_TRY(loader.add(file, document, "models." + name + ".args"));
    }
  for (const std::string& text : options.overrides) {
    HEADROOM_ASSIGN(const Override change, parse_override(text, "--set"));
    HEADROOM_TRY(layers.apply(change));
  }
  return layers;
}

}  // namespace headroom::chatlearn::rlhf
