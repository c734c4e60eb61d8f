// Large memory snapshots to measure with.
//
//   headroom_make_snapshot write BYTES FILE    a snapshot of about BYTES, as Python's pickle would lay it out
//   headroom_make_snapshot run COMMAND …       runs a command; prints its seconds and peak resident memory
//
// The histories are real ones of two simulated devices: rollouts whose key-value caches grow token by token,
// forwards whose activations live until their backward, weights that stay. Every allocation has its own list
// of 16 frames, which its free and its block share, as in recordings with context="alloc".

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "simulator/allocator/caching_allocator.h"
#include "simulator/allocator/virtual_device.h"

namespace headroom {
namespace {

constexpr std::int64_t kDevices = 2;
constexpr std::size_t kPaths = 5000;  ///< different call paths
constexpr std::size_t kDepth = 16;    ///< frames of each
constexpr std::uint32_t kUnwritten = 0xFFFFFFFFu;

/// The opcodes of protocol 4 as CPython emits them: every new object is memoized, known ones are fetched.
class PythonPickle {
 public:
  explicit PythonPickle(const std::string& path) : out_(path, std::ios::binary) { buffer_ = "\x80\x04"; }

  std::uint32_t fresh(const std::string& text) {
    op('\x8c', static_cast<std::uint64_t>(text.size()), 1);
    buffer_ += text;
    return memoize();
  }
  std::uint32_t memoize() {
    op('\x94');
    return memo_++;
  }
  void get(std::uint32_t id) { id < 256 ? op('h', id, 1) : op('j', id, 4); }
  /// A string constant of PyTorch's: one object however often it is used.
  void constant(const char* text) {
    for (const auto& [known, id] : constants_)
      if (known == text) return get(id);
    constants_.emplace_back(text, fresh(text));
  }
  void integer(std::int64_t value) {
    if (value >= 0 && value < 256) return op('K', static_cast<std::uint64_t>(value), 1);
    if (value >= 0 && value < 65536) return op('M', static_cast<std::uint64_t>(value), 2);
    if (value == static_cast<std::int32_t>(value)) return op('J', static_cast<std::uint64_t>(value), 4);
    int bytes = 8;
    while (bytes > 1 && value >> (8 * bytes - 9) == value >> 63) --bytes;
    op('\x8a', static_cast<std::uint64_t>(bytes), 1);
    raw(static_cast<std::uint64_t>(value), bytes);
  }
  void boolean(bool value) { op(value ? '\x88' : '\x89'); }
  void pair(std::int64_t a, std::int64_t b) {
    integer(a);
    integer(b);
    op('\x86');
    memoize();
  }
  void field(const char* key, std::int64_t value) {
    constant(key);
    integer(value);
  }
  void open_dict() { op('}'), memoize(), op('('); }
  void close_dict() { op('u'); }
  void open_list() { op(']'), memoize(), op('('); }
  void close_list() { op('e'); }
  void next_batch() { op('e'), op('('); }

  void op(char code) {
    buffer_.push_back(code);
    if (buffer_.size() >= (1u << 20)) flush();
  }
  std::size_t size() const { return flushed_ + buffer_.size(); }
  void flush() {
    out_.write(buffer_.data(), static_cast<std::streamsize>(buffer_.size()));
    flushed_ += buffer_.size();
    buffer_.clear();
  }
  bool good() const { return out_.good(); }

 private:
  void op(char code, std::uint64_t argument, int bytes) {
    op(code);
    raw(argument, bytes);
  }
  void raw(std::uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) buffer_.push_back(static_cast<char>(value >> (8 * i)));
  }

  std::ofstream out_;
  std::string buffer_;
  std::size_t flushed_ = 0;
  std::uint32_t memo_ = 0;
  std::vector<std::pair<std::string, std::uint32_t>> constants_;
};

/// Call paths: the innermost frames are a library's, the next a model's, the outermost the script's.
class Stacks {
 public:
  explicit Stacks(PythonPickle& out) : out_(out), frames_(kLibrary + kModel + kScript, kUnwritten) {}

  /// One traceback: its list is written where it first occurs.
  struct Stack {
    std::uint32_t memo = kUnwritten, path = 0;
  };
  Stack* take(std::mt19937_64& random) {
    return &stacks_.emplace_back(Stack{kUnwritten, static_cast<std::uint32_t>(random() % kPaths)});
  }

