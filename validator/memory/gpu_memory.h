#pragma once

#include <memory>
#include <vector>

#include "simulator/allocator/pinned_host_allocator.h"
#include "simulator/memory/simulated_memory.h"
#include "validator/executor/work.h"
#include "validator/memory/gpu_device.h"
#include "validator/memory/pageable_host.h"
#include "validator/memory/pinned_host.h"

namespace headroom::gpu {

/// The card behind the interface of tensor programs. `accounts` is the caching allocator's policy over a
/// GpuDevice: it decides where every block lies and counts; this class does the work between, on the
/// addresses that it gave, and holds real host memory beside it.
///
/// Weights are filled with small random numbers when they are made, so that products work on numbers that
/// cost what real ones cost. The processor runs ahead of the card, and blocks that several streams used come
/// back only when the card is done with them. After the first failure (memory, or an error of the driver)
/// nothing more happens.
class GpuMemory final : public Memory {
 public:
  /// All outlive the memory.
  GpuMemory(SimulatedMemory& accounts, GpuDevice& device, Streams& streams, Worker& worker,
            WorkLedger& ledger);
  ~GpuMemory() override;

  Block allocate(Bytes requested, Stream stream, Label label) override;
  void free(Block block) override;
  void record_stream(Block block, Stream stream) override { accounts_.record_stream(block, stream); }
  void relabel(Block block, Label label) override { accounts_.relabel(block, label); }
  HostBlock allocate_host(Bytes requested, HostKind kind, Component component) override;
  void free_host(HostBlock block) override;
  void empty_cache() override;
  void synchronize() override;
  StreamMark record_event(Stream stream) override { return accounts_.record_event(stream); }
  void wait_event(StreamMark mark) override { accounts_.wait_event(mark); }
  bool wants_operations() const override { return true; }
  void run(const Operation& operation) override;

  /// The first failure that was not about memory.
  const Status& error() const { return error_; }
  Bytes pinned() const { return pinned_.held(); }
  /// An operand that names more than its block holds is cut to it.
  Placed place(const Operand& operand) const;

 private:
  struct Host {
    char* at = nullptr;
    Bytes bytes = 0;
    allocator::PinnedBlockId pinned = allocator::kNullPinnedBlock;
  };
  /// Who wrote a block first; no bytes: nobody yet.
  struct Writer {
    WorkLedger::Entry entry{};
    Bytes bytes = 0;
  };
  void give_back(Host& host);
  Placed place_on_host(const Operand& operand) const;
  /// Where `bytes` come from: a page-locked block where one is large enough (programs page-lock what comes
  /// back often), else the newest or the first that is; null without any.
  const Host* source(Bytes bytes) const;
  /// The newest block; null where it is gone.
  const Host* made_last() const;
  Status transfer(const Operation& operation);
  Status transfer_between(const Placed& from, const Placed& to, cudaStream_t stream);
  Status work(const Operation& operation);
  void count(const Operation& operation, Done done, Bytes host_bytes);

  SimulatedMemory& accounts_;
  GpuDevice& device_;
  Streams& streams_;
  Worker& worker_;
  WorkLedger& ledger_;
  PageableHost pageable_;
  PinnedHost host_;
  allocator::PinnedHostAllocator pinned_;
  std::vector<Host> hosts_;      ///< by HostBlock
  std::vector<Writer> writers_;  ///< by Block
  std::size_t last_host_ = 0;
  PlacedOperation placed_;
  std::uint64_t seed_ = 1;
  bool failed_ = false;
  Status error_;
};

}  // namespace headroom::gpu
