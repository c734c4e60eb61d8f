#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "simulator/memory/memory.h"

namespace headroom {

/// One allocation or free of a program.
struct MemoryEvent {
  enum class Kind : std::uint8_t {
    allocate,
    free,  ///< dropped by the program; free at once where no `free_completed` follows
    record_stream,
    empty_cache,
    free_completed,  ///< of what was dropped while another stream still used it: now it is free
    expandable_on,   ///< the process switches expandable segments on …
    expandable_off,  ///< … or off
  };
  Kind kind = Kind::allocate;
  Stream stream = 0;
  std::uint32_t id = 0;  ///< of the block, counted in order of allocation
  Bytes bytes = 0;       ///< requested, of an allocation
  Label label;           ///< of an allocation
};

/// A Memory that writes down what happens and otherwise has no limits. Can pass everything on to another
/// Memory (`inner`), so that a simulated run is recorded too.
class RecordingMemory final : public Memory {
 public:
  explicit RecordingMemory(Memory* inner = nullptr) : inner_(inner) {}

  /// Called with each allocation's label, before `inner` sees the allocation.
  void before_allocations(std::function<void(Label)> call) { before_ = std::move(call); }

  Block allocate(Bytes requested, Stream stream, Label label) override;
  void free(Block block) override;
  void record_stream(Block block, Stream stream) override;
  void relabel(Block block, Label label) override;
  HostBlock allocate_host(Bytes requested, HostKind kind, Component component) override;
  void free_host(HostBlock block) override;
  void empty_cache() override;
  void synchronize() override;
  StreamMark record_event(Stream stream) override {
    return inner_ == nullptr ? 0 : inner_->record_event(stream);
  }
  void wait_event(StreamMark mark) override {
    if (inner_ != nullptr) inner_->wait_event(mark);
  }
  bool wants_operations() const override { return inner_ != nullptr && inner_->wants_operations(); }
  void run(const Operation& operation) override {
    if (inner_ != nullptr) inner_->run(operation);
  }

  /// `inner` says of the block that it handed out for event `id` that it is free again. Only what becomes so after
  /// its free is an event.
  void completed(std::uint32_t id) {
    if (id != freeing_) events_.push_back({MemoryEvent::Kind::free_completed, 0, id, 0, {}});
  }
  void switched_expandable(bool on) {
    const auto kind = on ? MemoryEvent::Kind::expandable_on : MemoryEvent::Kind::expandable_off;
    events_.push_back({kind, 0, 0, 0, {}});
  }
  /// The id of the next allocation, or of the one that `inner` is asked for.
  std::uint32_t next_id() const { return next_id_; }

  const std::vector<MemoryEvent>& events() const { return events_; }
  Bytes live() const { return live_; }

 private:
  struct Entry {
    std::uint32_t id = 0;
    Bytes bytes = 0;
    Block inner = kNoBlock;
  };
  Memory* inner_;
  std::function<void(Label)> before_;
  std::vector<MemoryEvent> events_;
  std::vector<Entry> entries_;
  std::vector<std::uint32_t> unused_;
  static constexpr std::uint32_t kNone = 0xFFFFFFFFu;
  std::uint32_t next_id_ = 0;
  std::uint32_t freeing_ = kNone;
  std::uint32_t hosts_ = 0;
  Bytes live_ = 0;
};

}  // namespace headroom
