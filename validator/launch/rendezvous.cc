#include "validator/launch/rendezvous.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <thread>

namespace headroom::launch {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::uint32_t kLongest = 64u << 20;

tl::unexpected<Error> failed(const std::string& what) {
  return fail(Error{.message = what, .file = {}, .key = {}, .kind = Error::Kind::incomplete});
}

Status write_all(int socket, const void* data, std::size_t size) {
  const char* at = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t done = ::send(socket, at, size, MSG_NOSIGNAL);
    if (done <= 0) return failed(fmt::format("a rank is gone: {}", std::strerror(errno)));
    at += done;
    size -= static_cast<std::size_t>(done);
  }
  return {};
}

Status read_all(int socket, void* data, std::size_t size) {
  char* at = static_cast<char*>(data);
  while (size > 0) {
    const ssize_t done = ::recv(socket, at, size, 0);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return failed(fmt::format("a rank is gone: {}", std::strerror(errno)));
    if (done == 0) return failed("a rank is gone: its connection closed");
    at += done;
    size -= static_cast<std::size_t>(done);
  }
  return {};
}

Status send_text(int socket, const std::string& text) {
  const std::uint32_t size = htonl(static_cast<std::uint32_t>(text.size()));
  HEADROOM_TRY(write_all(socket, &size, sizeof(size)));
  return write_all(socket, text.data(), text.size());
}

Result<std::string> receive_text(int socket) {
  std::uint32_t size = 0;
  HEADROOM_TRY(read_all(socket, &size, sizeof(size)));
  size = ntohl(size);
  if (size > kLongest) return failed("a rank sent what is no message of Headroom's");
  std::string text(size, '\0');
  HEADROOM_TRY(read_all(socket, text.data(), size));
  return text;
}

Result<int> listen_on(int port) {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int yes = 1;
  ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_ANY);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  if (::bind(socket, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0 ||
      ::listen(socket, 1024) != 0) {
    const std::string why = std::strerror(errno);
    ::close(socket);
    return fail(
        fmt::format("port {}: rank 0 could not listen: {} (set HEADROOM_PORT to a free one)", port, why));
  }
  return socket;
}

/// Waits at most until `deadline` for something to read; forever without one.
bool readable(std::vector<pollfd>& files, std::optional<Clock::time_point> deadline) {
  for (;;) {
    int left = -1;
    if (deadline) {
      const auto ms = std::chrono::ceil<std::chrono::milliseconds>(*deadline - Clock::now()).count();
      left = static_cast<int>(std::clamp<std::int64_t>(ms, 0, 1 << 30));
    }
    const int ready = ::poll(files.data(), files.size(), left);
    if (ready >= 0) return ready > 0;
    if (errno != EINTR) return false;
  }
}

bool readable(int socket, Clock::time_point deadline) {
  std::vector<pollfd> one{{.fd = socket, .events = POLLIN, .revents = 0}};
  return readable(one, deadline);
}

/// A peer may work for hours before it says something; that its machine is there is asked by the kernel.
void keep_alive(int socket) {
  const int yes = 1, idle = 60, between = 15, probes = 4;
  ::setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof(yes));
  ::setsockopt(socket, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
  ::setsockopt(socket, IPPROTO_TCP, TCP_KEEPINTVL, &between, sizeof(between));
  ::setsockopt(socket, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes));
}

/// The rank that a new connection says it is; 0 when it is none of Headroom's.
int introduction(int socket) {
  // A stranger that says nothing must not hold the others up.
  timeval longest{.tv_sec = 5, .tv_usec = 0};
  ::setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &longest, sizeof(longest));
  const auto said = receive_text(socket);
  longest.tv_sec = 0;  // no limit
  ::setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &longest, sizeof(longest));
  return said ? std::atoi(said->c_str()) : 0;
}

Status resolvable(const Place& place) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_family = AF_INET;
  const int code = ::getaddrinfo(place.address.c_str(), nullptr, &hints, &found);
  if (code != 0)
    return fail(
        fmt::format("environment variable MASTER_ADDR: expected the address of rank 0's machine, found "
                    "'{}': {}",
                    place.address, ::gai_strerror(code)));
  ::freeaddrinfo(found);
  return {};
}

int try_connect(const Place& place) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  if (::getaddrinfo(place.address.c_str(), std::to_string(place.port).c_str(), &hints, &found) != 0)
    return -1;
  int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (::connect(socket, found->ai_addr, found->ai_addrlen) != 0) {
    ::close(socket);
    socket = -1;
  }
  ::freeaddrinfo(found);
  return socket;
}

}  // namespace

