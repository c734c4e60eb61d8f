#include "validator/launch/ranks.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <cstdlib>
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
    Launcher{"srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID"},
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

Result<int> port_of(const Environment& environment) {
  const auto checked = [&](const char* variable, int fallback, int most) -> Result<int> {
    HEADROOM_ASSIGN(const int port, number(environment, variable, fallback));
    if (port >= 1 && port <= most) return port;
    return fail(
        fmt::format("environment variable {}: expected a port from 1 to {}, found {}", variable, most, port));
  };
  if (environment("HEADROOM_PORT")) return checked("HEADROOM_PORT", 0, 65535);
  HEADROOM_ASSIGN(const int master_port, checked("MASTER_PORT", kDefaultPort - 1, 65534));
  return master_port + 1;
}

}  // namespace

std::optional<std::string> process_environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? std::optional<std::string>(value) : std::nullopt;
}

Result<std::optional<Place>> find_place(const Environment& environment, std::optional<int> wanted) {
  for (const Launcher& launcher : kLaunchers) {
    if (!environment(launcher.rank) || !environment(launcher.ranks)) continue;
    Place place;
    place.foreign = &launcher != &kLaunchers.front();
    HEADROOM_ASSIGN(place.rank, number(environment, launcher.rank));
    HEADROOM_ASSIGN(place.ranks, number(environment, launcher.ranks));
    HEADROOM_ASSIGN(place.local, number(environment, launcher.local, place.rank));
    if (place.rank >= place.ranks) {
      return fail(fmt::format("environment variable {}: expected less than {}={}, found {}", launcher.rank,
                              launcher.ranks, place.ranks, place.rank));
    }
    if (wanted && *wanted != place.ranks) {
      if (place.ranks == 1 && std::string_view(launcher.name) == "srun") continue;
      return fail(
          Error{.message = fmt::format("expected {}={} as {} started it, found {}: leave one of them out",
                                       launcher.ranks, place.ranks, launcher.name, *wanted),
                .file = {},
                .key = "--nproc"});
    }
    HEADROOM_ASSIGN(place.port, port_of(environment));
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

Status enough_cards(int ranks, int cards) {
  if (ranks <= cards) return {};
  return fail(Error{.message = fmt::format(
                        "expected no more ranks than the {} GPUs of this machine, found {}", cards, ranks),
                    .file = {},
                    .key = "--nproc"});
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

Result<std::vector<std::string>> own_arguments() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> words;
  for (std::string word; std::getline(file, word, '\0');) words.push_back(word);
  if (words.empty()) return fail("/proc/self/cmdline: expected this program's command line, found nothing");
  return words;
}

}  // namespace headroom::launch
