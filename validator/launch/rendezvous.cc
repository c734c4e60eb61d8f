#include "validator/launch/rendezvous.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
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
    if (done <= 0) return failed("a rank is gone: its connection closed");
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
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
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

int try_connect(const Place& place) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  if (::getaddrinfo(place.address.c_str(), std::to_string(place.port).c_str(), &hints, &found) != 0)
    return -1;
  int socket = ::socket(AF_INET, SOCK_STREAM, 0);
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
    meeting.peers_.push_back(socket);
    HEADROOM_TRY(send_text(socket, std::to_string(place.rank)));
    return meeting;
  }
  HEADROOM_ASSIGN(const int listener, listen_on(place.port));
  meeting.peers_.assign(static_cast<std::size_t>(place.ranks), -1);
  for (int joined = 1; joined < place.ranks;) {
    timeval wait{.tv_sec = 1, .tv_usec = 0};
    ::setsockopt(listener, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
    const int socket = ::accept(listener, nullptr, nullptr);
    if (socket < 0) {
      if (Clock::now() < deadline) continue;
      ::close(listener);
      return fail(fmt::format("only {} of {} ranks came within {} s", joined, place.ranks, seconds));
    }
    auto said = receive_text(socket);
    const int rank = said ? std::atoi(said->c_str()) : 0;
    if (rank <= 0 || rank >= place.ranks || meeting.peers_[static_cast<std::size_t>(rank)] >= 0) {
      ::close(socket);
      continue;
    }
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

Result<std::vector<std::string>> Rendezvous::gather(const std::string& text) {
  if (place_.ranks == 1) return std::vector{text};
  std::vector<std::string> all;
  if (place_.rank != 0) {
    HEADROOM_TRY(send_text(peers_[0], text));
    return all;
  }
  for (int socket : peers_) {
    if (socket < 0) {
      all.push_back(text);
      continue;
    }
    HEADROOM_ASSIGN(std::string received, receive_text(socket));
    all.push_back(std::move(received));
  }
  return all;
}

Status Rendezvous::barrier() {
  HEADROOM_TRY(gather(""));
  HEADROOM_TRY(broadcast(""));
  return {};
}

}  // namespace headroom::launch