Result<Rendezvous> Rendezvous::meet(const Place& place, int seconds) {
  Rendezvous meeting(place);
  if (place.ranks == 1) return meeting;
  HEADROOM_TRY(resolvable(place));
  const auto deadline = Clock::now() + std::chrono::seconds(seconds);
  if (place.rank != 0) {
    int socket = -1;
    while ((socket = try_connect(place)) < 0) {
      if (Clock::now() > deadline) {
        return fail(fmt::format("rank {}: rank 0 did not answer at {}:{} within {} s", place.rank,
                                place.address, place.port, seconds));
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    keep_alive(socket);
    meeting.peers_.push_back(socket);
    HEADROOM_TRY(send_text(socket, std::to_string(place.rank)));
    return meeting;
  }
  HEADROOM_ASSIGN(const int listener, listen_on(place.port));
  meeting.peers_.assign(static_cast<std::size_t>(place.ranks), -1);
  for (int joined = 1; joined < place.ranks;) {
    if (!readable(listener, deadline)) {
      ::close(listener);
      return fail(fmt::format("only {} of {} ranks came within {} s", joined, place.ranks, seconds));
    }
    const int socket = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    if (socket < 0) continue;
    const int rank = introduction(socket);
    if (rank <= 0 || rank >= place.ranks || meeting.peers_[static_cast<std::size_t>(rank)] >= 0) {
      ::close(socket);
      continue;
    }
    keep_alive(socket);
    meeting.peers_[static_cast<std::size_t>(rank)] = socket;
    ++joined;
  }
  ::close(listener);
  return meeting;
}

Rendezvous::~Rendezvous() {
  for (int socket : peers_) {
    if (socket >= 0) ::close(socket);
  }
}

Result<std::string> Rendezvous::broadcast(const std::string& text) {
  if (place_.ranks == 1) return text;
  if (place_.rank != 0) return receive_text(peers_[0]);
  for (int socket : peers_) {
    if (socket >= 0) HEADROOM_TRY(send_text(socket, text));
  }
  return text;
}

Result<std::vector<std::optional<std::string>>> Rendezvous::collect(const std::string& text,
                                                                    std::optional<int> seconds) {
  std::vector<std::optional<std::string>> all;
  if (place_.rank != 0) {
    HEADROOM_TRY(send_text(peers_[0], text));
    return all;
  }
  std::optional<Clock::time_point> deadline;
  if (seconds) deadline = Clock::now() + std::chrono::seconds(*seconds);
  all.resize(static_cast<std::size_t>(place_.ranks));
  all[0] = text;
  // Whoever speaks or is gone first is heard first. Negative files are passed over by poll.
  std::vector<pollfd> waited;
  for (int socket : peers_) waited.push_back({.fd = socket, .events = POLLIN, .revents = 0});
  for (int left = place_.ranks - 1; left > 0;) {
    if (!readable(waited, deadline)) break;
    for (std::size_t rank = 1; rank < waited.size(); ++rank) {
      if (waited[rank].fd < 0 || waited[rank].revents == 0) continue;
      auto received = receive_text(waited[rank].fd);
      waited[rank].fd = -1;
      --left;
      if (received)
        all[rank] = std::move(*received);
      else if (!seconds)
        return fail(received.error());
    }
  }
  return all;
}

Result<std::vector<std::string>> Rendezvous::gather(const std::string& text) {
  if (place_.ranks == 1) return std::vector{text};
  HEADROOM_ASSIGN(const auto heard, collect(text, std::nullopt));
  std::vector<std::string> all;
  for (const std::optional<std::string>& one : heard) {
    if (!one) return failed(fmt::format("a rank could not be waited for: {}", std::strerror(errno)));
    all.push_back(*one);
  }
  return all;
}

Result<std::vector<std::optional<std::string>>> Rendezvous::gather_within(const std::string& text,
                                                                          int seconds) {
  if (place_.ranks == 1) return std::vector<std::optional<std::string>>{text};
  return collect(text, seconds);
}

void Rendezvous::tell(const std::string& text) {
  for (int socket : peers_)
    if (socket >= 0) static_cast<void>(send_text(socket, text));
}

bool Rendezvous::heard_within(const std::string& text, int seconds) {
  if (place_.ranks == 1 || place_.rank == 0) return true;
  const auto deadline = Clock::now() + std::chrono::seconds(seconds);
  while (readable(peers_[0], deadline)) {
    const auto said = receive_text(peers_[0]);
    if (!said) return false;
    if (*said == text) return true;
  }
  return false;
}

Status Rendezvous::barrier() {
  HEADROOM_TRY(gather(""));
  HEADROOM_TRY(broadcast(""));
  return {};
}

}  // namespace headroom::launch
