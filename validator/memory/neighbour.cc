#include "validator/memory/neighbour.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "validator/cuda/device.h"
#include "validator/launch/child.h"
#include "validator/launch/ranks.h"
#include "validator/probe.h"

namespace headroom::gpu {
namespace {

constexpr const char* kVariable = "HEADROOM_NEIGHBOUR";

// A message is one number. Requests: bytes to hold. Answers: what is held, or one of these.
constexpr std::int64_t kNoRoom = -1, kFailed = -2;

bool send(int file, std::int64_t number) {
  return ::write(file, &number, sizeof(number)) == sizeof(number);
}

bool receive(int file, std::int64_t& number) {
  return ::read(file, &number, sizeof(number)) == sizeof(number);
}

std::int64_t answer(HeldMemory& memory, Bytes bytes) {
  const Result<bool> held = memory.hold(bytes);
  if (!held) return kFailed;
  return *held ? memory.held() : kNoRoom;
}

tl::unexpected<Error> gone() {
  return fail(Error{.message = "the process that stands for the rollout engine ended",
                    .file = {},
                    .key = {},
                    .kind = Error::Kind::incomplete});
}

}  // namespace

Result<bool> HeldMemory::hold(Bytes bytes) {
  constexpr Bytes kPage = 2 * kMiB, kPiece = 512 * kMiB;
  bytes = round_up(std::max<Bytes>(bytes, 0), kPage);
  while (held_ > bytes) {
    held_ -= pieces_.back().bytes;
    pieces_.pop_back();
  }
  while (held_ < bytes) {
    Piece piece{.block = {}, .bytes = std::min(kPiece, bytes - held_)};
    void* address = nullptr;
    const cudaError_t code = cudaMalloc(&address, static_cast<std::size_t>(piece.bytes));
    if (code == cudaErrorMemoryAllocation) {
      static_cast<void>(cudaGetLastError());  // an answer, not a failure
      return false;
    }
    HEADROOM_TRY(HEADROOM_CUDA(code));
    piece.block = DeviceBlock(address);
    HEADROOM_TRY(HEADROOM_CUDA(cudaMemset(address, 1, static_cast<std::size_t>(piece.bytes))));
    held_ += piece.bytes;
    pieces_.push_back(std::move(piece));
  }
  HEADROOM_TRY(HEADROOM_CUDA(cudaDeviceSynchronize()));
  return true;
}

bool is_neighbour() {
  return std::getenv(kVariable) != nullptr;
}

Result<int> serve_as_neighbour() {
  int ordinal = 0, parent = 0;
  if (std::sscanf(std::getenv(kVariable), "%d of %d", &ordinal, &parent) != 2 || parent != ::getppid())
    return fail(
        fmt::format("environment variable {}: expected only in a process that headroom starts itself, found "
                    "'{}': unset it",
                    kVariable, std::getenv(kVariable)));
  const Result<Card> card = open_card(ordinal);
  if (!card || !send(STDOUT_FILENO, 0)) {
    static_cast<void>(send(STDOUT_FILENO, kFailed));
    return 1;
  }
  HeldMemory memory;
  for (std::int64_t bytes = 0; receive(STDIN_FILENO, bytes);)
    if (!send(STDOUT_FILENO, answer(memory, bytes))) break;
  return 0;
}

Result<Neighbour> Neighbour::start(int ordinal) {
  HEADROOM_ASSIGN(const DeviceUse before, device_use());
  HEADROOM_ASSIGN(std::vector<std::string> words, launch::own_arguments());
  std::array<int, 2> requests{}, answers{};
  if (::pipe2(requests.data(), O_CLOEXEC) != 0 || ::pipe2(answers.data(), O_CLOEXEC) != 0) return gone();
  std::vector<std::string> variables = launch::environment_without({kVariable});
  variables.push_back(fmt::format("{}={} of {}", kVariable, ordinal, ::getpid()));
  const Result<pid_t> child = launch::start({.arguments = std::move(words),
                                             .environment = std::move(variables),
                                             .input = requests[0],
                                             .output = answers[1]});
  ::close(requests[0]);
  ::close(answers[1]);
  ::signal(SIGPIPE, SIG_IGN);  // a neighbour that ended is an answer, not the end of this process
  Neighbour out(child.value_or(0), requests[1], answers[0]);
  std::int64_t ready = kFailed;
  if (!child) return fail(child.error());
  if (!receive(out.answers_, ready) || ready == kFailed) return gone();
  HEADROOM_ASSIGN(const DeviceUse after, device_use());
  out.context_ = after.used - before.used;
  return out;
}

Neighbour::Neighbour(Neighbour&& other) noexcept
    : child_(std::exchange(other.child_, 0)),
      requests_(std::exchange(other.requests_, -1)),
      answers_(std::exchange(other.answers_, -1)),
      context_(other.context_) {}

Neighbour::~Neighbour() {
  if (requests_ >= 0) ::close(requests_);  // it reads the end of its requests, and ends
  if (answers_ >= 0) ::close(answers_);
  if (child_ > 0) ::waitpid(child_, nullptr, 0);
}

Result<std::int64_t> Neighbour::ask(std::int64_t bytes) {
  std::int64_t got = kFailed;
  if (!send(requests_, bytes) || !receive(answers_, got) || got == kFailed) return gone();
  return got;
}

Result<bool> Neighbour::hold(Bytes bytes) {
  HEADROOM_ASSIGN(const std::int64_t got, ask(bytes - context_));
  return got != kNoRoom;
}

}  // namespace headroom::gpu
