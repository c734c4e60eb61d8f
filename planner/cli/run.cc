#include "planner/cli/run.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <new>
#include <sstream>
#include <string_view>
#include <utility>

#include "models/base/input_files.h"

#include "planner/cli/ascii.h"
#include "planner/cli/help.h"
#include "planner/cli/interrupt.h"
#include "planner/cli/output.h"
#include "planner/cli/parse.h"
#include "planner/cli/wrap.h"

namespace headroom::cli {
namespace {

int dispatch(std::span<const Command> table, const std::vector<std::string>& words, Streams& streams,
             std::string_view build) {
  HEADROOM_CLI_ASSIGN(const Invocation invocation, parse(table, words), streams);
  if (invocation.version) {
    streams.out << "headroom " << kVersion << (build.empty() ? "" : " (") << build << (build.empty() ? "" : ")")
                << "\n";
    return kDone;
  }
  if (invocation.help) {
    (words.empty() ? streams.err : streams.out)
        << (invocation.command == nullptr ? help(table) : help(*invocation.command));
    return words.empty() ? kBadInput : kDone;
  }
  return invocation.command->run(invocation.arguments, streams);
}

/// Whether the locale is stated and has no UTF-8. A bare environment (containers, CI) is taken to have it.
bool ascii_only() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* value = std::getenv(name);
    if (value == nullptr || *value == '\0') continue;
    const std::string_view locale = value;
    return locale == "C" || locale == "POSIX" ||
           (locale.find("UTF-8") == std::string_view::npos && locale.find("utf8") == std::string_view::npos);
  }
  return false;
}

/// Memory that has run out is told at once and without taking any: unwinding would need some itself, and threads
/// have no one above them to tell.
[[noreturn]] void out_of_memory() {
  static constexpr std::string_view kTold =
      "headroom: memory ran out: nothing was decided; give the process more, or a smaller input\n";
  [[maybe_unused]] const ssize_t ignored = write(STDERR_FILENO, kTold.data(), kTold.size());
  _exit(kIncomplete);
}

/// Whether standard output is a pipe that nobody reads any more.
bool reader_is_gone() {
  pollfd out{.fd = STDOUT_FILENO, .events = POLLOUT, .revents = 0};
  return poll(&out, 1, 0) == 1 && (out.revents & POLLERR) != 0;
}

int terminal_width() {
  winsize size{};
  if (isatty(STDOUT_FILENO) == 0 || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0) return 0;
  return size.ws_col;
}

/// On a terminal of this width and more, what would be longer than its line is broken between words.
constexpr int kNarrowest = 40;

/// The command's text, as this terminal and this locale can show it.
int run_shown(const std::vector<std::string>& words, const Streams& terminal, std::string_view build) {
  std::ostringstream out;
  Streams streams{terminal.in, out, terminal.err, terminal.colour, terminal.plain, terminal.width};
  const int code = run(commands(), words, streams, build);
  std::string text = std::move(out).str();
  if (!streams.verbatim && terminal.plain) text = in_ascii(text);
  if (!streams.verbatim && terminal.width >= kNarrowest)
    text = wrapped(text, static_cast<std::size_t>(terminal.width));
  terminal.out << text << std::flush;
  if (terminal.out || reader_is_gone()) return terminal.out ? code : kIncomplete;
  terminal.err << "headroom: standard output: could not be written\n";
  return kIncomplete;
}

}  // namespace

int run(std::span<const Command> table, const std::vector<std::string>& words, Streams& streams,
        std::string_view build) {
  int code = kIncomplete;
  forget_inputs();
  try {
    code = dispatch(table, words, streams, build);
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
    if (&streams.out == &std::cout && reader_is_gone()) return kIncomplete;  // `| head` has all it wants
    streams.err << "headroom: standard output: could not be written\n";
    return kIncomplete;
  }
  return code;
}

int run(int argc, const char* const* argv, std::string_view build) {
  std::ios::sync_with_stdio(false);
  std::signal(SIGPIPE, SIG_IGN);  // a closed pipe is a failed write, reported like any other
  remove_pending_output_on_signals();
  std::set_new_handler(out_of_memory);
  const bool colour = isatty(STDOUT_FILENO) != 0 && std::getenv("NO_COLOR") == nullptr;
  Streams streams{std::cin, std::cout, std::cerr, colour, ascii_only(), terminal_width()};
  const std::vector<std::string> words(argv + 1, argv + argc);
  const bool as_is = streams.width < kNarrowest && !streams.plain;
  const int code = as_is ? run(commands(), words, streams, build) : run_shown(words, streams, build);
  Interrupt::obey();  // a command that was interrupted has told what it has
  return code;
}

}  // namespace headroom::cli
