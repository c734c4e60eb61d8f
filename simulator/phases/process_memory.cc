#include "simulator/phases/process_memory.h"

#include "simulator/allocator/virtual_device.h"
#include "simulator/memory/counting_memory.h"
#include "simulator/memory/simulated_memory.h"

namespace headroom {
namespace {

class Counted final : public ProcessMemory {
 public:
  Memory& memory() override { return memory_; }
  State now() const override {
    return {.allocated = memory_.components(), .reserved = memory_.live(), .host = memory_.host_components()};
  }
  Piece take_piece() override {
    Piece piece{
        .peak = {.allocated = memory_.at_peak(), .reserved = memory_.peak(), .host = memory_.host_at_peak()},
        .peak_active = memory_.peak()};
    memory_.reset_peak();
    return piece;
  }
  void set_expandable(bool) override {}
  std::optional<std::string> out_of_memory() const override { return std::nullopt; }
  std::int64_t allocations() const override { return memory_.allocations(); }

 private:
  CountingMemory memory_;
};

class Simulated final : public ProcessMemory {
 public:
  Simulated(const allocator::AllocatorSettings& settings, Bytes limit)
      : settings_(settings), device_(limit), memory_(settings, device_) {}

  Memory& memory() override { return memory_; }
  State now() const override {
    auto& self = const_cast<Simulated&>(*this);
    return {
        .allocated = memory_.live(), .reserved = self.memory_.allocator().reserved(), .host = memory_.host()};
  }
  Piece take_piece() override {
    allocator::CachingAllocator& a = memory_.allocator();
    Piece piece{.peak = {.allocated = memory_.at_peak(),
                         .reserved = a.peak_reserved(),
                         .host = memory_.host_at_peak()},
                .peak_active = a.peak_active()};
    memory_.reset_peaks();
    return piece;
  }
  void set_expandable(bool on) override {
    settings_.expandable_segments = on;
    memory_.allocator().change_settings(settings_);
  }
  std::optional<std::string> out_of_memory() const override { return memory_.out_of_memory(); }
  std::int64_t allocations() const override { return memory_.allocations(); }
  std::int64_t segments() const override {
    return const_cast<Simulated&>(*this).memory_.allocator().statistics().all.segment.current;
  }
  std::int64_t retries() const override {
    return const_cast<Simulated&>(*this).memory_.allocator().statistics().num_alloc_retries;
  }
  Bytes inactive_split() const override {
    return const_cast<Simulated&>(*this).memory_.allocator().inactive_split();
  }

 private:
  allocator::AllocatorSettings settings_;
  allocator::VirtualDevice device_;
  SimulatedMemory memory_;
};

}  // namespace

Result<std::unique_ptr<ProcessMemory>> make_process_memory(Fidelity fidelity, const std::string& settings,
                                                           Bytes limit) {
  HEADROOM_ASSIGN(const allocator::AllocatorSettings parsed, allocator::parse_allocator_settings(settings));
  if (fidelity == Fidelity::live_bytes) return std::make_unique<Counted>();
  return std::make_unique<Simulated>(parsed, limit);
}

}  // namespace headroom
