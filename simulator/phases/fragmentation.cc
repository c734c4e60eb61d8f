#include "simulator/phases/fragmentation.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "simulator/tape/core/names.h"

namespace headroom {
namespace {

using allocator::BlockState;

/// Points of a phase: where there are so many, two neighbours become one.
constexpr std::size_t kMostPoints = 48;

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
  running_ = false;
  gets_ = returns_ = 0;
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
  see();
  point();
}

void FragmentationRecorder::end_phase() {
  if (!running_) return;
  running_ = false;
  if (events_ % stretch_ != 0) point();
  PhaseFragmentation& phase = phases_.back();
  const allocator::CachingAllocator& allocator = memory_->allocator();
  phase.gets = allocator.device_gets() - std::exchange(gets_, allocator.device_gets());
  phase.returns = allocator.device_returns() - std::exchange(returns_, allocator.device_returns());
  for (const auto& [key, bytes] : look())
    phase.parts.push_back({.step = names_[key.phase].first,
                           .phase = names_[key.phase].second,
                           .component = key.component,
                           .operation = tape::operation_text(key.operation),
                           .kept_by = key.kept_by,
                           .bytes = bytes});
  // Blocks of left-out repetitions are counted without standing anywhere: some KiB.
  phase.allocated = phase.reserved;
  for (const FreePart& part : phase.parts) phase.allocated -= part.bytes;
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

/// The running phase's peak so far: what changes from here on may have to be taken back.
void FragmentationRecorder::see() {
  const Bytes allocated = memory_->allocator().allocated(), reserved = memory_->allocator().reserved();
  PhaseFragmentation& phase = phases_.back();
  if (std::pair(reserved, allocated) <= std::pair(phase.reserved, phase.allocated) && events_ > 0) return;
  phase.reserved = reserved;
  phase.allocated = allocated;
  blocks_before_.clear();
  pieces_before_.clear();
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

// --- What changes

void FragmentationRecorder::note(Address address, bool there, const Used& used) {
  if (running_) blocks_before_.push_back({address, there, used});
}

void FragmentationRecorder::alloc(allocator::BlockId, Address address, Bytes, allocator::Stream) {
  note(address, false, {});
}

void FragmentationRecorder::free_requested(allocator::BlockId block, Address address, Bytes, allocator::Stream) {
  note(address, true, {memory_->allocator().size(block), memory_->label(block).component});
}

/// What was freed at once has just been noted.
void FragmentationRecorder::free_completed(allocator::BlockId block, Address address, Bytes, allocator::Stream) {
  if (!blocks_before_.empty() && blocks_before_.back().address == address && blocks_before_.back().there) return;
  note(address, true, {memory_->allocator().size(block), Component::other, true});
}

void FragmentationRecorder::relabelling(allocator::BlockId block) {
  note(memory_->allocator().address(block), true,
       {memory_->allocator().size(block), memory_->label(block).component});
}

void FragmentationRecorder::set_piece(Address address, std::optional<Piece> piece) {
  const auto at = pieces_.find(address);
  if (running_)
    pieces_before_.push_back({address, at == pieces_.end() ? std::nullopt : std::optional(at->second)});
  if (piece)
    pieces_.insert_or_assign(address, *piece);
  else if (at != pieces_.end())
    pieces_.erase(at);
}

void FragmentationRecorder::got(Address address, Bytes size, bool mapped) {
  set_piece(address, Piece{size, names_.size() - 1, label_, mapped});
}

/// What is left of a piece on either side stays its piece.
void FragmentationRecorder::gave(Address address, Bytes size) {
  const Address end = address + static_cast<Address>(size);
  auto at = pieces_.upper_bound(address);
  if (at != pieces_.begin()) --at;
  std::vector<std::pair<Address, Piece>> met;
  for (; at != pieces_.end() && at->first < end; ++at)
    if (at->first + static_cast<Address>(at->second.size) > address) met.emplace_back(*at);
  for (const auto& [low, piece] : met) {
    const Address high = low + static_cast<Address>(piece.size);
    set_piece(low, std::nullopt);
    Piece rest = piece;
    if (low < address) {
      rest.size = static_cast<Bytes>(address - low);
      set_piece(low, rest);
    }
    if (high > end) {
      rest.size = static_cast<Bytes>(high - end);
      set_piece(end, rest);
    }
  }
}

// --- Whose the free memory is

FragmentationRecorder::Pieces FragmentationRecorder::pieces_at_peak() const {
  Pieces out = pieces_;
  for (auto change = pieces_before_.rbegin(); change != pieces_before_.rend(); ++change) {
    if (change->piece)
      out.insert_or_assign(change->address, *change->piece);
    else
      out.erase(change->address);
  }
  return out;
}

std::map<FragmentationRecorder::Address, FragmentationRecorder::Used> FragmentationRecorder::used_at_peak() const {
  std::unordered_map<Address, Used> used;
  for (const allocator::SegmentView& segment : memory_->allocator().segments())
    for (const allocator::SegmentView::BlockView& block : segment.blocks) {
      if (block.state == BlockState::allocated)
        used[block.address] = {block.size, memory_->label(block.id).component};
      else if (block.state == BlockState::pending)
        used[block.address] = {block.size, Component::other, true};
    }
  for (auto change = blocks_before_.rbegin(); change != blocks_before_.rend(); ++change) {
    if (change->there)
      used[change->address] = change->used;
    else
      used.erase(change->address);
  }
  return {used.begin(), used.end()};
}

/// Of the running phase's peak: run by run, the free bytes between blocks, with the component of most bytes in use
/// there (allocator_slack where none is).
FragmentationRecorder::Parts FragmentationRecorder::look() const {
  Parts parts;
  const Pieces pieces = pieces_at_peak();
  const std::map<Address, Used> used = used_at_peak();
  for (auto piece = pieces.begin(); piece != pieces.end();) {
    const Address begin = piece->first;
    const bool mapped = piece->second.mapped;
    Address end = begin;
    do end = piece->first + static_cast<Address>(piece->second.size);
    while (++piece != pieces.end() && mapped && piece->second.mapped && piece->first == end);
    const auto first = used.lower_bound(begin), last = used.lower_bound(end);
    Breakdown live;
    for (auto block = first; block != last; ++block) live[block->second.component] += block->second.size;
    const auto most = std::max_element(live.bytes.begin(), live.bytes.end());
    const Component keeper =
        *most == 0 ? Component::allocator_slack : static_cast<Component>(most - live.bytes.begin());
    Address free = begin;
    for (auto block = first; block != last; ++block) {
      const Address block_end = block->first + static_cast<Address>(block->second.size);
      add_free(pieces, free, block->first, keeper, parts);
      if (block->second.waiting) add_free(pieces, block->first, block_end, Component::other, parts);
      free = block_end;
    }
    add_free(pieces, free, end, keeper, parts);
  }
  return parts;
}

void FragmentationRecorder::add_free(const Pieces& pieces, Address address, Address end, Component kept_by,
                                     Parts& parts) {
  if (address >= end) return;
  auto at = pieces.upper_bound(address);
  if (at != pieces.begin()) --at;
  for (; at != pieces.end() && at->first < end; ++at) {
    const Address high = at->first + static_cast<Address>(at->second.size);
    if (high <= address) continue;
    const auto bytes = static_cast<Bytes>(std::min(end, high) - std::max(address, at->first));
    parts[{at->second.phase, at->second.label.component, at->second.label.operation, kept_by}] += bytes;
  }
}

}  // namespace headroom
