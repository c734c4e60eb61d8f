#include "planner/cli/run.h"

#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <new>

#include "models/base/input_files.h"

#include "planner/cli/help.h"
#include "planner/cli/output.h"
#include "planner/cli/parse.h"

namespace headroom::cli {
namespace {

int dispatch(std::span<const Command> table, const std::vector<std::string>& words, Streams& streams) {
  HEADROOM_CLI_ASSIGN(const Invocation invocation, parse(table, words), streams);
  if (invocation.version) {
    streams.out << "headroom " << kVersion << "\n";
    return kDone;
  }
  if (invocation.help) {
    (words.empty() ? streams.err : streams.out)
        << (invocation.command == nullptr ? help(table) : help(*invocation.command));
    return words.empty() ? kBadInput : kDone;
  }
  return invocation.command->run(invocation.arguments, streams);
}

}  // namespace

int run(std::span<const Command> table, const std::vector<std::string>& words, Streams& streams) {
  int code = kIncomplete;
  forget_inputs();
  try {
    code = dispatch(table, words, streams);
  } catch (const std::bad_alloc&) {
    streams.err << "headroom: memory ran out: nothing was decided; give the process more, or a smaller input\n";
    return kIncomplete;
  } catch (const std::exception& error) {
    // Nothing of Headroom throws; what arrives here is the library's (memory exhausted, say).
    streams.err << "headroom: internal error: " << error.what() << "\n";
    return kIncomplete;
  }
  streams.out.flush();
  if (!streams.out) {
    streams.err << "headroom: standard output: could not be written\n";
    return kIncomplete;
  }
  return code;
}

int run(int argc, const char* const* argv) {
  std::ios::sync_with_stdio(false);
  std::signal(SIGPIPE, SIG_IGN);  // a closed pipe is a failed write, reported like any other
  remove_pending_output_on_signals();
  const bool colour = isatty(STDOUT_FILENO) != 0 && std::getenv("NO_COLOR") == nullptr;
  Streams streams{std::cin, std::cout, std::cerr, colour};
  return run(commands(), {argv + 1, argv + argc}, streams);
}

}  // namespace headroom::cli
