#pragma once

#include <vector>

#include "simulator/memory/memory.h"

namespace headroom {

/// A Memory that only adds: live bytes, rounded to blocks as the caching allocator rounds, and their highest
/// value. What the closed form runs a program on; no segments, no fragmentation, no limit. An allocator that
/// never fragmented would reserve the highest value since its cache was last emptied: `reserved`.
class CountingMemory final : public Memory {
 public:
  /// `moments`: also note the highest live value between one operation's work and the next (see
  /// `take_moments`).
  explicit CountingMemory(bool moments = false) : moments_wanted_(moments) {}

  Block allocate(Bytes requested, Stream stream, Label label) override;
  void free(Block block) override;
  void record_stream(Block, Stream) override {}
  void relabel(Block block, Label label) override;
  HostBlock allocate_host(Bytes requested, HostKind kind, Component component) override;
  void free_host(HostBlock block) override;
  void empty_cache() override { reserved_ = live_; }
  void synchronize() override {}
  bool wants_operations() const override { return moments_wanted_; }
  void run(const Operation& operation) override;

  Bytes live() const { return live_; }
  const Breakdown& components() const { return components_; }
  Bytes peak() const { return peak_; }
  /// Live bytes by component when the peak was first reached; sums to `peak()`.
  const Breakdown& at_peak() const { return at_peak_; }
  Bytes reserved() const { return reserved_; }
  Bytes reserved_peak() const { return reserved_peak_; }
  Bytes host_live() const { return host_live_; }
  Bytes host_peak() const { return host_peak_; }
  const Breakdown& host_components() const { return host_components_; }
  const Breakdown& host_at_peak() const { return host_at_peak_; }
  std::int64_t allocations() const { return allocations_; }

  /// The peak starts anew from what is live now, as torch.cuda.reset_peak_memory_stats.
  void reset_peak();
  /// The highest live value between two operations, or until another module allocates.
  struct Moment {
    Bytes live = 0;
    std::uint32_t module = 0;     ///< of the operation that ends it
    std::uint16_t operation = 0;  ///< likewise
  };
  /// Those since the last call, in order, and a last one for what followed. Their maximum is the
  /// peak.
  std::vector<Moment> take_moments();

 private:
  struct Held {
    Bytes bytes = 0;
    Label label;
    std::uint32_t next_free = 0;
  };
  void rise(Bytes bytes, Component component);

  bool moments_wanted_;
  Label last_;  ///< of the operation before, or of the first allocation for another module since
  std::vector<Held> blocks_;
  std::uint32_t first_free_ = 0xffffffffu;
  std::vector<Held> host_blocks_;
  Bytes live_ = 0, peak_ = 0, reserved_ = 0, reserved_peak_ = 0, host_live_ = 0, host_peak_ = 0, moment_ = 0;
  Breakdown components_, at_peak_, host_components_, host_at_peak_;
  std::int64_t allocations_ = 0;
  std::vector<Moment> moments_;
};

}  // namespace headroom
