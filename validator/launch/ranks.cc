#include "validator/launch/ranks.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <fstream>

namespace headroom::launch {
namespace {

/// The variables of one launcher.
struct Launcher {
  const char *name, *rank, *ranks, *local;
};
constexpr std::array kLaunchers = {
    Launcher{"headroom", "HEADROOM_RANK", "HEADROOM_RANKS", "HEADROOM_LOCAL_RANK"},
    Launcher{"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK"},
    Launcher{"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"},
    Launcher{"srun", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"},
};
constexpr int kDefaultPort = 29501;

Result<int> number(const Environment& environment, const char* variable, std::optional<int> fallback = {}) {
  const auto text = environment(variable);
  if (!text && fallback) return *fallback;
  int value = -1;
  if (text) {
    const auto [end, code] = std::from_chars(text->data(), text->data() + text->size(), value);
    if (code != std::errc{} || end != text->data() + text->size()) value = -1;
  }
  if (value < 0) {
    return fail(fmt::format("environment variable {}: expected a number from 0, found {}", variable,
                            text ? "'" + *text + "'" : "nothing"));
  }
  return value;
}

int free_port() {
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  int port = kDefaultPort;
  if (::bind(socket, reinterpret_cast<sockaddr*>(&address), size) == 0 &&
      ::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) == 0) {
    port = ntohs(address.sin_port);
  }
  ::close(socket);
  return port;
}

// The environment of one copy: this process's, with the HEADROOM_ places replaced.
std::vector<std::string> environment_of(int rank, int ranks, int port) {
  std::vector<std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    if (!text.starts_with("HEADROOM_RANK") && !text.starts_with("HEADROOM_LOCAL_RANK=") &&
        !text.starts_with("HEADROOM_PORT=") && !text.starts_with("MASTER_ADDR=")) {
      all.emplace_back(text);
    }
  }
  all.push_back(fmt::format("HEADROOM_RANK={}", rank));
  all.push_back(fmt::format("HEADROOM_RANKS={}", ranks));
  all.push_back(fmt::format("HEADROOM_LOCAL_RANK={}", rank));
  all.push_back(fmt::format("HEADROOM_PORT={}", port));
  all.push_back("MASTER_ADDR=127.0.0.1");
  return all;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (std::string& text : texts) out.push_back(text.data());
  out.push_back(nullptr);
  return out;
}

int exit_code(int status) {
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

}  // namespace

std::optional<std::string> process_environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? std::optional<std::string>(value) : std::nullopt;
}

Result<std::optional<Place>> find_place(const Environment& environment) {
  for (const Launcher& launcher : kLaunchers) {
    if (!environment(launcher.rank) || !environment(launcher.ranks)) continue;
    Place place;
    HEADROOM_ASSIGN(place.rank, number(environment, launcher.rank));
    HEADROOM_ASSIGN(place.ranks, number(environment, launcher.ranks));
    HEADROOM_ASSIGN(place.local, number(environment, launcher.local, place.rank));
    HEADROOM_ASSIGN(const int master_port, number(environment, "MASTER_PORT", kDefaultPort - 1));
    HEADROOM_ASSIGN(place.port, number(environment, "HEADROOM_PORT", master_port + 1));
    if (place.rank >= place.ranks) {
      return fail(fmt::format("environment variable {}: expected less than {}={}, found {}", launcher.rank,
                              launcher.ranks, place.ranks, place.rank));
    }
    if (auto address = environment("MASTER_ADDR")) {
      place.address = *address;
    } else if (place.ranks > 1 && environment("SLURM_NNODES").value_or("1") != "1") {
      return fail(
          "environment variable MASTER_ADDR: expected the address of rank 0's machine, found nothing");
    }
    return place;
  }
  return std::nullopt;
}

Result<std::vector<std::string>> own_arguments() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> words;
  for (std::string word; std::getline(file, word, '\0');) words.push_back(word);
  if (words.empty()) return fail("/proc/self/cmdline: expected this program's command line, found nothing");
  return words;
}

Result<int> spawn_ranks(int ranks, const std::vector<std::string>& arguments) {
  const int port = free_port();
  std::vector<pid_t> children;
  Status started;
  for (int rank = 0; rank < ranks && started; ++rank) {
    auto texts = environment_of(rank, ranks, port);
    auto words = arguments;
    pid_t child = 0;
    const int code = ::posix_spawn(&child, "/proc/self/exe", nullptr, nullptr, pointers(words).data(),
                                   pointers(texts).data());
    if (code == 0) {
      children.push_back(child);
    } else {
      started = fail(fmt::format("rank {} could not be started: {}", rank, std::strerror(code)));
    }
  }
  int worst = 0;
  bool ended = !started;
  for (std::size_t left = children.size(); left > 0; --left) {
    if (ended) {
      for (pid_t child : children) ::kill(child, SIGTERM);
    }
    int status = 0;
    const pid_t child = ::waitpid(-1, &status, 0);
    if (child <= 0) break;
    std::erase(children, child);
    // A rank that hit an error (not a verdict) leaves the others waiting in a collective.
    const int code = exit_code(status);
    if (!ended) worst = std::max(worst, code);
    ended = ended || code == 1 || code == 2;
  }
  if (!started) return fail(started.error());
  return worst;
}

}  // namespace headroom::launch
