#include "planner/frameworks/named_configuration.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "planner/frameworks/input.h"
#include "planner/frameworks/registry.h"
#include "planner/frameworks/shell/launch.h"

namespace headroom {
namespace {

namespace fs = std::filesystem;

constexpr int kFoldersAbove = 8;

/// How a framework's programs are called and told their file.
struct Program {
  std::string_view framework;
  std::string_view begin, end;  ///< of the program's name; both empty: any program, if the file is that framework's
  std::array<std::string_view, 2> flags;
  std::string_view beside;  ///< the file it takes without a flag, seen from its folder; empty: none
};

constexpr Program kPrograms[] = {
    {"nemo-rl", "run_grpo", ".py", {"--config", ""}, "configs/grpo_math_1B.yaml"},
    {"nemo-rl", "run_sft", ".py", {"--config", ""}, "configs/sft.yaml"},
    {"nemo-rl", "run_dpo", ".py", {"--config", ""}, "configs/dpo.yaml"},
    {"nemo-rl", "run_rm", ".py", {"--config", ""}, "configs/rm.yaml"},
    {"nemo-rl", "run_distillation", ".py", {"--config", ""}, "configs/distillation_math.yaml"},
    {"nemo-rl", "", ".py", {"--config", ""}, ""},
    {"easyr1", "verl.trainer.main", "verl.trainer.main", {"config", ""}, ""},
    {"chatlearn", "entrypoint", ".py", {"-c", "--config-file"}, ""},
    {"chatlearn", "", ".py", {"--config-file", ""}, ""},
};

/// The value of one of `flags` as `--flag VALUE` or `--flag=VALUE`; a flag without dashes is `flag=VALUE` alone. `used`
/// is told the words that it takes.
std::optional<shell::Word> flag_value(const shell::Launch& launch, const std::array<std::string_view, 2>& flags,
                                      std::vector<std::size_t>* used = nullptr) {
  std::optional<shell::Word> out;
  const auto use = [&](std::size_t i) {
    if (used != nullptr) used->push_back(i);
  };
  for (std::size_t i = 0; i < launch.words.size(); ++i) {
    const std::string& text = launch.words[i].text;
    for (const std::string_view flag : flags) {
      if (flag.empty() || !text.starts_with(flag)) continue;
      if (text.size() == flag.size() && flag.starts_with('-') && i + 1 < launch.words.size()) {
        out = launch.words[i + 1];
        use(i);
        use(i + 1);
      } else if (text.size() > flag.size() && text[flag.size()] == '=') {
        out = shell::part_of(launch.words[i], flag.size() + 1, text.size());
        use(i);
      }
    }
  }
  return out;
}

bool is_called(const shell::Launch& launch, const Program& program) {
  const std::string name = fs::path(launch.program).filename().string();
  return name.starts_with(program.begin) && name.ends_with(program.end) &&
         name.size() >= std::max(program.begin.size(), program.end.size());
}

std::optional<std::string> find(const std::string& wanted, const std::string& script, const JobOptions& options) {
  std::vector<fs::path> places{wanted};
  for (const std::string& folder : options.include_paths) places.push_back(fs::path(folder) / wanted);
  std::error_code code;
  fs::path above = fs::absolute(script, code).lexically_normal().parent_path();
  for (int i = 0; i < kFoldersAbove && fs::path(wanted).is_relative(); ++i) {
    places.push_back(above / wanted);
    if (above == above.parent_path()) break;
    above = above.parent_path();
  }
  for (const fs::path& place : places)
    if (fs::is_regular_file(place, code)) return place.lexically_normal().string();
  return std::nullopt;
}

Error at_launch(const shell::Launch& launch, const std::string& message) {
  return Error{.message = message, .file = launch.place.file, .line = launch.place.line, .key = {}};
}

/// Whether it has flags that the program does not: another one of that name.
bool has_other_flags(const shell::Launch& launch, const Program& program) {
  return std::any_of(launch.words.begin(), launch.words.end(), [&](const shell::Word& word) {
    const std::string_view flag = std::string_view(word.text).substr(0, word.text.find('='));
    return flag.starts_with("--") && std::find(program.flags.begin(), program.flags.end(), flag) == program.flags.end();
  });
}

Result<std::optional<JobInput::File>> file_of(const JobInput::File& file, const Program& program,
                                              const JobOptions& options) {
  const shell::Launch& launch = *file.launch;
  // Others' programs are called so, too.
  const bool surely = !program.begin.empty() && !has_other_flags(launch, program);
  const std::optional<shell::Word> named = flag_value(launch, program.flags);
  if (!named && (program.beside.empty() || !surely)) return std::optional<JobInput::File>{};
  if (named && !named->known()) {
    if (!surely) return std::optional<JobInput::File>{};
    return fail(at_launch(launch, "its configuration is not known: " + shell::what_is_missing(*named)));
  }
  const std::string wanted =
      named ? named->text : (fs::path(launch.program).parent_path() / program.beside).lexically_normal().string();
  const std::optional<std::string> path = find(wanted, launch.place.file.empty() ? file.path : launch.place.file, options);
  if (!path) {
    if (!surely) return std::optional<JobInput::File>{};
    return fail(at_launch(launch, fmt::format("expected the configuration {} that {} {}, found none from here, from the script's "
                                              "folder or below --include-path",
                                              wanted, launch.program, named ? "is given" : "takes without --config")));
  }
  HEADROOM_ASSIGN(std::string text, read_text(*path, kConfigurationLimits.bytes));
  HEADROOM_ASSIGN(Document document, parse_document(text, *path, kConfigurationLimits));
  JobInput alone;
  alone.files.push_back({.path = *path, .document = std::move(document), .text = std::move(text), .launch = {}});
  if (!find_framework(program.framework)->detect(alone)) return std::optional<JobInput::File>{};
  return std::optional(std::move(alone.files.front()));
}

/// The words that are left when flags and what comes before the first change are taken away.
std::vector<const shell::Word*> changing_words(const shell::Launch& launch) {
  std::vector<std::size_t> used;
  for (const Program& program : kPrograms)
    if (is_called(launch, program)) {
      static_cast<void>(flag_value(launch, program.flags, &used));
      break;
    }
  std::vector<const shell::Word*> out;
  for (std::size_t i = 0; i < launch.words.size(); ++i) {
    const std::string& text = launch.words[i].text;
    if (text.empty() || text.starts_with('-') || std::find(used.begin(), used.end(), i) != used.end()) continue;
    const bool plain = launch.words[i].known() && text.find('=') == std::string::npos && !text.starts_with('~');
    if (plain && out.empty()) continue;  // the algorithm's name
    out.push_back(&launch.words[i]);
  }
  return out;
}

Result<ChangeOfKey> change_of(const shell::Word& word) {
  const shell::Place& place = word.place;
  if (word.known()) {
    HEADROOM_ASSIGN(Override change, parse_override(word.text, place.file, place.line));
    return ChangeOfKey{.change = std::move(change), .open = {}};
  }
  const std::size_t equals = word.text.find('=');
  if (equals == std::string::npos || word.unknown.front().at < equals)  // it may be any override
    return fail(Error{.message = "expected KEY=VALUE, found " + shell::what_is_missing(word),
                      .file = place.file,
                      .line = place.line,
                      .key = {}});
  HEADROOM_ASSIGN(Override change, parse_override(word.text.substr(0, equals + 1), place.file, place.line));
  change.value = Document::scalar("", place.line, true);
  return ChangeOfKey{.change = std::move(change), .open = shell::what_is_missing(word)};
}

}  // namespace

Result<std::optional<JobInput::File>> named_configuration(const JobInput::File& file, const JobOptions& options) {
  if (file.launch != nullptr)
    for (const Program& program : kPrograms) {
      if (!is_called(*file.launch, program)) continue;
      HEADROOM_ASSIGN(std::optional<JobInput::File> found, file_of(file, program, options));
      if (found) return found;
    }
  return std::optional<JobInput::File>{};
}

Result<std::vector<ChangeOfKey>> changes_of_keys(const JobInput::File& file) {
  std::vector<ChangeOfKey> out;
  if (file.launch == nullptr) {
    HEADROOM_ASSIGN(std::vector<Override> list, parse_override_list(file.text, file.path));
    for (Override& change : list) out.push_back({.change = std::move(change), .open = {}});
    return out;
  }
  for (const shell::Word* word : changing_words(*file.launch)) {
    HEADROOM_ASSIGN(ChangeOfKey change, change_of(*word));
    out.push_back(std::move(change));
  }
  return out;
}

Status lay_changes(const JobInput::File& file, Layers& layers) {
  HEADROOM_ASSIGN(const std::vector<ChangeOfKey> changes, changes_of_keys(file));
  for (const ChangeOfKey& one : changes) {
    HEADROOM_TRY(layers.apply(one.change));
    if (!one.open.empty()) layers.leave_open(one.change.key, one.open);
  }
  return {};
}

std::map<std::string, std::string> environment_of(const JobInput& input, const JobOptions& options) {
  std::map<std::string, std::string> out;
  for (const JobInput::File& file : input.files)
    if (file.launch != nullptr)
      for (const auto& [name, value] : file.launch->environment)
        if (value.known()) out[name] = value.text;
  for (const auto& [name, value] : options.environment) out[name] = value;
  return out;
}

}  // namespace headroom
