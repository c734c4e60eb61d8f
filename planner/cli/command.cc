#include "planner/cli/command.h"

#include <ostream>

namespace headroom::cli {
namespace {

struct CommonGroup {
  unsigned bit;
  OptionGroup group;
};

const std::vector<CommonGroup>& common_groups() {
  static const std::vector<CommonGroup> groups = {
      {kJobFlags,
       {"The run",
        {{"--framework", "NAME", "whose configuration this is (default: detected)"},
         {"--model", "DIR|NAME", "model directory, config.json or preset name (default: what CONFIG names)"},
         {"--set", "KEY=VALUE", "override one of the framework's own dotted keys", false, true},
         {"--env", "NAME=VALUE", "a variable of the launch, for scripts and what reads the environment",
          false, true},
         {"--include-path", "DIR", "where files that CONFIG refers to are looked for", false, true},
         {"--steps", "N",
          "steps to run after init (default: what CONFIG states, else 3; the plain PyTorch loop: 2)"},
         {"--lengths", "mean=N,max=N|FILE|NAME|caps",
          "what is known of the sequences' lengths; decides where the run does not fit with all at their caps "
          "(default: what is known of the data that it trains on; caps: nothing)"},
         {"--other-seconds", "N",
          "of every step what no prediction knows: reward functions, environments, data (default: 0)"}}}},
      {kHardwareFlags,
       {"The machine",
        {{"--gpu", "NAME|FILE", "hardware profile (default: what CONFIG names); see `headroom gpus`"},
         {"--nodes", "N", "machines (default: from CONFIG)"},
         {"--gpus-per-node", "N", "GPUs a machine (default: from CONFIG)"}}}},
      {kBudgetFlags,
       {"Limits",
        {{"--budget", "[POOL=]SIZE|FRACTION",
          "device memory a GPU may use, all processes (default: what the driver reports)", false, true},
         {"--host-budget", "SIZE", "memory a node may use (default: the profile's, else unchecked)"},
         {"--margin", "SIZE|FRACTION", "kept free for prediction error (default: by kind of phase)"}}}},
      {kJsonFlag, {"Output", {output_file("--json", "machine-readable result; bytes are integers")}}},
      {kReportFlags,
       {"Output",
        {output_file("--html", "one self-contained page: timelines, components, tables"),
         output_file("--csv", "one row a device, phase and process"),
         output_file("--markdown", "the table, for a pull request"),
         {"--all", "", "a row for every phase (default: those in which nothing changes share one)"}}}},
  };
  return groups;
}

}  // namespace

Option output_file(std::string name, std::string help) {
  return {.name = std::move(name), .value = "FILE", .help = std::move(help), .output = true};
}

std::vector<OptionGroup> option_groups(const Command& command) {
  std::vector<OptionGroup> groups;
  OptionGroup arguments{"Arguments", {}}, own{"Options", {}};
  for (const Option& option : command.options)
    (option.name.starts_with("-") ? own : arguments).options.push_back(option);
  if (!arguments.options.empty()) groups.push_back(std::move(arguments));
  if (!own.options.empty()) groups.push_back(std::move(own));
  for (const CommonGroup& common : common_groups()) {
    if ((command.common & common.bit) == 0) continue;
    if (!groups.empty() && groups.back().title == common.group.title) {
      auto& into = groups.back().options;
      into.insert(into.end(), common.group.options.begin(), common.group.options.end());
    } else {
      groups.push_back(common.group);
    }
  }
  groups.push_back({"General", {{"--quiet", "", "the verdict alone, in one line"}, {"--help", "", "this text"}}});
  return groups;
}

int report_error(const Error& error, Streams& streams) {
  streams.err << "headroom: " << error.text() << "\n";
  return error.kind == Error::Kind::input ? kBadInput : kIncomplete;
}

}  // namespace headroom::cli
