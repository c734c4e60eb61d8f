#include "planner/cli/help.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace headroom::cli {
namespace {

std::string label(const Option& option) {
  std::string text = option.name;
  if (option.name.starts_with("-") && !option.value.empty()) text += " " + option.value;
  return text;
}

/// Commands by what one wants of them; those of none come last.
constexpr std::string_view kFit[] = {"estimate", "simulate", "explain", "plan", "solve", "check", "study"};
constexpr std::string_view kReal[] = {"compare", "replay", "validate", "calibrate"};
constexpr std::string_view kKnown[] = {"models", "gpus", "schema", "completion"};
const std::array<std::pair<std::string_view, std::span<const std::string_view>>, 3> kGroups = {
    {{"Will it fit, and how", kFit}, {"Hold against real runs", kReal}, {"What is known", kKnown}}};

/// What a command is called like, for its help; by name.
constexpr std::array<std::pair<std::string_view, std::string_view>, 9> kExamples = {{
    {"estimate", "headroom estimate run.yaml --gpu H100 --html run.html"},
    {"simulate", "headroom simulate run.yaml --holders 20 --trace run.trace.json"},
    {"plan", "headroom plan run.yaml --budget 76GiB --vary micro_batch --yaml best.yaml"},
    {"solve", "headroom solve gpu_memory_utilization run.yaml"},
    {"explain", "headroom explain run.yaml --set trainer.n_gpus_per_node=4"},
    {"check", "headroom check configs \"more/**/*.yaml\" --budget 90% --baseline peaks.json --max-growth 2%"},
    {"study", "headroom study configs/studies/rlhf-fragmentation.yaml --resume cells.jsonl --html study.html"},
    {"compare", "headroom compare run.yaml recorded.json"},
    {"replay", "headroom replay snapshot.pickle.gz --limit 76GiB --setting expandable_segments:True"},
}};

}  // namespace

std::string help(std::span<const Command> table) {
  std::string out =
      "headroom: does the RLHF run fit, which phase peaks, and which configuration fits best?\n\n"
      "Usage: headroom COMMAND … ; headroom help COMMAND\n";
  std::size_t width = 0;
  for (const Command& command : table) width = std::max(width, command.name.size());
  std::vector<std::string_view> told;
  const auto group = [&](std::string_view title, std::span<const std::string_view> names) {
    std::string rows;
    for (const Command& command : table) {
      if (names.empty() ? std::find(told.begin(), told.end(), command.name) != told.end()
                        : std::find(names.begin(), names.end(), command.name) == names.end())
        continue;
      rows += fmt::format("  {:<{}}  {}\n", command.name, width, command.summary);
      told.push_back(command.name);
    }
    if (!rows.empty()) out += fmt::format("\n{}:\n{}", title, rows);
  };
  for (const auto& [title, names] : kGroups) group(title, names);
  group("Others", {});
  out +=
      "\nExamples:\n"
      "  headroom estimate run.yaml --gpu H100                    will it fit?\n"
      "  headroom plan run.yaml --budget 76GiB --yaml best.yaml   make it fit, fast\n"
      "  headroom solve micro_batch run.yaml                      how far can one knob go?\n"
      "  headroom check configs --github --junit headroom.xml     gate a repository\n"
      "  headroom replay snapshot.pickle --limit 76GiB            read a recorded run\n";
  out +=
      "\nSizes carry a unit (GiB = 2^30, GB = 10^9). '-' as a file is a standard stream. NO_COLOR switches "
      "colour off.\n"
      "Exit codes: 0 done, fits; 1 could not complete; 2 bad input or usage; 3 does not fit; 4 a measurement "
      "disagrees; 5 undetermined: nothing shows that it fits.\n";
  return out;
}

std::string help(const Command& command) {
  std::string usage = "Usage: headroom " + command.name;
  for (const Option& option : command.options)
    if (!option.name.starts_with("-")) {
      const std::string shown = option.name + (option.repeated ? "…" : "");
      usage += option.required ? " " + shown : " [" + shown + "]";
    }
  const bool takes_launch = usage.find("CONFIG") != std::string::npos;
  std::string out =
      command.summary + "\n\n" + usage + " [options]" + (takes_launch ? " [-- WORDS…]" : "") + "\n";
  if (takes_launch)
    out +=
        "CONFIG may be a launch script; WORDS are its own, or, without CONFIG, the command that launches the "
        "run:\n"
        "  headroom " +
        command.name + " … -- python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo …\n";
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
  for (const auto& [name, example] : kExamples)
    if (name == command.name) out += fmt::format("\nExample:\n  {}\n", example);
  return out;
}

}  // namespace headroom::cli
