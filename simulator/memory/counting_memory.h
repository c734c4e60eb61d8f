#pragma once

#include <array>
#include <deque>
#include <vector>

#include "simulator/memory/growing_steps.h"
#include "simulator/memory/memory.h"

namespace headroom {

/// A Memory that only adds: live bytes, rounded to blocks as the caching allocator rounds, and their highest
/// value. What the closed form runs a program on; no segments, no fragmentation, no limit.
///
/// With a host that runs ahead of its device, a freed block that another stream uses stays unavailable until
/// the host has waited for a later mark (VirtualDevice::run_ahead): it is not live any more, but active. An
/// allocator that never fragmented would reserve the highest active value since its cache was last emptied:
/// `reserved`, never below what is live.
class CountingMemory final : public Memory, private GrowingSteps {
 public:
  /// `moments`: also note the highest live and active values between one operation's work and the next (see
  /// `end_moments`).
  explicit CountingMemory(bool moments = false, bool runs_ahead = false)
      : moments_wanted_(moments), runs_ahead_(runs_ahead) {}

  Block allocate(Bytes requested, Stream stream, Label label) override;
  void free(Block block) override;
  void record_stream(Block block, Stream stream) override;
  void relabel(Block block, Label label) override;
  HostBlock allocate_host(Bytes requested, HostKind kind, Component component) override;
  void free_host(HostBlock block) override;
  void empty_cache() override;
  void synchronize() override { catch_up(marks_); }
  StreamMark record_event(Stream) override { return ++marks_; }
  void wait_event(StreamMark mark) override { catch_up(mark); }
  Repetition* repetition() override { return leaves_out_ ? this : nullptr; }
  /// False: repetitions are executed too. What is left out changes no figure. Moments stay those of all
  /// layers, but of fewer tokens.
  void leave_out_repetitions(bool leave_out) { leaves_out_ = leave_out; }
  bool wants_operations() const override { return moments_wanted_; }
  void run(const Operation& operation) override;

  Bytes live() const { return live_; }
  const Breakdown& components() const { return components_; }
  Bytes peak() const { return peak_; }
  /// Live bytes by component when the peak was first reached; sums to `peak()`.
  const Breakdown& at_peak() const { return at_peak_; }
  Bytes active() const { return live_ + waiting_; }
  Bytes active_peak() const { return active_peak_; }
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
    Bytes live = 0, active = 0;                       ///< the highest of each
    std::uint32_t module = 0;                         ///< of the operation that ends it
    std::uint16_t operation = 0;                      ///< likewise
    std::array<std::uint32_t, kComponents> blocks{};  ///< of `live`: its components in units of kMinBlock
    Breakdown components() const;
  };
  /// Those since `begin_moments`, in order, and a last one for what followed. Their maximum is the peak.
  /// Valid until the next call of either; the caller may edit them.
  std::vector<Moment>& end_moments();
  void begin_moments();

 private:
  struct Held {
    Bytes bytes = 0;
    Label label;
    Stream stream = 0;
    std::uint32_t other_streams = 0;  ///< that use it too, by bit
    std::uint32_t next_free = 0;
  };
  struct Waiting {
    StreamMark mark = 0;
    Bytes bytes = 0;
  };
  /// What a part of a watched period did.
  struct Segment {
    Breakdown change;      ///< of live bytes by component
    Bytes highest = 0;     ///< live above the segment's start, at its highest
    Breakdown at_highest;  ///< change of live bytes at the first such moment
    std::int64_t allocations = 0;
  };
  void rise(Bytes bytes, Component component);
  void reach(Bytes live, const Breakdown& components);
  void change(Component component, Bytes bytes);
  void catch_up(StreamMark mark);
  void end_moment(Label label);
  void begin() override;
  void pause() override;
  void resume() override;
  bool closed() override;
  void stop() override { watching_ = inside_ = false; }
  void apply(std::size_t segment) override;
  bool only_sums() const override { return true; }
  void stand_for(std::int64_t times) override { stands_for_ = times; }

  bool moments_wanted_, runs_ahead_;
  Label last_;  ///< of the operation before, or of the first allocation for another module since
  std::vector<Held> blocks_;
  std::uint32_t first_free_ = 0xffffffffu;
  std::vector<Held> host_blocks_;
  Bytes live_ = 0, peak_ = 0, waiting_ = 0, active_peak_ = 0, reserved_ = 0, reserved_peak_ = 0;
  Bytes host_live_ = 0, host_peak_ = 0;
  Breakdown components_, at_peak_, host_components_, host_at_peak_;
  std::int64_t allocations_ = 0;
  StreamMark marks_ = 0;
  std::deque<Waiting> freed_;                        ///< in order of their marks
  Moment moment_;                                    ///< the one that runs
  std::array<std::uint32_t, kComponents> counts_{};  ///< `components_` in units of kMinBlock
  std::vector<Moment> moments_;
  bool leaves_out_ = true;
  bool watching_ = false, inside_ = false;  ///< a period; one of its segments
  bool alike_ = false;                      ///< nothing has happened that another period would do differently
  Bytes start_live_ = 0;                    ///< of the segment
  Breakdown start_;
  std::int64_t start_allocations_ = 0, stands_for_ = 1;
  std::vector<Segment> segments_;
};

}  // namespace headroom
