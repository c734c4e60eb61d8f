#pragma once

#include <cstddef>
#include <vector>

#include "simulator/hardware/hardware.h"
#include "simulator/memory/forwarding_memory.h"
#include "simulator/memory/growing_steps.h"

namespace headroom {

/// Passes everything on to another Memory and adds up the seconds that the program's operations would take on
/// a card; none where the card's rates are not known. Operations are taken one after the other: overlap of
/// streams is not counted. Left-out repetitions take what the executed one took.
class TimedMemory final : public ForwardingMemory, private GrowingSteps {
 public:
  /// `nodes`: over which groups of more than `gpus_per_node` ranks are spread.
  TimedMemory(Memory& inner, const Hardware& hardware, std::int64_t gpus_per_node)
      : ForwardingMemory(inner),
        hardware_(hardware),
        gpus_per_node_(gpus_per_node),
        quick_bytes_(timed() ? bytes_within_latency(hardware) : 0) {}

  bool wants_operations() const override { return timed() || inner().wants_operations(); }
  void run(const Operation& operation) override;
  Repetition* repetition() override {
    repetition_ = inner().repetition();
    return repetition_ == nullptr ? nullptr : this;
  }

  /// How many equal pieces of work the running one stands for.
  double repeat = 1;
  /// Seconds since the last call.
  double take_seconds();

  /// What one operation takes on a card whose rates are known. Work of the host takes its dispatch: profiles
  /// have no rates of the host. What moves at most `quick_bytes` is known to stay within an operation's
  /// latency.
  static double seconds(const Operation& operation, const Hardware& hardware, std::int64_t gpus_per_node,
                        Bytes quick_bytes = 0);

 private:
  bool timed() const { return hardware_.memory_bandwidth > 0; }
  /// The most bytes that are moved within an operation's latency, as nearly all of decoding is.
  static Bytes bytes_within_latency(const Hardware& hardware);
  void begin() override;
  void pause() override;
  void resume() override;
  bool closed() override;
  void stop() override;
  void apply(std::size_t segment) override;
  bool only_sums() const override;
  void stand_for(std::int64_t times) override;

  const Hardware& hardware_;
  std::int64_t gpus_per_node_;
  Bytes quick_bytes_;
  double seconds_ = 0, segment_start_ = 0, stands_for_ = 1;
  Repetition* repetition_ = nullptr;  ///< of the inner memory
  bool watching_ = false;
  std::vector<double> segments_;  ///< seconds of the watched period's
};

}  // namespace headroom
