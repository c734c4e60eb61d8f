#include "planner/frameworks/recognised.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <string_view>
#include <vector>

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
  return std::nullopt;
}

}  // namespace

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
