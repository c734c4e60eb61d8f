#include "simulator/phases/run_recorder.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace headroom {

Memory& RunRecorder::attach(SimulatedMemory& memory) {
  memory_ = &memory;
  memory.watch(wanted_.holders_at);
  if (wanted_.fragmentation) {
    fragmentation_.attach(memory);
    return memory;
  }
  if (!wanted_.stream && !wanted_.snapshot) return memory;
  recording_.emplace(&memory);
  memory.allocator().set_observer(&snapshot_);
  if (wanted_.snapshot) recording_->before_allocations([this](Label label) { before_allocation(label); });
  return *recording_;
}

void RunRecorder::Trace::alloc(allocator::BlockId id, allocator::Address address, Bytes requested,
                               allocator::Stream stream) {
  SnapshotRecorder::alloc(id, address, requested, stream);
  events_[id] = stream_->next_id();
}

void RunRecorder::Trace::free_completed(allocator::BlockId id, allocator::Address address, Bytes requested,
                                        allocator::Stream stream) {
  SnapshotRecorder::free_completed(id, address, requested, stream);
  if (const auto known = events_.find(id); known != events_.end()) stream_->completed(known->second);
}

std::vector<MemoryEvent> RunRecorder::events() const {
  return recording_ ? recording_->events() : std::vector<MemoryEvent>{};
}

std::vector<std::string> RunRecorder::modules() const {
  std::vector<std::string> out;
  for (std::uint32_t i = 0; i < modules_->size(); ++i) out.push_back(modules_->text(i));
  return out;
}

std::vector<Holder> RunRecorder::holders(std::size_t count) const {
  std::map<std::tuple<std::uint32_t, std::uint16_t, Component>, Holder> sums;
  for (const SimulatedMemory::Holding& holding : memory_->watched()) {
    Holder& sum = sums[{holding.label.module, holding.label.operation, holding.label.component}];
    sum.bytes += holding.bytes;
    ++sum.blocks;
  }
  std::vector<Holder> out;
  for (auto& [key, sum] : sums) {
    sum.module = modules_->text(std::get<0>(key));
    sum.operation = tape::operation_text(std::get<1>(key));
    sum.component = std::get<2>(key);
    out.push_back(std::move(sum));
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const Holder& a, const Holder& b) { return a.bytes > b.bytes; });
  if (out.size() > count) out.resize(count);
  return out;
}

void RunRecorder::before_allocation(Label label) {
  const std::uint64_t key = std::uint64_t{label.module} << 32 | std::uint64_t{label.operation} << 8 |
                            static_cast<std::uint64_t>(label.component);
  const auto [at, fresh] = stacks_.try_emplace(key);
  if (fresh) at->second = stack_of(label, modules_->text(label.module));
  snapshot_.set_stack(at->second);
}

replay::StackId RunRecorder::stack_of(Label label, const std::string& module) {
  using Frame = replay::SnapshotRecorder::FrameText;
  const std::string_view component = name(label.component);
  const std::string& operation = tape::operation_text(label.operation);
  std::string_view path = module;
  std::vector<Frame> frames;
  frames.push_back({operation.empty() ? component : operation, path.empty() ? component : path, 0});
  while (!path.empty()) {
    const std::size_t dot = path.rfind('.');
    frames.push_back({dot == std::string_view::npos ? path : path.substr(dot + 1), path, 0});
    path = dot == std::string_view::npos ? std::string_view() : path.substr(0, dot);
  }
  frames.push_back({component, "component", 0});
  return snapshot_.stack(frames);
}

}  // namespace headroom
