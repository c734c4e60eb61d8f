#pragma once

#include "simulator/hardware/hardware.h"
#include "simulator/memory/memory.h"

namespace headroom {

/// Passes everything on to another Memory and adds up the seconds that the program's operations would take on
/// a card. Operations are taken one after the other: overlap of streams is not counted.
class TimedMemory final : public Memory {
 public:
  /// `nodes`: over which groups of more than `gpus_per_node` ranks are spread.
  TimedMemory(Memory& inner, const Hardware& hardware, std::int64_t gpus_per_node)
      : inner_(inner), hardware_(hardware), gpus_per_node_(gpus_per_node) {}

  Block allocate(Bytes requested, Stream stream, Label label) override {
    return inner_.allocate(requested, stream, label);
  }
  void free(Block block) override { inner_.free(block); }
  void record_stream(Block block, Stream stream) override { inner_.record_stream(block, stream); }
  void relabel(Block block, Label label) override { inner_.relabel(block, label); }
  HostBlock allocate_host(Bytes requested, HostKind kind, Component component) override {
    return inner_.allocate_host(requested, kind, component);
  }
  void free_host(HostBlock block) override { inner_.free_host(block); }
  void empty_cache() override { inner_.empty_cache(); }
  void synchronize() override { inner_.synchronize(); }
  StreamMark record_event(Stream stream) override { return inner_.record_event(stream); }
  void wait_event(StreamMark mark) override { inner_.wait_event(mark); }
  bool wants_operations() const override { return true; }
  void run(const Operation& operation) override;

  /// How many equal pieces of work the running one stands for.
  double repeat = 1;
  /// Seconds since the last call.
  double take_seconds();

 private:
  double seconds(const Operation& operation) const;

  Memory& inner_;
  const Hardware& hardware_;
  std::int64_t gpus_per_node_;
  double seconds_ = 0;
};

}  // namespace headroom