  void write(Stack& stack) {
    out_.constant("frames");
    if (stack.memo != kUnwritten) return out_.get(stack.memo);
    out_.op(']');
    stack.memo = out_.memoize();
    out_.op('(');
    for (std::uint32_t depth = 0; depth < kDepth; ++depth) frame(frame_of(stack.path, depth));
    out_.op('e');
  }
  void write_none() {
    out_.constant("frames");
    out_.op(']');
    out_.memoize();
  }

 private:
  static constexpr std::uint32_t kLibrary = 600, kModel = 2400, kScript = 60;

  static std::uint32_t frame_of(std::uint32_t path, std::uint32_t depth) {
    if (depth < 4) return (path * 7 + depth * 131) % kLibrary;
    if (depth < 12) return kLibrary + (path * 31 + depth * 17) % kModel;
    return kLibrary + kModel + (path / 500 + depth) % kScript;
  }
  void frame(std::uint32_t number) {
    if (frames_[number] != kUnwritten) return out_.get(frames_[number]);
    const bool library = number < kLibrary;
    out_.op('}');
    frames_[number] = out_.memoize();
    out_.op('(');
    out_.constant("name");
    out_.fresh("function_" + std::to_string(number));
    out_.constant("filename");
    out_.fresh(
        (library ? "/opt/python/lib/python3.12/site-packages/torch/nn/module_" : "/home/rlhf/train/model_") +
        std::to_string(number % 97) + ".py");
    out_.field("line", number);
    out_.close_dict();
  }

  PythonPickle& out_;
  std::vector<std::uint32_t> frames_;
  std::deque<Stack> stacks_;
};

/// Writes one device's trace entries as its allocator makes them.
class Trace : public allocator::Observer {
 public:
  Trace(PythonPickle& out, Stacks& stacks, std::mt19937_64& random)
      : out_(out), stacks_(stacks), random_(random) {}

  void segment_alloc(allocator::Address a, Bytes n, allocator::Stream s) override {
    event("segment_alloc", a, n, s, take());
  }
  void segment_free(allocator::Address a, Bytes n, allocator::Stream s) override {
    event("segment_free", a, n, s, take());
  }
  void alloc(allocator::BlockId id, allocator::Address a, Bytes n, allocator::Stream s) override {
    if (id >= stack_of_.size()) stack_of_.resize(id + 1u);
    stack_of_[id] = take();
    event("alloc", a, n, s, stack_of_[id]);
  }
  void free_requested(allocator::BlockId id, allocator::Address a, Bytes n, allocator::Stream s) override {
    event("free_requested", a, n, s, stack_of_[id]);
  }
  void free_completed(allocator::BlockId id, allocator::Address a, Bytes n, allocator::Stream s) override {
    event("free_completed", a, n, s, stack_of_[id]);
  }

  std::int64_t events() const { return events_; }

  void write_segments(const allocator::CachingAllocator& allocator, std::int64_t device) {
    for (const allocator::SegmentView& segment : allocator.segments()) write(segment, device);
  }

 private:
  Stacks::Stack* take() { return stacks_.take(random_); }

  void event(const char* action, allocator::Address address, Bytes size, allocator::Stream stream,
             Stacks::Stack* stack) {
    if (events_ > 0 && events_ % 1000 == 0) out_.next_batch();
    out_.open_dict();
    out_.constant("action");
    out_.constant(action);
    out_.field("addr", address);
    out_.field("size", size);
    out_.field("stream", stream);
    out_.field("time_us", 1795824295859065 + events_++);
    out_.constant("compile_context");
    out_.fresh("N/A");
    out_.constant("user_metadata");
    out_.constant("");
    stacks_.write(*stack);
    out_.close_dict();
  }

  void write(const allocator::SegmentView& segment, std::int64_t device) {
    out_.open_dict();
    out_.field("device", device);
    out_.field("address", segment.address);
    out_.field("total_size", segment.size);
    out_.field("stream", segment.stream);
    out_.constant("segment_type");
    out_.constant(segment.small ? "small" : "large");
    out_.constant("segment_pool_id");
    out_.pair(0, segment.pool);
    out_.constant("is_expandable");
    out_.boolean(segment.expandable);
    stacks_.write_none();
    out_.constant("blocks");
    out_.open_list();
    for (const auto& block : segment.blocks) {
      const bool free = block.state == allocator::BlockState::free;
      out_.open_dict();
      out_.field("address", block.address);
      out_.field("size", block.size);
      out_.field("requested_size", block.requested);
      out_.constant("state");
      out_.constant(free ? "inactive" : "active_allocated");
      if (free) {
        stacks_.write_none();
      } else {
        stacks_.write(*stack_of_[block.id]);
      }
      out_.close_dict();
    }
    out_.close_list();
    out_.close_dict();
  }

