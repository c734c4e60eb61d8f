#include "planner/cli/completion.h"

#include <fmt/format.h>

#include <algorithm>
#include <ostream>

#include "planner/cli/help.h"
#include "planner/cli/run.h"

namespace headroom::cli {
namespace {

std::string names() {
  std::string out;
  for (const Command& command : commands()) out += (out.empty() ? "" : " ") + command.name;
  return out;
}

std::string flags(const Command& command) {
  std::string out;
  for (const OptionGroup& group : option_groups(command))
    for (const Option& option : group.options)
      if (option.name.starts_with("--")) out += (out.empty() ? "" : " ") + option.name;
  return out;
}

std::string bash() {
  std::string out =
      "# eval \"$(headroom completion bash)\"\n_headroom() {\n  local word=${COMP_WORDS[COMP_CWORD]} flags=\n"
      "  if [ \"$COMP_CWORD\" = 1 ]; then\n    COMPREPLY=($(compgen -W \"" +
      names() + "\" -- \"$word\"))\n    return\n  fi\n  case ${COMP_WORDS[1]} in\n";
  for (const Command& command : commands())
    out += fmt::format("    {}) flags=\"{}\" ;;\n", command.name, flags(command));
  return out +
         "  esac\n  case $word in\n    -*) COMPREPLY=($(compgen -W \"$flags\" -- \"$word\")) ;;\n"
         "    *) COMPREPLY=($(compgen -f -- \"$word\")) ;;\n  esac\n}\ncomplete -o filenames -F _headroom headroom\n";
}

std::string zsh() {
  return "# eval \"$(headroom completion zsh)\"\nautoload -U +X bashcompinit && bashcompinit\n" + bash();
}

std::string fish() {
  std::string out = "# headroom completion fish | source\n";
  for (const Command& command : commands()) {
    out += fmt::format("complete -c headroom -n __fish_use_subcommand -a {} -d '{}'\n", command.name, [&] {
      std::string text = command.summary;
      std::replace(text.begin(), text.end(), '\'', ' ');
      return text;
    }());
    for (const OptionGroup& group : option_groups(command))
      for (const Option& option : group.options)
        if (option.name.starts_with("--"))
          out += fmt::format("complete -c headroom -n '__fish_seen_subcommand_from {}' -l {}{}\n", command.name,
                             option.name.substr(2), option.value.empty() ? "" : " -r");
  }
  return out;
}

/// Text in a manual page: hyphens and backslashes are markup there, and so is a dot that begins a line.
std::string roff(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' || text[i] == '-') out += '\\';
    if ((text[i] == '.' || text[i] == '\'') && (i == 0 || text[i - 1] == '\n')) out += "\\&";
    out += text[i];
  }
  return out;
}

std::string man() {
  std::string out = fmt::format(".TH HEADROOM 1 \"\" \"headroom {}\"\n.SH NAME\nheadroom \\- memory of RLHF runs, "
                                "predicted before they are launched\n.SH COMMANDS\n.nf\n{}.fi\n",
                                kVersion, roff(help(commands())));
  for (const Command& command : commands())
    out += fmt::format(".SH HEADROOM {}\n.nf\n{}.fi\n", roff(command.name), roff(help(command)));
  return out;
}

}  // namespace

Command completion_command() {
  return {"completion",
          "prints a shell's completion (bash, zsh, fish), or the manual page (man)",
          {{"SHELL", "", "bash, zsh, fish or man", true}},
          0,
          completion};
}

int completion(const Arguments& arguments, Streams& streams) {
  const std::string shell = arguments.text("SHELL");
  if (shell == "bash" || shell == "zsh" || shell == "fish" || shell == "man") {
    streams.verbatim = true;
    streams.out << (shell == "bash" ? bash() : shell == "zsh" ? zsh() : shell == "fish" ? fish() : man());
    return kDone;
  }
  return report_error({.message = fmt::format("expected bash, zsh, fish or man, found '{}'", shell),
                       .file = {},
                       .key = "SHELL"},
                      streams);
}

}  // namespace headroom::cli
