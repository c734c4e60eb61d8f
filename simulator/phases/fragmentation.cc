#include "simulator/phases/fragmentation.h"

#include <algorithm>

#include "simulator/tape/core/names.h"

namespace headroom {
namespace {

using allocator::BlockState;
using allocator::SegmentView;

/// Points of a phase: where there are so many, two neighbours become one.
constexpr std::size_t kMostPoints = 48;

/// The component of most live bytes of blocks [first, last); allocator_slack where none lives.
Component keeper(const SegmentView& segment, std::size_t first, std::size_t last, const SimulatedMemory& memory) {
  Breakdown live;
  for (std::size_t i = first; i < last; ++i) {
    const SegmentView::BlockView& block = segment.blocks[i];
    if (block.state == BlockState::allocated) live[memory.label(block.id).component] += block.size;
    if (block.state == BlockState::pending) live[Component::other] += block.size;
  }
  const auto most = std::max_element(live.bytes.begin(), live.bytes.end());
  return *most == 0 ? Component::allocator_slack : static_cast<Component>(most - live.bytes.begin());
}

}  // namespace

Bytes PhaseFragmentation::kept() const {
  Bytes sum = 0;
  for (const FreePart& part : parts)
    if (part.kept()) sum += part.bytes;
  return sum;
}

const PhaseFragmentation* peak_of(const std::vector<PhaseFragmentation>& phases) {
  const auto most = std::max_element(phases.begin(), phases.end(), [](const auto& a, const auto& b) {
    return a.reserved < b.reserved;
  });
  return most == phases.end() ? nullptr : &*most;
}

void FragmentationRecorder::attach(SimulatedMemory& memory) {
  memory_ = &memory;
  pieces_.clear();
  names_.assign(1, {-1, "start"});
  phases_.clear();
  found_.clear();
  running_ = false;
  memory.allocator().set_observer(this);
  memory.set_watcher(this);
}

void FragmentationRecorder::begin_phase(const std::string& name, int step) {
  names_.emplace_back(step, name);
  PhaseFragmentation& phase = phases_.emplace_back();
  phase.step = step;
  phase.phase = name;
  running_ = true;
  events_ = 0;
  stretch_ = 1;
  high_ = {memory_->allocator().allocated(), memory_->allocator().reserved()};
  parts_.clear();
  found_.push_back(0);
  see();
  point();
}

void FragmentationRecorder::end_phase() {
  if (!running_) return;
  running_ = false;
  if (events_ % stretch_ != 0) point();
  PhaseFragmentation& phase = phases_.back();
  for (const auto& [key, bytes] : parts_)
    phase.parts.push_back({.step = names_[key.phase].first,
                           .phase = names_[key.phase].second,
                           .component = key.component,
                           .operation = tape::operation_text(key.operation),
                           .kept_by = key.kept_by,
                           .bytes = bytes});
  // Blocks of left-out repetitions are counted without standing anywhere: some KiB.
  if (!moments_.empty()) {
    phase.allocated = phase.reserved;
    for (const FreePart& part : phase.parts) phase.allocated -= part.bytes;
  }
  std::stable_sort(phase.parts.begin(), phase.parts.end(),
                   [](const FreePart& a, const FreePart& b) { return a.bytes > b.bytes; });
}

void FragmentationRecorder::changed() {
  if (!running_) return;
  high_.allocated = std::max(high_.allocated, memory_->allocator().allocated());
  high_.reserved = std::max(high_.reserved, memory_->allocator().reserved());
  ++events_;
  see();
  if (events_ % stretch_ == 0) point();
}

/// The running phase's peak so far; in the second run, when it has come.
void FragmentationRecorder::see() {
  const Bytes allocated = memory_->allocator().allocated(), reserved = memory_->allocator().reserved();
  PhaseFragmentation& phase = phases_.back();
  if (std::pair(reserved, allocated) > std::pair(phase.reserved, phase.allocated)) {
    phase.reserved = reserved;
    phase.allocated = allocated;
    found_.back() = events_;
  }
  if (const std::size_t at = found_.size() - 1; at < moments_.size() && moments_[at] == events_) look();
}

void FragmentationRecorder::point() {
  std::vector<MemoryPoint>& points = phases_.back().points;
  points.push_back(high_);
  high_ = {memory_->allocator().allocated(), memory_->allocator().reserved()};
  if (points.size() < kMostPoints) return;
  for (std::size_t i = 0; i < points.size() / 2; ++i)
    points[i] = {std::max(points[2 * i].allocated, points[2 * i + 1].allocated),
                 std::max(points[2 * i].reserved, points[2 * i + 1].reserved)};
  points.resize(points.size() / 2);
  stretch_ *= 2;
}

// --- Whose the free memory is

void FragmentationRecorder::got(allocator::Address address, Bytes size) {
  pieces_[address] = {size, names_.size() - 1, label_};
}

void FragmentationRecorder::gave(allocator::Address address, Bytes size) {
  const allocator::Address end = address + static_cast<allocator::Address>(size);
  auto at = pieces_.upper_bound(address);
  if (at != pieces_.begin()) --at;
  while (at != pieces_.end() && at->first < end) {
    const allocator::Address low = at->first;
    const allocator::Address high = low + static_cast<allocator::Address>(at->second.size);
    if (high <= address) {
      ++at;
      continue;
    }
    const Piece piece = at->second;
    at = pieces_.erase(at);
    // What is left of a piece on either side stays its piece.
    if (low < address) pieces_[low] = {static_cast<Bytes>(address - low), piece.phase, piece.label};
    if (high > end) pieces_[end] = {static_cast<Bytes>(high - end), piece.phase, piece.label};
  }
}

void FragmentationRecorder::look() {
  parts_.clear();
  for (const SegmentView& segment : memory_->allocator().segments()) add_segment(segment, parts_);
}

/// A native segment is one run of blocks, an expandable one as many as unmapped blocks leave.
void FragmentationRecorder::add_segment(const SegmentView& segment, std::map<Key, Bytes>& parts) const {
  std::size_t first = 0;
  while (first < segment.blocks.size()) {
    std::size_t last = first;
    while (last < segment.blocks.size() && segment.blocks[last].state != BlockState::unmapped) ++last;
    const Component kept_by = keeper(segment, first, last, *memory_);
    for (std::size_t i = first; i < last; ++i)
      if (segment.blocks[i].state == BlockState::free)
        add_free(segment.blocks[i].address, segment.blocks[i].size, kept_by, parts);
      else if (segment.blocks[i].state == BlockState::pending)
        add_free(segment.blocks[i].address, segment.blocks[i].size, Component::other, parts);
    first = last + 1;
  }
}

void FragmentationRecorder::add_free(allocator::Address address, Bytes size, Component kept_by,
                                     std::map<Key, Bytes>& parts) const {
  const allocator::Address end = address + static_cast<allocator::Address>(size);
  auto at = pieces_.upper_bound(address);
  if (at != pieces_.begin()) --at;
  for (; at != pieces_.end() && at->first < end; ++at) {
    const allocator::Address high = at->first + static_cast<allocator::Address>(at->second.size);
    if (high <= address) continue;
    const auto bytes = static_cast<Bytes>(std::min(end, high) - std::max(address, at->first));
    parts[{at->second.phase, at->second.label.component, at->second.label.operation, kept_by}] += bytes;
  }
}

}  // namespace headroom