  PythonPickle& out_;
  Stacks& stacks_;
  std::mt19937_64& random_;
  std::vector<Stacks::Stack*> stack_of_;
  std::int64_t events_ = 0;
};

/// One device's run: allocates until the file has grown to `until` bytes.
class Run {
 public:
  Run(PythonPickle& out, Stacks& stacks, std::uint64_t seed)
      : out_(out), random_(seed), trace(out, stacks, random_), allocator({}, device_, &trace) {}

  void until(std::size_t bytes) {
    for (int i = 0; i < 3000; ++i) allocator.allocate(size());  // Weights.
    while (out_.size() < bytes) {
      rollout();
      train();
    }
  }

 private:
  Bytes size() { return static_cast<Bytes>(512 << random_() % 16) + static_cast<Bytes>(random_() % 4096); }

  /// The longer copy of each cache replaces it at every token.
  void rollout() {
    for (int token = 40; token < 240; ++token)
      for (allocator::BlockId& cache : caches_) {
        const allocator::BlockId longer = allocator.allocate(4096 * token);
        allocator.free(cache);
        cache = longer;
        allocator.free(allocator.allocate(size()));
      }
  }
  void train() {
    std::vector<allocator::BlockId> activations;
    for (int i = 0; i < 4000; ++i) activations.push_back(allocator.allocate(size()));
    while (!activations.empty()) {
      const allocator::BlockId gradient = allocator.allocate(size());
      allocator.free(activations.back());
      activations.pop_back();
      allocator.free(gradient);
    }
  }

  PythonPickle& out_;
  std::mt19937_64 random_;
  allocator::VirtualDevice device_{640 * kGiB};
  std::vector<allocator::BlockId> caches_ = std::vector(64, allocator::kNullBlock);

 public:
  Trace trace;
  allocator::CachingAllocator allocator;
};

int write(std::size_t bytes, const char* path) {
  PythonPickle out(path);
  Stacks stacks(out);
  std::vector<std::unique_ptr<Run>> runs;
  std::int64_t events = 0;
  out.open_dict();
  out.constant("device_traces");
  out.open_list();
  for (std::int64_t device = 0; device < kDevices; ++device) {
    runs.push_back(std::make_unique<Run>(out, stacks, static_cast<std::uint64_t>(device) + 3));
    out.open_list();
    runs.back()->until(bytes / kDevices * static_cast<std::size_t>(device + 1));
    out.close_list();
    events += runs.back()->trace.events();
  }
  out.close_list();
  out.constant("segments");
  out.open_list();
  for (std::int64_t device = 0; device < kDevices; ++device) {
    Run& run = *runs[static_cast<std::size_t>(device)];
    run.trace.write_segments(run.allocator, device);
  }
  out.close_list();
  out.close_dict();
  out.op('.');
  out.flush();
  std::fprintf(stderr, "%zu bytes, %lld events on %lld devices\n", out.size(), static_cast<long long>(events),
               static_cast<long long>(kDevices));
  return out.good() ? 0 : 1;
}

double seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
}

int run(char** command) {
  const auto start = std::chrono::steady_clock::now();
  const pid_t child = fork();
  if (child == 0) {
    execvp(command[0], command);
    std::_Exit(127);
  }
  int status = 0;
  rusage usage{};
  wait4(child, &status, 0, &usage);
  const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - start;
  std::fprintf(stderr, "%.2f s, %.2f s of processors, %.0f MB peak resident\n", wall.count(),
               seconds(usage.ru_utime) + seconds(usage.ru_stime),
               static_cast<double>(usage.ru_maxrss) * 1024e-6);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

}  // namespace
}  // namespace headroom

int main(int argc, char** argv) {
  if (argc == 4 && std::strcmp(argv[1], "write") == 0)
    return headroom::write(static_cast<std::size_t>(std::strtod(argv[2], nullptr)), argv[3]);
  if (argc >= 3 && std::strcmp(argv[1], "run") == 0) return headroom::run(argv + 2);
  std::fprintf(stderr, "usage: %s write BYTES FILE | run COMMAND ...\n", argv[0]);
  return 2;
}
