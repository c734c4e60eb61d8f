#include "planner/frameworks/nemo_rl/parents.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "planner/configuration/override.h"
#include "planner/frameworks/named_configuration.h"

namespace headroom::nemo_rl {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kDeepest = 20;
constexpr int kFoldersAbove = 6;

/// Where `parent`, as `file` names it, may be.
std::vector<fs::path> places(const std::string& parent, const std::string& file, const JobOptions& options) {
  const fs::path wanted = parent, here = fs::path(file).parent_path();
  if (wanted.is_absolute()) return {wanted};
  std::vector<fs::path> out{(here / wanted).lexically_normal()};
  for (const std::string& folder : options.include_paths) {
    out.push_back((fs::path(folder) / wanted).lexically_normal());
    out.push_back(fs::path(folder) / wanted.filename());
  }
  fs::path above = fs::absolute(here.empty() ? "." : here).lexically_normal();
  for (int i = 0; i < kFoldersAbove && above.has_relative_path(); ++i) {
    out.push_back(above / wanted.filename());
    above = above.parent_path();
  }
  return out;
}

Result<std::string> find_parent(const std::string& parent, const std::string& file, int line,
                                const JobOptions& options) {
  std::string tried;
  const fs::path self = fs::absolute(file).lexically_normal();
  for (const fs::path& place : places(parent, file, options)) {
    std::error_code error;
    if (fs::is_regular_file(place, error) && fs::absolute(place).lexically_normal() != self)
      return place.string();
    tried += (tried.empty() ? "" : ", ") + place.string();
  }
  return fail(Error{.message = fmt::format("expected the parent configuration {}, found none; tried {}; give "
                                           "its folder with --include-path",
                                           parent, tried),
                    .file = file,
                    .line = line,
                    .key = "defaults"});
}

/// Keys of maps that say `_override_: true`: what is below them goes.
void overridden(const Document& map, const std::string& at, std::vector<std::string>& keys) {
  for (const auto& [name, value] : map.entries()) {
    if (!value.is_map()) continue;
    const std::string key = at.empty() ? name : at + "." + name;
    const Document* mark = value.find("_override_");
    if (mark != nullptr && mark->as_bool().value_or(false))
      keys.push_back(key);
    else
      overridden(value, key, keys);
  }
}

class Loader {
 public:
  Loader(Layers& layers, const JobOptions& options) : layers_(layers), options_(options) {}

  Status add(const std::string& file, const Document& document) {
    if (!document.is_map())
      return fail(Error{.message = "expected a map of NeMo RL's keys at the top",
                        .file = file,
                        .line = document.line(),
                        .key = {}});
    const std::string name = fs::absolute(file).lexically_normal().string();
    const Document* parents = document.find("defaults");
    if (std::find(way_.begin(), way_.end(), name) != way_.end() || way_.size() >= kDeepest) {
      return fail(
          Error{.message = fmt::format("parents go in a circle: {} -> {}", fmt::join(way_, " -> "), name),
                .file = file,
                .line = parents != nullptr ? parents->line() : 0,
                .key = "defaults"});
    }
    way_.push_back(name);
    if (parents != nullptr) HEADROOM_TRY(add_parents(file, *parents));
    way_.pop_back();
    std::vector<std::string> replaced;
    overridden(document, "", replaced);
    for (const std::string& key : replaced)
      HEADROOM_TRY(layers_.apply(
          {.kind = Override::Kind::remove, .key = key, .value = Document::null(), .file = file, .line = 0}));
    layers_.add_file(file, document);
    return {};
  }

 private:
  Status add_parents(const std::string& file, const Document& parents) {
    const auto one = [&](const Document& parent) -> Status {
      if (!parent.is_scalar())
        return fail(Error{.message = "expected a file or a list of files",
                          .file = file,
                          .line = parent.line(),
                          .key = "defaults"});
      HEADROOM_ASSIGN(const std::string path, find_parent(parent.text(), file, parent.line(), options_));
      HEADROOM_ASSIGN(const Document document, read_document(path));
      return add(path, document);
    };
    if (!parents.is_list()) return one(parents);
    for (const Document& parent : parents.items()) HEADROOM_TRY(one(parent));
    return {};
  }

  Layers& layers_;
  const JobOptions& options_;
  std::vector<std::string> way_;
};

Result<std::optional<Document>> arithmetic(std::string_view name, const std::vector<Document>& arguments) {
  double (*apply)(double, double) = nullptr;
  if (name == "mul") apply = [](double a, double b) { return a * b; };
  if (name == "add") apply = [](double a, double b) { return a + b; };
  if (name == "sub") apply = [](double a, double b) { return a - b; };
  if (name == "div") apply = [](double a, double b) { return std::floor(a / b); };
  if (name == "max") apply = [](double a, double b) { return std::max(a, b); };
  if (name == "min") apply = [](double a, double b) { return std::min(a, b); };
  if (apply == nullptr) return std::optional<Document>{};
  std::vector<double> numbers;
  for (const Document& argument : arguments) {
    const auto number = argument.is_scalar() ? Document::scalar(argument.text()).as_double() : std::nullopt;
    if (!number)
      return fail(fmt::format("the resolver {} expects numbers, found {}", name,
                              argument.is_scalar() ? argument.text() : "null"));
    numbers.push_back(*number);
  }
  if (numbers.size() < 2) return fail(fmt::format("the resolver {} expects two numbers", name));
  double value = numbers.front();
  for (std::size_t i = 1; i < numbers.size(); ++i) value = apply(value, numbers[i]);
  if (!std::isfinite(value)) return fail(fmt::format("the resolver {} divides by 0", name));
  const bool whole = value == std::floor(value) && std::abs(value) < 9e15;
  return std::optional<Document>(
      Document::scalar(whole ? std::to_string(static_cast<std::int64_t>(value)) : fmt::format("{}", value)));
}

}  // namespace

Result<Layers> lay_parents(const JobInput& input, const JobOptions& options) {
  Layers layers;
  Loader loader(layers, options);
  for (const JobInput::File& file : input.files) {
    if (file.document.is_scalar()) {
      HEADROOM_TRY(lay_changes(file, layers));
      continue;
    }
    HEADROOM_TRY(loader.add(file.path, file.document));
  }
  for (const std::string& text : options.overrides) {
    HEADROOM_ASSIGN(const Override change, parse_override(text, "--set"));
    HEADROOM_TRY(layers.apply(change));
  }
  layers.set_environment(environment_of(input, options));
  layers.set_resolver(arithmetic);
  return layers;
}

}  // namespace headroom::nemo_rl
