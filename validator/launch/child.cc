#include "validator/launch/child.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>

namespace headroom::launch {
namespace {

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> out;
  out.reserve(texts.size() + 1);
  for (std::string& text : texts) out.push_back(text.data());
  out.push_back(nullptr);
  return out;
}

// Between fork and exec only system calls are allowed. A parent that ended before prctl sends no signal any
// more; then somebody else is the parent already.
[[noreturn]] void become(char* const* arguments, char* const* environment, int input, int output,
                         pid_t parent, int report) {
  sigset_t none;
  sigemptyset(&none);
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && ::getppid() == parent &&
      ::sigprocmask(SIG_SETMASK, &none, nullptr) == 0 && (input < 0 || ::dup2(input, STDIN_FILENO) >= 0) &&
      (output < 0 || ::dup2(output, STDOUT_FILENO) >= 0)) {
    ::execve("/proc/self/exe", arguments, environment);
  }
  const int code = errno;
  static_cast<void>(!::write(report, &code, sizeof(code)));
  ::_exit(1);
}

}  // namespace

std::vector<std::string> environment_without(const std::vector<std::string>& without) {
  std::vector<std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry), name = text.substr(0, text.find('='));
    if (std::find(without.begin(), without.end(), name) == without.end()) all.emplace_back(text);
  }
  return all;
}

Result<pid_t> start(Child child) {
  const auto failed = [](int code) {
    return fail(fmt::format("a copy of this program could not be started: {}", std::strerror(code)));
  };
  const std::vector<char*> arguments = pointers(child.arguments), environment = pointers(child.environment);
  int report[2];  // closed by exec; otherwise it carries the error
  if (::pipe2(report, O_CLOEXEC) != 0) return failed(errno);
  const pid_t parent = ::getpid();
  const pid_t started = ::fork();
  if (started == 0)
    become(arguments.data(), environment.data(), child.input, child.output, parent, report[1]);
  const int fork_code = errno;
  ::close(report[1]);
  int code = 0;
  const bool lost = started > 0 && ::read(report[0], &code, sizeof(code)) == sizeof(code);
  ::close(report[0]);
  if (started < 0) return failed(fork_code);
  if (lost) return failed(code);
  return started;
}

}  // namespace headroom::launch
