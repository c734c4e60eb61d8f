#include "simulator/replay/snapshot_heap.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string>

namespace headroom::replay {
namespace {

std::string hex(std::int64_t address) {
  return fmt::format("0x{:x}", static_cast<std::uint64_t>(address));
}

}  // namespace

SnapshotHeap::SnapshotHeap(const allocator::AllocatorSettings& settings) : settings_(settings), blocks_(1) {}

SnapshotHeap::Node SnapshotHeap::at(std::int64_t address) const {
  const std::uint32_t node = by_address_.find(address);
  return node == AddressMap::kNone ? kNone : node;
}

std::vector<SnapshotHeap::Node> SnapshotHeap::segments() const {
  std::vector<Node> nodes;
  nodes.reserve(runs_.size());
  for (const auto& [address, node] : runs_) nodes.push_back(node);
  return nodes;
}

SnapshotHeap::Home SnapshotHeap::home_at(std::int64_t address) const {
  return blocks_[containing(address)].home;
}

Bytes SnapshotHeap::room_at(std::int64_t address) const {
  const Block& block = blocks_[containing(address)];
  return block.address + block.size > address ? block.address + block.size - address : 0;
}

SnapshotHeap::Node SnapshotHeap::take() {
  if (!unused_.empty()) {
    const Node node = unused_.back();
    unused_.pop_back();
    blocks_[node] = {};
    return node;
  }
  blocks_.emplace_back();
  return static_cast<Node>(blocks_.size() - 1);
}

void SnapshotHeap::give_back(Node node) {
  blocks_[node].state = State::unused;
  unused_.push_back(node);
}

/// The block that covers `address`, by walking the run that could; kNone.
SnapshotHeap::Node SnapshotHeap::containing(std::int64_t address) const {
  auto run = runs_.upper_bound(address);
  if (run == runs_.begin()) return kNone;
  Node node = std::prev(run)->second;
  const Block& last = blocks_[last_found_];
  if (last.state != State::unused && last.address <= address && last.address >= blocks_[node].address)
    node = last_found_;
  while (node != kNone && blocks_[node].address + blocks_[node].size <= address) node = blocks_[node].next;
  if (node != kNone) last_found_ = node;
  return node;
}

/// inactive_split counts free parts of native segments that are split.
void SnapshotHeap::count_split(Node node, int sign) {
  const Block& b = blocks_[node];
  if (b.state == State::free && !b.home.expandable && !whole(node)) inactive_split_ += sign * b.size;
}

Status SnapshotHeap::add_segment(std::int64_t address, Bytes size, const Home& home) {
  if (size <= 0) return fail(fmt::format("a segment of {} bytes at {}", size, hex(address)));
  const auto after = runs_.lower_bound(address);
  const bool hits_next = after != runs_.end() && after->first - address < size;
  if (hits_next || containing(address) != kNone)
    return fail(fmt::format("a segment of {} bytes at {} overlaps another one", size, hex(address)));
  const Node node = take();
  Block& b = blocks_[node];
  b.address = address;
  b.size = size;
  b.home = home;
  b.state = State::free;
  by_address_.set(address, node);
  runs_[address] = node;
  reserved_ += size;
  return {};
}

Status SnapshotHeap::remove_segment(std::int64_t address, Bytes size) {
  const Node node = at(address);
  if (node == kNone || blocks_[node].state != State::free || !whole(node) || blocks_[node].size != size)
    return fail(fmt::format("releases a segment of {} bytes at {}, where no such free segment is", size,
                            hex(address)));
  by_address_.erase(address);
  runs_.erase(address);
  reserved_ -= size;
  give_back(node);
  return {};
}

Status SnapshotHeap::map(std::int64_t address, Bytes size, const Home& home) {
  HEADROOM_TRY(add_segment(address, size, home));
  Node node = at(address);
  const auto run = runs_.find(address);
  const auto joins = [&](Node other) {
    return blocks_[other].home.expandable && blocks_[other].home.stream == home.stream;
  };
  if (const auto after = std::next(run);
      after != runs_.end() && after->first == address + size && joins(after->second)) {
    const Node right = after->second;
    blocks_[node].next = right;
    blocks_[right].previous = node;
    runs_.erase(after);
    if (blocks_[right].state == State::free) node = merge_into(node, right);
  }
  if (run != runs_.begin()) {
    const Node before = containing(address - 1);
    if (before != kNone && joins(before) && blocks_[before].address + blocks_[before].size == address) {
      runs_.erase(run);
      blocks_[before].next = node;
      blocks_[node].previous = before;
      if (blocks_[before].state == State::free) merge_into(before, node);
    }
  }
  return {};
}

Status SnapshotHeap::unmap(std::int64_t address, Bytes size) {
  Node node = containing(address);
  if (size <= 0 || node == kNone || blocks_[node].state != State::free || !blocks_[node].home.expandable ||
      blocks_[node].address + blocks_[node].size - address < size)
    return fail(fmt::format("unmaps {} bytes at {}, where no such free memory is", size, hex(address)));
  const Bytes front = address - blocks_[node].address;
  if (front > 0) {
    split_off(node, front);
    node = blocks_[node].next;
  }
  if (blocks_[node].size > size) split_off(node, size);
  const Block gone = blocks_[node];
  if (gone.previous != kNone) {
    blocks_[gone.previous].next = kNone;
  } else {
    runs_.erase(gone.address);
  }
  if (gone.next != kNone) {
    blocks_[gone.next].previous = kNone;
    runs_[blocks_[gone.next].address] = gone.next;
  }
  by_address_.erase(gone.address);
  reserved_ -= size;
  give_back(node);
  return {};
}

/// Cuts a free block in two free ones. False when there is nothing to cut.
bool SnapshotHeap::split_off(Node node, Bytes front) {
  if (front <= 0 || front >= blocks_[node].size) return false;
  const Node rest = take();
  Block& b = blocks_[node];
  Block& r = blocks_[rest];
  r = b;
  r.address = b.address + front;
  r.size = b.size - front;
  r.previous = node;
  if (b.next != kNone) blocks_[b.next].previous = rest;
  b.size = front;
  b.next = rest;
  by_address_.set(r.address, rest);
  return true;
}

SnapshotHeap::Node SnapshotHeap::merge_into(Node left, Node right) {
  Block& l = blocks_[left];
  const Block& r = blocks_[right];
  l.size += r.size;
  l.next = r.next;
  if (r.next != kNone) blocks_[r.next].previous = left;
  by_address_.erase(r.address);
  give_back(right);
  return left;
}

/// What the allocator hands out of a hole: see its split rule.
Bytes SnapshotHeap::block_size(const Block& hole, Bytes requested) const {
  const Bytes rounded = allocator::round_request(settings_, std::max<Bytes>(requested, 1));
  const Bytes rest = hole.size - rounded;
  if (rest <= 0) return hole.size;
  if (hole.home.small || hole.home.expandable || settings_.expandable_segments)
    return rest >= allocator::kMinBlock ? rounded : hole.size;
  return rounded < settings_.max_split_size && rest > allocator::kSmallMax ? rounded : hole.size;
}

/// Whether holes are split depends on settings that a program may change while it runs; the record tells the last ones.
/// A block that was taken whole by those was split after all where something comes to lie behind its request.
bool SnapshotHeap::free_rest(Node node, std::int64_t address) {
  const Block& b = blocks_[node];
  const Bytes used = allocator::round_request(settings_, std::max<Bytes>(b.requested, 1));
  if (b.state == State::free || address < b.address + used || !split_off(node, used)) return false;
  const Node rest = blocks_[node].next;
  Block& r = blocks_[rest];
  active_ -= r.size;
  if (r.state == State::allocated) allocated_ -= r.size;
  r.state = State::free;
  count_split(rest, +1);
  return true;
}

Status SnapshotHeap::allocate(std::int64_t address, Bytes requested, StackId stack, std::uint32_t event,
                              std::optional<Bytes> exact) {
  Node node = at(address);
  if (node == kNone) node = containing(address);
  if (node == kNone) {
    const Bytes size = exact.value_or(allocator::round_request(settings_, std::max<Bytes>(requested, 1)));
    HEADROOM_TRY(add_segment(address, size, Home{}));
    node = at(address);
    reserved_ -= blocks_[node].size;
    blocks_[node].homeless = true;
    ++homeless_;
  }
  if (free_rest(node, address)) node = containing(address);
  if (blocks_[node].state != State::free)
    return fail(
        fmt::format("allocates {} bytes at {}, inside a block that is in use", requested, hex(address)));
  count_split(node, -1);
  if (const Bytes front = address - blocks_[node].address; front > 0) {
    split_off(node, front);
    count_split(node, +1);
    node = blocks_[node].next;
  }
  const Bytes size = exact ? *exact : block_size(blocks_[node], requested);
  if (size > blocks_[node].size)
    return fail(
        fmt::format("allocates {} bytes at {}, where {} are free", size, hex(address), blocks_[node].size));
  const bool split = split_off(node, size);
  Block& b = blocks_[node];
  b.state = State::allocated;
  b.requested = requested;
  b.stack = stack;
  b.born = event;
  if (split) count_split(b.next, +1);
  allocated_ += b.size;
  active_ += b.size;
  ++live_;
  return {};
}

Status SnapshotHeap::request_free(std::int64_t address) {
  const Node node = at(address);
  if (node == kNone || blocks_[node].state != State::allocated)
    return fail(fmt::format("frees {}, which is not allocated", hex(address)));
  blocks_[node].state = State::pending;
  allocated_ -= blocks_[node].size;
  --live_;
  return {};
}

Status SnapshotHeap::complete_free(std::int64_t address) {
  Node node = at(address);
  if (node == kNone || blocks_[node].state != State::pending)
    return fail(fmt::format("completes the free of {}, which was not freed", hex(address)));
  active_ -= blocks_[node].size;
  if (blocks_[node].homeless) {
    by_address_.erase(address);
    runs_.erase(address);
    give_back(node);
    return {};
  }
  blocks_[node].state = State::free;
  const auto is_free = [&](Node n) { return n != kNone && blocks_[n].state == State::free; };
  // Whether neighbours are counted as split depends on their links: take them out before merging.
  const Node previous = blocks_[node].previous, next = blocks_[node].next;
  if (is_free(previous)) count_split(previous, -1);
  if (is_free(next)) count_split(next, -1);
  if (is_free(previous)) node = merge_into(previous, node);
  if (is_free(next)) merge_into(node, next);
  count_split(node, +1);
  return {};
}

}  // namespace headroom::replay
