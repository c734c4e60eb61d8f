#pragma once

#include "simulator/hardware/hardware.h"
#include "simulator/memory/forwarding_memory.h"

namespace headroom {

/// Passes everything on to another Memory and adds up the seconds that the program's operations would take on
/// a card. Operations are taken one after the other: overlap of streams is not counted.
class TimedMemory final : public ForwardingMemory {
 public:
  /// `nodes`: over which groups of more than `gpus_per_node` ranks are spread.
  TimedMemory(Memory& inner, const Hardware& hardware, std::int64_t gpus_per_node)
      : ForwardingMemory(inner), hardware_(hardware), gpus_per_node_(gpus_per_node) {}

  bool wants_operations() const override { return true; }
  void run(const Operation& operation) override;

  /// How many equal pieces of work the running one stands for.
  double repeat = 1;
  /// Seconds since the last call.
  double take_seconds();

 private:
  double seconds(const Operation& operation) const;

  const Hardware& hardware_;
  std::int64_t gpus_per_node_;
  double seconds_ = 0;
};

}  // namespace headroom
