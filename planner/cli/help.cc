#include "planner/cli/help.h"

#include <fmt/format.h>

#include <algorithm>

namespace headroom::cli {
namespace {

std::string label(const Option& option) {
  std::string text = option.name;
  if (option.name.starts_with("-") && !option.value.empty()) text += " " + option.value;
  return text;
}

}  // namespace

std::string help(std::span<const Command> table) {
  std::string out =
      "headroom: does the RLHF run fit, which phase peaks, and which configuration fits best?\n\n"
      "Usage: headroom COMMAND … ; headroom COMMAND --help\n\nCommands:\n";
  std::size_t width = 0;
  for (const Command& command : table) width = std::max(width, command.name.size());
  for (const Command& command : table)
    out += fmt::format("  {:<{}}  {}\n", command.name, width, command.summary);
  out +=
      "\nSizes carry a unit (GiB = 2^30, GB = 10^9). '-' as a file is a standard stream. NO_COLOR switches "
      "colour off.\n"
      "Exit codes: 0 done, fits; 1 could not complete; 2 bad input or usage; 3 does not fit; 4 a measurement "
      "disagrees.\n";
  return out;
}

std::string help(const Command& command) {
  std::string usage = "Usage: headroom " + command.name;
  for (const Option& option : command.options)
    if (!option.name.starts_with("-")) {
      const std::string shown = option.name + (option.repeated ? "…" : "");
      usage += option.required ? " " + shown : " [" + shown + "]";
    }
  std::string out = command.summary + "\n\n" + usage + " [options]\n";
  const std::vector<OptionGroup> groups = option_groups(command);
  std::size_t width = 0;
  for (const OptionGroup& group : groups)
    for (const Option& option : group.options) width = std::max(width, label(option).size());
  for (const OptionGroup& group : groups) {
    out += "\n" + group.title + ":\n";
    for (const Option& option : group.options)
      out += fmt::format("  {:<{}}  {}{}\n", label(option), width, option.help,
                         option.repeated && option.name.starts_with("-") ? "; may be repeated" : "");
  }
  return out;
}

}  // namespace headroom::cli
