// Events a second of the simulated caching allocator, all statistics on. One event is one allocation or one
// free.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <random>
#include <string>
#include <unordered_map>
#include <vector>

#include "simulator/allocator/caching_allocator.h"
#include "simulator/allocator/virtual_device.h"
#include "simulator/replay/recording.h"
#include "tests/support/data.h"

namespace headroom::allocator {
namespace {

/// Allocations and frees of numbered slots; ends with nothing allocated, so that it can be repeated.
struct EventStream {
  struct Event {
    std::uint32_t slot;
    Bytes bytes;  ///< 0: free
  };
  std::vector<Event> events;
  std::uint32_t slots = 0;
};

/// The allocations and frees of all recorded streams of one kind under default settings.
EventStream recorded(const std::string& kind) {
  static const auto recordings =
      replay::read_recordings(test::data("allocator/recorded.jsonl.gz").string()).value();
  EventStream out;
  for (const replay::Recording& recording : recordings) {
    if (!recording.name.starts_with("default " + kind)) continue;
    std::unordered_map<std::int64_t, std::uint32_t> live;
    for (const replay::RecordedEvent& event : recording.events) {
      if (event.kind == replay::RecordedEvent::Kind::allocate) {
        live[event.id] = out.slots;
        out.events.push_back({out.slots++, event.bytes});
      } else if (event.kind == replay::RecordedEvent::Kind::free) {
        out.events.push_back({live.at(event.id), 0});
        live.erase(event.id);
      }
    }
    for (const auto& [id, slot] : live) out.events.push_back({slot, 0});
  }
  return out;
}

void run(const EventStream& stream, CachingAllocator& allocator, std::vector<BlockId>& blocks) {
  for (const EventStream::Event& event : stream.events) {
    if (event.bytes != 0) {
      blocks[event.slot] = allocator.allocate(event.bytes);
    } else {
      allocator.free(blocks[event.slot]);
    }
  }
}

void count(benchmark::State& state, std::size_t events_an_iteration) {
  state.counters["events_per_second"] =
      benchmark::Counter(static_cast<double>(state.iterations()) * static_cast<double>(events_an_iteration),
                         benchmark::Counter::kIsRate);
}

AllocatorSettings settings(bool expandable) {
  AllocatorSettings s;
  s.expandable_segments = expandable;
  return s;
}

/// 10,000 live blocks of the stream's own sizes between as many holes.
void fragment(const EventStream& stream, CachingAllocator& allocator) {
  std::mt19937 random(1);
  std::vector<Bytes> sizes;
  for (const auto& event : stream.events)
    if (event.bytes != 0) sizes.push_back(event.bytes);
  std::vector<BlockId> blocks(20'000);
  for (BlockId& id : blocks) id = allocator.allocate(sizes[random() % sizes.size()]);
  for (std::size_t i = 0; i < blocks.size(); i += 2) allocator.free(blocks[i]);
}

void replay_stream(benchmark::State& state, const std::string& kind, bool fragmented, bool expandable) {
  const EventStream stream = recorded(kind);
  VirtualDevice device(Bytes{1} << 50);
  CachingAllocator allocator(settings(expandable), device);
  if (fragmented) fragment(stream, allocator);
  std::vector<BlockId> blocks(stream.slots);
  for (auto _ : state) run(stream, allocator, blocks);
  count(state, stream.events.size());
  state.counters["live_blocks"] = static_cast<double>(allocator.allocation_count());
}

BENCHMARK_CAPTURE(replay_stream, AllocatorTrainLike, "trainlike", false, false);
BENCHMARK_CAPTURE(replay_stream, AllocatorKvGrowth, "kvgrow", false, false);
BENCHMARK_CAPTURE(replay_stream, AllocatorMixed, "mixed", false, false);
BENCHMARK_CAPTURE(replay_stream, AllocatorTrainLikeExpandable, "trainlike", false, true);
BENCHMARK_CAPTURE(replay_stream, AllocatorKvGrowthExpandable, "kvgrow", false, true);
BENCHMARK_CAPTURE(replay_stream, AllocatorTrainLikeOver10000Live, "trainlike", true, false);
BENCHMARK_CAPTURE(replay_stream, AllocatorKvGrowthOver10000Live, "kvgrow", true, false);

/// The recorded kinds at a larger size: 10,000 and more blocks of the stream itself are live at its peak.
EventStream many_layers(bool kv_growth) {
  EventStream out;
  std::mt19937 random(2);
  if (kv_growth) {  // 5,000 layers' keys and values, each replaced by a longer one at every token
    constexpr int kLayers = 5'000, kTokens = 8;
    std::vector<std::uint32_t> cache;
    for (int token = 0; token < kTokens; ++token) {
      for (int layer = 0; layer < kLayers; ++layer) {
        std::vector<std::uint32_t> temporaries;
        for (int i = 0; i < 3; ++i) {
          temporaries.push_back(out.slots);
          out.events.push_back({out.slots++, 8 * 1024 * 2});
        }
        for (std::uint32_t side = 0; side < 2; ++side) {
          out.events.push_back({out.slots, Bytes{8} * (128 + token) * 1024 * 2});
          const auto at = static_cast<std::size_t>(layer) * 2 + side;
          if (cache.size() <= at) {
            cache.push_back(out.slots++);
          } else {
            out.events.push_back({std::exchange(cache[at], out.slots++), 0});
          }
        }
        for (const std::uint32_t slot : temporaries) out.events.push_back({slot, 0});
      }
    }
    for (const std::uint32_t slot : cache) out.events.push_back({slot, 0});
    return out;
  }
  std::vector<std::uint32_t> saved;  // 1,000 layers' activations, freed in reverse between gradients
  std::vector<Bytes> sizes;
  for (int layer = 0; layer < 1'700; ++layer) {
    for (const Bytes width : {1, 3, 1, 4, 4, 1}) {
      saved.push_back(out.slots);
      sizes.push_back(width * 1024 * 768 * 2);
      out.events.push_back({out.slots++, sizes.back()});
      if (random() % 5 < 2) {
        out.events.push_back({out.slots, 1024 * 768 * 4});
        out.events.push_back({out.slots++, 0});
      }
    }
  }
  while (!saved.empty()) {
    out.events.push_back({out.slots, sizes.back()});
    out.events.push_back({saved.back(), 0});
    out.events.push_back({out.slots++, 0});
    saved.pop_back();
    sizes.pop_back();
  }
  return out;
}

void many_live(benchmark::State& state, bool kv_growth) {
  const EventStream stream = many_layers(kv_growth);
  VirtualDevice device(Bytes{1} << 50);
  CachingAllocator allocator(settings(false), device);
  std::vector<BlockId> blocks(stream.slots);
  for (auto _ : state) run(stream, allocator, blocks);
  count(state, stream.events.size());
  state.counters["live_blocks"] = static_cast<double>(allocator.statistics().all.allocation.peak);
}
BENCHMARK_CAPTURE(many_live, AllocatorTrainLike10000Live, false);
BENCHMARK_CAPTURE(many_live, AllocatorKvGrowth10000Live, true);

/// The hardest order: of 10,000 live blocks of mixed sizes, a random one is freed and another size allocated.
void random_order(benchmark::State& state) {
  std::mt19937 random(3);
  const EventStream stream = recorded("mixed");
  std::vector<Bytes> sizes;
  for (const auto& event : stream.events)
    if (event.bytes != 0) sizes.push_back(event.bytes);
  VirtualDevice device(Bytes{1} << 50);
  CachingAllocator allocator(settings(false), device);
  std::vector<BlockId> blocks(10'000);
  for (BlockId& id : blocks) id = allocator.allocate(sizes[random() % sizes.size()]);
  struct Step {
    std::uint32_t slot;
    Bytes bytes;
  };
  std::vector<Step> steps(1 << 16);
  for (Step& step : steps)
    step = {static_cast<std::uint32_t>(random() % blocks.size()), sizes[random() % sizes.size()]};
  const auto pass = [&] {
    for (const Step& step : steps) {
      allocator.free(blocks[step.slot]);
      blocks[step.slot] = allocator.allocate(step.bytes);
    }
  };
  for (int i = 0; i < 10; ++i) pass();
  for (auto _ : state) pass();
  count(state, 2 * steps.size());
  state.counters["live_blocks"] = static_cast<double>(allocator.allocation_count());
  state.counters["bytes_per_live_block"] =
      static_cast<double>(allocator.footprint()) / static_cast<double>(allocator.allocation_count());
}
BENCHMARK(random_order)->Name("AllocatorRandomOrder10000Live");

}  // namespace
}  // namespace headroom::allocator
