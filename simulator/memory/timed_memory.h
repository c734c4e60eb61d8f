#pragma once

#include <cstddef>
#include <functional>
#include <set>
#include <utility>
#include <vector>

#include "simulator/allocator/virtual_device.h"
#include "simulator/hardware/hardware.h"
#include "simulator/memory/forwarding_memory.h"
#include "simulator/memory/growing_steps.h"
#include "simulator/time/host_blocks.h"
#include "simulator/time/host_thread.h"
#include "simulator/time/launch_queue.h"
#include "simulator/time/power_limit.h"

namespace headroom {

/// What an allocator has got from its driver so far.
struct DriverUse {
  Bytes reserved = 0;
  std::int64_t gets = 0, returns = 0;  ///< calls so far
  bool maps = false;  ///< in pages that are mapped one by one (expandable segments)
};

/// Passes everything on to another Memory and tells how long the program would take: a host thread that pays
/// for Python, dispatch and driver calls and runs ahead of the device until something waits (launch_queue.h).
/// Work that lasts keeps the card's power limit (power_limit.h). Nothing where the card's rates are not known. Left-out repetitions take what the executed one took.
class TimedMemory final : public ForwardingMemory, private GrowingSteps {
 public:
  /// `gpus_per_node`: larger groups of ranks are spread over nodes. `driver`: what the inner memory holds of
  /// its device; without it driver calls cost nothing.
  TimedMemory(Memory& inner, const Hardware& hardware, std::int64_t gpus_per_node,
              std::function<DriverUse()> driver = {})
      : ForwardingMemory(inner),
        hardware_(hardware),
        gpus_per_node_(gpus_per_node),
        thread_(hardware.host_times),
        blocks_(hardware.host_rates),
        driver_(std::move(driver)) {}

  bool wants_operations() const override { return timed() || inner().wants_operations(); }
  Block allocate(Bytes requested, Stream stream, Label label) override;
  HostBlock allocate_host(Bytes requested, HostKind kind, Component component) override;
  void free_host(HostBlock block) override;
  void empty_cache() override;
  void synchronize() override;
  StreamMark record_event(Stream stream) override;
  void wait_event(StreamMark mark) override;
  void wait_stream(Stream stream, Stream other) override;
  void wait_for_peers(Stream stream) override;
  void run(const Operation& operation) override;
  void host_work(HostWork what, std::int64_t times) override;
  Repetition* repetition() override {
    repetition_ = inner().repetition();
    return repetition_ == nullptr ? nullptr : this;
  }

  /// How many equal pieces of work the running one stands for.
  double repeat = 1;
  /// Share of its tokens that the device works on; the host and what is moved do not depend on it.
  double filled = 1;
  /// Every allocation's stack is recorded.
  bool records_history = false;
  /// Seconds since the last call, within the card's power limit.
  Seconds take_seconds() {
    const Seconds ran = work().ran;
    return at_power_limit(take_burst(), ran, hardware_.matrix);
  }
  /// The same as kernels take in bursts: for parts of a stretch of work, which meets the limit as a whole.
  Seconds take_burst() {
    marks_.clear();
    emptied_ = false;
    return queue_.take();
  }
  /// Both clocks, for a device whose events follow them.
  const allocator::Clock& clock() const { return clock_; }
  /// What host and device did in them.
  LaunchQueue::Work work() const { return queue_.work(); }

 private:
  bool timed() const { return hardware_.memory_bandwidth > 0; }
  double times() const { return repeat * stands_for_; }
  void copy(const Operation& operation);
  void on_host(const Operation& operation, Bytes bytes);
  void driver_calls();
  void begin() override;
  void pause() override;
  void resume() override;
  bool closed() override;
  void stop() override;
  void apply(std::size_t segment) override;
  bool only_sums() const override;
  void stand_for(std::int64_t times) override;

  /// Of the queue; streams that wait for peers are as far behind as launches may be (kLaunchesAhead).
  class QueueClock final : public allocator::Clock {
   public:
    explicit QueueClock(const TimedMemory& memory) : memory_(memory) {}
    double now(allocator::Stream stream) const override {
      return by_launches(stream) ? memory_.launches_ : memory_.queue_.host_reached();
    }
    double reached(allocator::Stream stream) const override {
      return by_launches(stream) ? memory_.launches_ + kLaunchesAhead
                                 : memory_.queue_.reached(static_cast<Stream>(stream));
    }

   private:
    bool by_launches(allocator::Stream stream) const { return memory_.peers_.count(stream) != 0; }
    const TimedMemory& memory_;
  };
  /// What the driver lets a host queue on a stream before it makes it wait (CUDA's documentation calls the depth
  /// "subject to change"; 1024 is what is commonly measured).
  static constexpr double kLaunchesAhead = 1024;

  const Hardware& hardware_;
  std::int64_t gpus_per_node_;
  HostThread thread_;
  HostBlocks blocks_;
  std::function<DriverUse()> driver_;
  LaunchQueue queue_;
  double launches_ = 0;
  std::set<allocator::Stream> peers_;  ///< streams that wait for other processes
  QueueClock clock_{*this};
  std::vector<std::pair<StreamMark, double>>
      marks_;           ///< recorded and not yet waited for: when they are reached
  DriverUse use_;       ///< of the driver, as last seen
  bool emptied_ = false;  ///< in this stretch of work: each of its repetitions empties, and gets memory again
  double stands_for_ = 1;
  Repetition* repetition_ = nullptr;  ///< of the inner memory
  bool watching_ = false;
  LaunchQueue::Stretch segment_start_;
  std::vector<LaunchQueue::Stretch> segments_;  ///< of the watched period
};

}  // namespace headroom
