#include "planner/frameworks/recognised.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <initializer_list>
#include <string_view>
#include <vector>

#include "models/document/document.h"
#include "planner/frameworks/shell/launch.h"

namespace headroom {
namespace {

/// Keys that stand together in one framework's files only.
struct FileForm {
  std::string_view framework, form;
  std::array<std::string_view, 3> keys;  ///< dotted; empty ones do not count
};

constexpr FileForm kFiles[] = {
    {"accelerate",
     "a launcher's configuration, which trains nothing by itself; give the command that uses it",
     {"compute_environment", "distributed_type", ""}},
    {"DeepSpeed",
     "an engine's configuration, which trains nothing by itself; give the command that uses it",
     {"zero_optimization", "", ""}},
    {"AReaL", "its YAML", {"rollout", "gconfig", "cluster"}},
};

/// Flags that one program's command line has, and how its name ends.
struct CommandForm {
  std::string_view framework, form, program;
  std::array<std::string_view, 3> flags;
};

constexpr CommandForm kCommands[] = {
    {"ColossalChat", "its distributed reinforcement learning", "rl_example.py", {"", "", ""}},
    {"slime", "its command line", "train.py", {"--rollout-num-gpus", "", ""}},
    {"slime", "its command line", "train.py", {"--colocate", "--rollout-batch-size", ""}},
};

/// Packages that a program of a framework's users imports.
struct Package {
  std::string_view name, framework;
};

constexpr Package kPackages[] = {
    {"trl", "TRL"},        {"verl", "verl"},           {"openrlhf", "OpenRLHF"}, {"nemo_rl", "NeMo RL"},
    {"coati", "ColossalChat"}, {"dschat", "DeepSpeed-Chat"}, {"chatlearn", "ChatLearn"}, {"areal", "AReaL"},
};

constexpr std::size_t kLargestProgram = 1 << 20;

/// The package that a line of Python imports: `import NAME`, `from NAME.part import …`.
std::string_view imported(std::string_view line) {
  for (const std::string_view word : {"import ", "from "}) {
    if (!line.starts_with(word)) continue;
    line.remove_prefix(word.size());
    return line.substr(0, line.find_first_of(". ,\t"));
  }
  return {};
}

bool has(const shell::Launch& launch, std::string_view flag) {
  return std::any_of(launch.words.begin(), launch.words.end(), [&](const shell::Word& word) {
    return word.text == flag ||
           (word.text.starts_with(flag) && word.text.size() > flag.size() && word.text[flag.size()] == '=');
  });
}

std::optional<Recognised> recognise_launch(const shell::Launch& launch) {
  for (const CommandForm& form : kCommands) {
    if (!launch.program.ends_with(form.program)) continue;
    if (std::all_of(form.flags.begin(), form.flags.end(),
                    [&](std::string_view flag) { return flag.empty() || has(launch, flag); }))
      return Recognised{.framework = std::string(form.framework),
                        .form = std::string(form.form),
                        .file = launch.place.file,
                        .line = launch.place.line};
  }
  if (!launch.program.ends_with(".py")) return std::nullopt;
  // Scripts are started from where they lie as often as from a folder above.
  const std::filesystem::path beside = std::filesystem::path(launch.place.file).parent_path() / launch.program;
  for (const std::string& path : {launch.program, beside.string()}) {
    const Result<std::string> text = read_text(path, kLargestProgram);
    auto found = text ? recognise_program(*text, launch.place.file) : std::nullopt;
    if (!found) continue;
    found->line = launch.place.line;
    return found;
  }
  return std::nullopt;
}

}  // namespace

std::optional<Recognised> recognise_program(std::string_view text, const std::string& file) {
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view package = imported(text.substr(begin, end - begin));
    for (const Package& known : kPackages)
      if (package == known.name)
        return Recognised{.framework = std::string(known.framework),
                          .form = std::string(kOwnProgram),
                          .file = file,
                          .line = 0};
    begin = end + 1;
  }
  return std::nullopt;
}

std::optional<Recognised> recognise(const JobInput& input) {
  for (const JobInput::File& file : input.files) {
    if (file.launch != nullptr) {
      if (auto found = recognise_launch(*file.launch)) return found;
      continue;
    }
    for (const FileForm& form : kFiles)
      if (std::all_of(form.keys.begin(), form.keys.end(), [&](std::string_view key) {
            return key.empty() || file.document.find_path(key) != nullptr;
          }))
        return Recognised{.framework = std::string(form.framework),
                          .form = std::string(form.form),
                          .file = file.path,
                          .line = file.document.line()};
  }
  return std::nullopt;
}

}  // namespace headroom
