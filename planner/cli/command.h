#pragma once

#include <span>
#include <string>
#include <vector>

#include "models/base/error.h"
#include "planner/cli/arguments.h"
#include "planner/cli/streams.h"

namespace headroom::cli {

/// What is stable here is the command line: commands, flags, exit codes and the JSON schemas. Nothing else.
///
/// A command is one file `planner/cli/NAME.{h,cc}` with
///   * `Command NAME_command()` — its row of the table in commands.cc: name, summary, options;
///   * `int NAME(const Arguments&, Streams&)` — what it does; tests call it in-process.

/// One option or positional argument of a command.
struct Option {
  std::string name;   ///< `--yaml`; without dashes it is positional: `CONFIG`
  std::string value;  ///< what it takes, for the help: `FILE`, `GIB`; empty: a flag without a value
  std::string help;   ///< with unit and default
  bool required = false;
  bool repeated = false;
  bool output = false;  ///< names a file that the command writes
};

/// A flag that names a file to write; `-` is standard output.
Option output_file(std::string name, std::string help);

/// Groups of shared flags, so that one flag means one thing everywhere.
enum CommonFlags : unsigned {
  kJobFlags = 1,       ///< --framework --model --set --include-path --steps --lengths
  kHardwareFlags = 2,  ///< --gpu --nodes --gpus-per-node
  kBudgetFlags = 4,    ///< --budget --host-budget --margin
  kJsonFlag = 8,       ///< --json
  kReportFlags = 16,   ///< --html --csv --markdown
};

struct Command {
  std::string name;
  std::string summary;  ///< one line for the list of commands
  std::vector<Option> options;
  unsigned common = 0;  ///< bits of CommonFlags; --quiet and --help are everywhere
  int (*run)(const Arguments&, Streams&) = nullptr;
};

/// Every command, in the order of the help.
std::span<const Command> commands();

/// A titled group of options in the help.
struct OptionGroup {
  std::string title;
  std::vector<Option> options;
};
/// The options of `command`: its own first, then the shared ones it declares.
std::vector<OptionGroup> option_groups(const Command& command);

/// Prints `headroom: …` and returns the exit code of that kind of error.
int report_error(const Error& error, Streams& streams);

}  // namespace headroom::cli

/// In a command: `HEADROOM_CLI_ASSIGN(auto x, f(), streams);` — x is f()'s value, or its error is printed and
/// the command returns the error's exit code.
#define HEADROOM_CLI_ASSIGN(declaration, expression, streams) \
  HEADROOM_CLI_ASSIGN_INNER(HEADROOM_CONCAT(headroom_cli_result_, __LINE__), declaration, expression, streams)
#define HEADROOM_CLI_ASSIGN_INNER(name, declaration, expression, streams)   \
  auto name = (expression);                                                 \
  if (!name) return ::headroom::cli::report_error(name.error(), (streams)); \
  declaration = std::move(*name)

/// The same for a Status.
#define HEADROOM_CLI_TRY(expression, streams)                                   \
  do {                                                                          \
    if (auto headroom_status = (expression); !headroom_status)                  \
      return ::headroom::cli::report_error(headroom_status.error(), (streams)); \
  } while (false)
