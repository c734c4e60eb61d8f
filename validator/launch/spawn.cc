#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <ctime>

#include "validator/launch/child.h"
#include "validator/launch/ranks.h"

namespace headroom::launch {
namespace {

using Clock = std::chrono::steady_clock;

// The environment of one copy: this process's, with the HEADROOM_ places replaced.
std::vector<std::string> environment_of(int rank, int ranks, int port) {
  auto all = environment_without(
      {"HEADROOM_RANK", "HEADROOM_RANKS", "HEADROOM_LOCAL_RANK", "HEADROOM_PORT", "MASTER_ADDR"});
  all.push_back(fmt::format("HEADROOM_RANK={}", rank));
  all.push_back(fmt::format("HEADROOM_RANKS={}", ranks));
  all.push_back(fmt::format("HEADROOM_LOCAL_RANK={}", rank));
  all.push_back(fmt::format("HEADROOM_PORT={}", port));
  all.push_back("MASTER_ADDR=127.0.0.1");
  return all;
}

/// Blocks what is waited for, so that no signal comes between a look and the wait.
class BlockedSignals {
 public:
  BlockedSignals() {
    sigemptyset(&waited_);
    for (int signal : {SIGCHLD, SIGTERM, SIGINT}) sigaddset(&waited_, signal);
    ::pthread_sigmask(SIG_BLOCK, &waited_, &before_);
  }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;
  ~BlockedSignals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  /// The next signal, or -1 after a tenth of a second.
  int next() const {
    const timespec longest{.tv_sec = 0, .tv_nsec = 100'000'000};
    return ::sigtimedwait(&waited_, nullptr, &longest);
  }

 private:
  sigset_t waited_{}, before_{};
};

/// Copies that run, and how they are ended: first asked, then killed.
class Copies {
 public:
  explicit Copies(Grace grace) : grace_(grace) {}

  void add(pid_t child) { running_.push_back(child); }
  bool any() const { return !running_.empty(); }
  int worst() const { return worst_; }

  /// Asks all to end now.
  void end(int signal) {
    for (pid_t child : running_) ::kill(child, signal);
    asked_ = true;
    set_deadline(grace_.after_term);
  }

  /// Takes note of those that ended.
  void collect() {
    for (std::size_t i = 0; i < running_.size();) {
      int status = 0;
      if (::waitpid(running_[i], &status, WNOHANG) == 0) {
        ++i;
        continue;
      }
      running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(i));
      if (asked_) continue;
      const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
      worst_ = worse_code(worst_, code);
      if (code == 3) set_deadline(grace_.after_stop);
      failed_ = failed_ || (code != 0 && code != 3 && code != 4);
    }
    if (failed_ && !asked_) end(SIGTERM);
  }

  /// Ends those whose time is over.
  void enforce() {
    if (!deadline_ || Clock::now() < *deadline_) return;
    if (asked_)
      for (pid_t child : running_) ::kill(child, SIGKILL);
    else
      end(SIGTERM);
  }

 private:
  void set_deadline(int seconds) {
    const auto then = Clock::now() + std::chrono::seconds(seconds);
    deadline_ = deadline_ ? std::min(*deadline_, then) : then;
  }

  Grace grace_;
  std::vector<pid_t> running_;
  std::optional<Clock::time_point> deadline_;
  bool asked_ = false, failed_ = false;
  int worst_ = 0;
};

}  // namespace

int worse_code(int a, int b) {
  const auto severity = [](int code) {
    switch (code) {
      case 0:
        return 0;
      case 4:
        return 1;
      case 3:
        return 2;
      case 2:
        return 3;
      default:
        return 4;
    }
  };
  return severity(b) > severity(a) ? b : a;
}

Result<int> spawn_ranks(int ranks, const std::vector<std::string>& arguments, Grace grace) {
  const int port = free_port();
  const BlockedSignals signals;
  Copies copies(grace);
  Status started;
  for (int rank = 0; rank < ranks && started; ++rank) {
    auto child = start({.arguments = arguments, .environment = environment_of(rank, ranks, port)});
    if (child)
      copies.add(*child);
    else
      started = fail(child.error());
  }
  if (!started) copies.end(SIGTERM);
  int interrupted = 0;
  for (copies.collect(); copies.any(); copies.collect()) {
    const int signal = signals.next();
    if (signal == SIGTERM || signal == SIGINT) {
      interrupted = signal;
      copies.end(signal);
    }
    copies.enforce();
  }
  if (!started) return fail(started.error());
  return interrupted != 0 ? 128 + interrupted : copies.worst();
}

}  // namespace headroom::launch
