#include "planner/frameworks/input.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "planner/configuration/override.h"
#include "planner/frameworks/shell/launch.h"

namespace headroom {
namespace {

constexpr std::size_t kLargestScript = 1 << 20;

shell::Context context_of(const JobOptions& options) {
  shell::Context context;
  context.words = options.words;
  context.environment = options.environment;
  context.gpus = options.gpus_per_node;
  context.variable = [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  };
  context.file = [](const std::string& path) -> std::optional<std::string> {
    std::error_code code;
    if (!std::filesystem::is_regular_file(path, code)) return std::nullopt;
    Result<std::string> text = read_text(path, kLargestScript);
    return text ? std::optional<std::string>(std::move(*text)) : std::nullopt;
  };
  std::error_code code;
  context.directory = std::filesystem::current_path(code).string();
  return context;
}

Result<InputChoices> choices_of(shell::Reading reading, const std::string& path, const std::string& text) {
  InputChoices out;
  out.script = true;
  for (shell::Remark& remark : reading.remarks)
    out.notices.push_back({.file = std::move(remark.file),
                           .line = remark.line,
                           .key = {},
                           .message = std::move(remark.message)});
  std::stable_partition(reading.launches.begin(), reading.launches.end(),
                        [](const shell::Launch& launch) { return launch.certain; });
  for (shell::Launch& launch : reading.launches)
    out.files.push_back({.path = path,
                         .document = Document::scalar(""),
                         .text = text,
                         .launch = std::make_shared<const shell::Launch>(std::move(launch))});
  if (!out.files.empty()) return out;
  if (!out.notices.empty()) {
    const Notice& first = out.notices.front();
    return fail(Error{.message = fmt::format("{}run that can be followed; {}", kStartsNothing, first.message),
                      .file = first.file,
                      .line = first.line,
                      .key = {}});
  }
  return fail(Error{.message = fmt::format("{}Python program (python3 -m …, torchrun, ray job submit … --), so there is no "
                                           "run to predict",
                                           kStartsNothing),
                    .file = path,
                    .key = {}});
}

}  // namespace

Result<InputChoices> read_input(std::string text, const std::string& path, const JobOptions& options) {
  InputChoices out;
  if (shell::looks_like_script(text, path)) {
    HEADROOM_ASSIGN(shell::Reading reading, shell::read_script(text, path, context_of(options)));
    return choices_of(std::move(reading), path, text);
  }
  // A list of `key=value` words is no YAML: its text alone is kept, as one scalar.
  Document document = Document::scalar("");
  if (!looks_like_overrides(text)) {
    HEADROOM_ASSIGN(document, parse_document(text, path, kConfigurationLimits));
  }
  out.files.push_back({.path = path, .document = std::move(document), .text = std::move(text), .launch = {}});
  return out;
}

Result<InputChoices> read_command_line(const JobOptions& options) {
  // One word with blanks is a whole command that was quoted.
  if (options.words.size() == 1 && options.words[0].find(' ') != std::string::npos) {
    shell::Context context = context_of(options);
    context.words.clear();
    HEADROOM_ASSIGN(shell::Reading reading, shell::read_script(options.words[0], "command line", context));
    return choices_of(std::move(reading), "command line", "");
  }
  HEADROOM_ASSIGN(shell::Reading reading, shell::read_command(options.words, context_of(options)));
  return choices_of(std::move(reading), "command line", "");
}

}  // namespace headroom
