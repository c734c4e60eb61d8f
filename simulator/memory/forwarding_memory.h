#pragma once

#include "simulator/memory/memory.h"

namespace headroom {

/// Passes everything on to another Memory: the base of those that only look on. Repetitions are not offered,
/// for what looks on must see every call.
class ForwardingMemory : public Memory {
 public:
  /// `inner` outlives this.
  explicit ForwardingMemory(Memory& inner) : inner_(inner) {}

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
  void wait_stream(Stream stream, Stream other) override { inner_.wait_stream(stream, other); }
  void wait_for_peers(Stream stream) override { inner_.wait_for_peers(stream); }
  bool wants_operations() const override { return inner_.wants_operations(); }
  void run(const Operation& operation) override { inner_.run(operation); }
  void host_work(HostWork what, std::int64_t times) override { inner_.host_work(what, times); }

 protected:
  Memory& inner() { return inner_; }
  const Memory& inner() const { return inner_; }

 private:
  Memory& inner_;
};

}  // namespace headroom
