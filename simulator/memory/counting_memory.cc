#include "simulator/memory/counting_memory.h"

#include <algorithm>
#include <utility>

#include "simulator/allocator/settings.h"

namespace headroom {
namespace {

constexpr std::uint32_t kNone = 0xffffffffu;

Bytes host_bytes(Bytes requested, HostKind kind) {
  if (kind == HostKind::pageable || requested <= 0) return requested;
  return allocator::round_pinned({}, requested);
}

}  // namespace

Block CountingMemory::allocate(Bytes requested, Stream stream, Label label) {
  if (requested <= 0) return kNoBlock;
  const Bytes bytes = round_up(requested, allocator::kMinBlock);
  std::uint32_t index = first_free_;
  if (index == kNone) {
    index = static_cast<std::uint32_t>(blocks_.size());
    blocks_.emplace_back();
  } else {
    first_free_ = blocks_[index].next_free;
  }
  blocks_[index] = {.bytes = bytes, .label = label, .stream = stream};
  allocations_ += stands_for_;
  if (moments_wanted_ && label.module != last_.module) {
    end_moment(last_);
    last_ = label;
  }
  rise(bytes, label.component);
  return Block{index};
}

void CountingMemory::change(Component component, Bytes bytes) {
  components_[component] += bytes;
  counts_[static_cast<std::size_t>(component)] += static_cast<std::uint32_t>(bytes / allocator::kMinBlock);
}

void CountingMemory::rise(Bytes bytes, Component component) {
  live_ += bytes;
  change(component, bytes);
  if (moments_wanted_) {
    moment_.active = std::max(moment_.active, active());
    if (live_ > moment_.live) {
      moment_.live = live_;
      moment_.blocks = counts_;
    }
  }
  if (inside_ && live_ - start_live_ > segments_.back().highest) [[unlikely]] {
    segments_.back().highest = live_ - start_live_;
    segments_.back().at_highest = components_ - start_;
  }
  reach(live_, components_);
}

/// Live bytes come to `live` for a moment.
void CountingMemory::reach(Bytes live, const Breakdown& components) {
  if (live > peak_) {
    peak_ = live;
    at_peak_ = components;
  }
  active_peak_ = std::max(active_peak_, live + waiting_);
  reserved_ = std::max(reserved_, live + waiting_);
  reserved_peak_ = std::max(reserved_peak_, reserved_);
}

void CountingMemory::free(Block block) {
  if (block == kNoBlock) return;
  Held& held = blocks_[static_cast<std::uint32_t>(block)];
  live_ -= held.bytes;
  change(held.label.component, -held.bytes);
  if (runs_ahead_ && held.other_streams != 0) {
    freed_.push_back({++marks_, held.bytes});
    waiting_ += held.bytes;
    alike_ = false;
  }
  held.next_free = std::exchange(first_free_, static_cast<std::uint32_t>(block));
}

void CountingMemory::record_stream(Block block, Stream stream) {
  if (block == kNoBlock) return;
  Held& held = blocks_[static_cast<std::uint32_t>(block)];
  if (stream != held.stream) held.other_streams |= 1u << (stream % 32);
}

void CountingMemory::catch_up(StreamMark mark) {
  while (!freed_.empty() && freed_.front().mark <= mark) {
    waiting_ -= freed_.front().bytes;
    freed_.pop_front();
    alike_ = false;
  }
}

void CountingMemory::empty_cache() {
  synchronize();
  reserved_ = live_;
  alike_ = false;
}

void CountingMemory::relabel(Block block, Label label) {
  if (block == kNoBlock) return;
  Held& held = blocks_[static_cast<std::uint32_t>(block)];
  change(held.label.component, -held.bytes);
  change(label.component, held.bytes);
  held.label = label;
}

HostBlock CountingMemory::allocate_host(Bytes requested, HostKind kind, Component component) {
  if (requested <= 0) return kNoHostBlock;
  alike_ = false;
  const Bytes bytes = host_bytes(requested, kind);
  host_blocks_.push_back({.bytes = bytes, .label = {.component = component}});
  host_live_ += bytes;
  host_components_[component] += bytes;
  if (host_live_ > host_peak_) {
    host_peak_ = host_live_;
    host_at_peak_ = host_components_;
  }
  return HostBlock{static_cast<std::uint32_t>(host_blocks_.size() - 1)};
}

void CountingMemory::free_host(HostBlock block) {
  if (block == kNoHostBlock) return;
  alike_ = false;
  Held& held = host_blocks_[static_cast<std::uint32_t>(block)];
  host_components_[held.label.component] -= held.bytes;
  host_live_ -= std::exchange(held.bytes, 0);
}

void CountingMemory::run(const Operation& operation) {
  if (!moments_wanted_) return;
  last_ = operation.label;
  end_moment(last_);
}

void CountingMemory::end_moment(Label label) {
  moment_.module = label.module;
  moment_.operation = label.operation;
  moments_.push_back(moment_);
  moment_.live = live_;
  moment_.active = active();
  moment_.blocks = counts_;
}

Breakdown CountingMemory::Moment::components() const {
  Breakdown out;
  for (std::size_t i = 0; i < kComponents; ++i)
    out.bytes[i] = static_cast<Bytes>(blocks[i]) * allocator::kMinBlock;
  return out;
}

void CountingMemory::reset_peak() {
  peak_ = live_;
  at_peak_ = components_;
  active_peak_ = active();
  reserved_peak_ = reserved_;
  host_peak_ = host_live_;
  host_at_peak_ = host_components_;
}

void CountingMemory::begin_moments() {
  end_moment({});
  moments_.clear();
}

std::vector<CountingMemory::Moment>& CountingMemory::end_moments() {
  end_moment({});
  return moments_;
}

void CountingMemory::begin() {
  segments_.clear();
  watching_ = alike_ = true;
  resume();
}

void CountingMemory::resume() {
  if (!watching_) return;
  inside_ = true;
  segments_.emplace_back();
  start_live_ = live_;
  start_ = components_;
  start_allocations_ = allocations_;
}

void CountingMemory::pause() {
  if (!inside_) return;
  inside_ = false;
  segments_.back().change = components_ - start_;
  segments_.back().allocations = allocations_ - start_allocations_;
}

bool CountingMemory::closed() {
  if (!watching_ || !alike_ || moments_wanted_) return false;
  // As many bytes of every kind came as went, so the next period finds what this one found.
  Breakdown left = inside_ ? components_ - start_ : Breakdown{};
  for (const Segment& segment : segments_) left += segment.change;
  if (left != Breakdown{}) return false;
  pause();
  watching_ = false;
  return true;
}

void CountingMemory::apply(std::size_t index) {
  const Segment& segment = segments_[index];
  if (segment.highest > 0) reach(live_ + segment.highest, components_ + segment.at_highest);
  live_ += segment.change.total();
  for (std::size_t i = 0; i < kComponents; ++i) change(static_cast<Component>(i), segment.change.bytes[i]);
  allocations_ += segment.allocations;
}

}  // namespace headroom
