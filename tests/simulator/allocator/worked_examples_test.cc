// Small streams with every figure worked out by hand from the rules; each pins one rule of the allocator.

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "simulator/allocator/caching_allocator.h"
#include "simulator/allocator/virtual_device.h"

namespace headroom::allocator {
namespace {

class Events : public Observer {
 public:
  void segment_alloc(Address, Bytes n, Stream) override { log.push_back(fmt::format("alloc {}", n)); }
  void segment_free(Address, Bytes n, Stream) override { log.push_back(fmt::format("free {}", n)); }
  void segment_map(Address, Bytes n, Stream) override { log.push_back(fmt::format("map {}Mi", n / kMiB)); }
  void segment_unmap(Address, Bytes n, Stream) override {
    log.push_back(fmt::format("unmap {}Mi", n / kMiB));
  }
  void out_of_memory(const OutOfMemory& facts) override {
    log.push_back(fmt::format("oom {}", facts.rounded));
  }
  std::vector<std::string> log;
};

/// One process with its own 80 GiB card, of which it can get `capacity`.
class Process {
 public:
  explicit Process(const char* settings = "", Bytes capacity = 80 * kGiB)
      : device(std::make_shared<CardMemory>(80 * kGiB, 80 * kGiB - capacity)),
        allocator(parse_allocator_settings(settings).value(), device, &events) {}

  BlockId malloc(Bytes bytes, Stream stream = 0) { return allocator.allocate(bytes, stream); }
  BlockId malloc_mib(Bytes mib) { return malloc(mib * kMiB); }
  void free(BlockId id) { allocator.free(id); }
  Bytes offset(BlockId id) { return allocator.segment_offset(id); }
  void limit(Bytes bytes) {
    // Half a byte more, so that truncation gives `bytes` again.
    allocator.set_memory_fraction((static_cast<double>(bytes) + 0.5) /
                                  static_cast<double>(device.total_memory()));
    ASSERT_EQ(allocator.limit(), bytes);
  }
  MemoryStatistics stats() { return allocator.statistics(); }

  /// `A512 f1024 | A2097152`: the blocks of every segment; A allocated, P pending, f free, U unmapped.
  std::string blocks() {
    std::string text;
    for (const SegmentView& segment : allocator.segments()) {
      if (!text.empty()) text += " | ";
      std::string piece;
      for (const auto& block : segment.blocks) {
        const char state = block.state == BlockState::allocated ? 'A'
                           : block.state == BlockState::pending ? 'P'
                           : block.state == BlockState::free    ? 'f'
                                                                : 'U';
        if (!piece.empty()) piece += ' ';
        piece += state == 'U' ? std::string("U") : fmt::format("{}{}", state, block.size);
      }
      text += piece;
    }
    return text;
  }

  VirtualDevice device;
  Events events;
  CachingAllocator allocator;
};

/// Allocated, active, reserved, inactive split bytes and count, requested.
struct Expected {
  Bytes al, ac, re, is;
  std::int64_t count;
  Bytes rq;
};
void expect(Process& p, const Expected& e) {
  const MemoryStatistics s = p.stats();
  EXPECT_EQ(s.all.allocated_bytes.current, e.al);
  EXPECT_EQ(s.all.active_bytes.current, e.ac);
  EXPECT_EQ(s.all.reserved_bytes.current, e.re);
  EXPECT_EQ(s.all.inactive_split_bytes.current, e.is);
  EXPECT_EQ(s.all.inactive_split.current, e.count);
  EXPECT_EQ(s.all.requested_bytes.current, e.rq);
}

TEST(WorkedExample, SmallestRequest) {
  Process p;
  p.malloc(1);
  EXPECT_EQ(p.blocks(), "A512 f2096640");
  expect(p, {512, 512, 2097152, 2096640, 1, 1});
}

TEST(WorkedExample, ZeroBytesAreNotCounted) {
  Process p;
  EXPECT_EQ(p.malloc(0), kNullBlock);
  p.free(kNullBlock);
  EXPECT_EQ(p.stats().all.allocation.allocated, 0);
  EXPECT_TRUE(p.events.log.empty());
}

TEST(WorkedExample, SmallBlocksMerge) {
  Process p;
  const BlockId a = p.malloc(512), b = p.malloc(1000), c = p.malloc(512);
  p.free(a);
  EXPECT_EQ(p.blocks(), "f512 A1024 A512 f2095104");
  expect(p, {1536, 1536, 2097152, 2095616, 2, 1512});
  p.free(b);
  EXPECT_EQ(p.blocks(), "f1536 A512 f2095104");
  expect(p, {512, 512, 2097152, 2096640, 2, 512});
  p.free(c);
  EXPECT_EQ(p.blocks(), "f2097152");
  expect(p, {0, 0, 2097152, 0, 0, 0});
  p.allocator.empty_cache();
  const MemoryStatistics s = p.stats();
  EXPECT_EQ(s.all.reserved_bytes.current, 0);
  EXPECT_EQ(s.num_sync_all_streams, 1);
  EXPECT_EQ(s.num_device_free, 1);
  EXPECT_EQ(s.all.allocated_bytes.peak, 2048);
  EXPECT_EQ(s.all.requested_bytes.peak, 2024);
  EXPECT_EQ(s.all.inactive_split_bytes.peak, 2096640);
  EXPECT_EQ(s.all.inactive_split.peak, 2);
}

TEST(WorkedExample, PoolBoundaryIsOneMebibyteInclusive) {
  Process p;
  p.malloc(1048576);
  p.malloc(1048576);
  EXPECT_EQ(p.blocks(), "A1048576 A1048576");
  EXPECT_EQ(p.stats().all.inactive_split_bytes.current, 0);
  EXPECT_EQ(p.stats().all.inactive_split_bytes.peak, 1048576);
  p.malloc(1048577);
  EXPECT_EQ(p.blocks(), "A1048576 A1048576 | A1049088 f19922432");
  expect(p, {3146240, 3146240, 23068672, 19922432, 1, 3145729});
}

TEST(WorkedExample, TenMebibytesHaveTheirOwnSegment) {
  Process p;
  p.malloc(10485248);
  p.malloc(10485760);
  EXPECT_EQ(p.blocks(), "A10485248 A10486272");
  expect(p, {20971520, 20971520, 20971520, 0, 0, 20971008});
  p.malloc(10485761);
  EXPECT_EQ(p.stats().all.reserved_bytes.current, 33554432);
  EXPECT_EQ(p.stats().all.allocated_bytes.current, 31457792);
  EXPECT_EQ(p.stats().all.inactive_split_bytes.current, 2096640);
}

TEST(WorkedExample, ALeftoverOfOneMebibyteIsNotSplitOff) {
  Process p;
  p.free(p.malloc(2 * kMiB));
  const BlockId b = p.malloc(19922944);
  expect(p, {20971520, 20971520, 20971520, 0, 0, 19922944});
  p.free(b);
  p.malloc(19922432);
  expect(p, {19922432, 19922432, 20971520, 1049088, 1, 19922432});
}

TEST(WorkedExample, BestFitOverSegments) {
  Process p;
  const BlockId a = p.malloc_mib(30), b = p.malloc_mib(12), c = p.malloc_mib(14);
  for (BlockId id : {a, b, c}) p.free(id);
  EXPECT_EQ(p.allocator.reserved(), 58720256);
  p.malloc_mib(11);
  EXPECT_EQ(p.allocator.allocated(), 12582912);
  EXPECT_EQ(p.allocator.inactive_split(), 0);
  p.malloc_mib(13);
  p.malloc_mib(13);
  EXPECT_EQ(p.blocks(), "A13631488 f17825792 | A12582912 | A14680064");
  expect(p, {40894464, 40894464, 58720256, 17825792, 1, 38797312});
}

TEST(WorkedExample, EqualBlocksAreTakenLowestFirst) {
  Process p;
  const BlockId a = p.malloc_mib(4);
  p.malloc_mib(4);
  const BlockId c = p.malloc_mib(4);
  p.malloc_mib(4);
  p.free(a);
  p.free(c);
  EXPECT_EQ(p.allocator.inactive_split(), 12582912);
  EXPECT_EQ(p.stats().all.inactive_split.current, 3);
  EXPECT_EQ(p.offset(p.malloc_mib(4)), 0);
  EXPECT_EQ(p.allocator.inactive_split(), 8388608);
}

TEST(WorkedExample, StreamsDoNotShare) {
  Process p;
  p.free(p.malloc_mib(3));
  p.malloc(3 * kMiB, 7);
  expect(p, {3145728, 3145728, 41943040, 17825792, 1, 3145728});
}

TEST(WorkedExample, ABlockUsedByAnotherStreamWaitsForItsEvent) {
  Process p;
  p.device.hold_events(true);
  const BlockId a = p.malloc_mib(3);
  p.allocator.record_stream(a, 7);
  p.free(a);
  EXPECT_EQ(p.blocks(), "P3145728 f17825792");
  expect(p, {0, 3145728, 20971520, 17825792, 1, 3145728});
  EXPECT_EQ(p.offset(p.malloc_mib(3)), 3145728);
  expect(p, {3145728, 6291456, 20971520, 14680064, 1, 6291456});
  p.device.synchronize();
  EXPECT_EQ(p.offset(p.malloc_mib(3)), 0);
  expect(p, {6291456, 6291456, 20971520, 14680064, 1, 6291456});
  EXPECT_EQ(p.stats().all.inactive_split.peak, 2);
}

TEST(WorkedExample, OwnStreamNeedsNoEvent) {
  Process p;
  p.device.hold_events(true);
  const BlockId a = p.malloc_mib(3);
  p.allocator.record_stream(a, 0);
  p.free(a);
  EXPECT_EQ(p.allocator.active(), 0);
}

TEST(WorkedExample, EmptyCacheKeepsPartlyUsedSegments) {
  Process p;
  p.malloc_mib(5);
  const BlockId b = p.malloc_mib(40);
  p.free(b);
  EXPECT_EQ(p.allocator.reserved(), 62914560);
  p.allocator.empty_cache();
  EXPECT_EQ(p.allocator.reserved(), 20971520);
  EXPECT_EQ(p.allocator.inactive_split(), 15728640);
  EXPECT_EQ(p.stats().all.segment.current, 1);
}

TEST(WorkedExample, MaxSplitSizeKeepsLargeBlocksWhole) {
  Process p("max_split_size_mb:40");
  p.free(p.malloc_mib(100));
  p.malloc_mib(50);
  EXPECT_EQ(p.allocator.reserved(), 157286400);
  p.malloc_mib(85);
  EXPECT_EQ(p.allocator.allocated(), 157286400);
  EXPECT_EQ(p.allocator.requested(), 141557760);
  p.malloc_mib(30);
  EXPECT_EQ(p.allocator.reserved(), 188743680);
  EXPECT_EQ(p.allocator.inactive_split(), 0);
  EXPECT_EQ(p.stats().oversize_allocations.current, 2);
  EXPECT_EQ(p.stats().max_split_size, 40 * kMiB);
}

TEST(WorkedExample, NonSplitRoundingLimitIsExclusive) {
  Process p("max_split_size_mb:40,max_non_split_rounding_mb:30");
  p.free(p.malloc_mib(100));
  const BlockId near = p.malloc_mib(71);
  EXPECT_EQ(p.allocator.reserved(), 100 * kMiB);
  p.free(near);
  p.malloc_mib(70);
  EXPECT_EQ(p.allocator.reserved(), 170 * kMiB);
}

TEST(WorkedExample, RetryReleasesTheCache) {
  Process p("", 100 * kMiB);
  p.free(p.malloc_mib(60));
  p.malloc_mib(70);
  const MemoryStatistics s = p.stats();
  EXPECT_EQ(s.all.reserved_bytes.current, 73400320);
  EXPECT_EQ(s.all.allocated_bytes.current, 73400320);
  EXPECT_EQ(s.all.reserved_bytes.peak, 73400320);
  EXPECT_EQ(s.num_alloc_retries, 1);
  EXPECT_EQ(s.num_sync_all_streams, 1);
  EXPECT_EQ(s.num_device_alloc, 2);
  EXPECT_EQ(s.num_device_free, 1);
}

TEST(WorkedExample, FragmentationEndsOutOfMemory) {
  Process p("", 100 * kMiB);
  p.free(p.malloc_mib(60));
  p.malloc_mib(30);
  EXPECT_EQ(p.malloc_mib(64), kOutOfMemory);
  EXPECT_EQ(p.stats().num_alloc_retries, 1);
  EXPECT_EQ(p.stats().num_ooms, 1);
  EXPECT_EQ(p.events.log.back(), "oom 67108864");
  expect(p, {31457280, 31457280, 62914560, 31457280, 1, 31457280});
  const OutOfMemory& facts = p.allocator.out_of_memory().value();
  EXPECT_EQ(facts.tried, 64 * kMiB);
  EXPECT_EQ(facts.device_total, 80 * kGiB);
  EXPECT_EQ(facts.device_free, 40 * kMiB);
  EXPECT_EQ(facts.unallocated(), 30 * kMiB);
  EXPECT_FALSE(facts.limit.has_value());
  EXPECT_THAT(facts.message(),
              testing::AllOf(testing::HasSubstr("64.00 MiB"), testing::HasSubstr("80.00 GiB in total"),
                             testing::HasSubstr("40.00 MiB free"), testing::HasSubstr("30.00 MiB allocated"),
                             testing::HasSubstr("30.00 MiB reserved but unallocated")));
}

TEST(WorkedExample, ExpandableLifeCycle) {
  Process p("expandable_segments:True");
  const BlockId a = p.malloc(100);
  EXPECT_EQ(p.allocator.segments().front().size, 96636764160);
  EXPECT_EQ(p.blocks(), "A512 f2096640 U");
  EXPECT_EQ(p.stats().all.segment.current, 0);
  EXPECT_EQ(p.allocator.inactive_split(), 0);
  const BlockId q = p.malloc_mib(30);
  EXPECT_EQ(p.blocks(), "A512 f2096640 U | A31457280 f10485760 U");
  EXPECT_EQ(p.allocator.reserved(), 44040192);
  const BlockId r = p.malloc_mib(15);
  EXPECT_EQ(p.offset(r), 30 * kMiB);
  EXPECT_EQ(p.allocator.reserved(), 65011712);
  p.free(q);
  p.allocator.empty_cache();
  EXPECT_EQ(p.allocator.reserved(), 44040192);
  EXPECT_EQ(p.blocks(), "A512 f2096640 U | U f10485760 A15728640 f15728640 U");
  const BlockId t = p.malloc_mib(25);
  EXPECT_EQ(p.offset(t), 0);
  EXPECT_EQ(p.allocator.reserved(), 65011712);
  const BlockId u = p.malloc_mib(10);
  EXPECT_EQ(p.offset(u), 45 * kMiB);
  EXPECT_EQ(p.blocks(), "A512 f2096640 U | A26214400 f5242880 A15728640 A10485760 f5242880 U");
  EXPECT_THAT(p.events.log,
              testing::ElementsAre("map 2Mi", "map 40Mi", "map 20Mi", "unmap 20Mi", "map 20Mi"));
  EXPECT_EQ(p.stats().num_device_alloc, 4);
  EXPECT_EQ(p.stats().num_device_free, 1);
  for (BlockId id : {a, r, t, u}) p.free(id);
  p.allocator.empty_cache();
  EXPECT_EQ(p.allocator.reserved(), 0);
  EXPECT_EQ(p.blocks(), "");
  EXPECT_EQ(p.stats().num_device_free, 3);
}

TEST(WorkedExample, MappingMayOvershootTheLimit) {
  Process p("expandable_segments:True");
  p.limit(76 * kMiB);
  p.malloc_mib(45);
  p.malloc_mib(16);
  EXPECT_EQ(p.allocator.reserved(), 83886080);

  Process tighter("expandable_segments:True");
  tighter.limit(75 * kMiB);
  tighter.malloc_mib(45);
  EXPECT_EQ(tighter.malloc_mib(16), kOutOfMemory);
  EXPECT_EQ(tighter.stats().num_alloc_retries, 1);
  EXPECT_EQ(tighter.allocator.out_of_memory()->limit, 75 * kMiB);
}

TEST(WorkedExample, ExpandableModePrefersABoundedHole) {
  Process p("expandable_segments:True");
  const BlockId hole = p.malloc_mib(30);
  p.malloc_mib(18);
  p.free(hole);
  EXPECT_EQ(p.offset(p.malloc_mib(11)), 0);
  EXPECT_EQ(p.allocator.reserved(), 62914560);
}

TEST(WorkedExample, ExpandableRetryUnmapsWholeChunks) {
  for (const Bytes capacity : {80, 70}) {
    Process p("expandable_segments:True", capacity * kMiB);
    const BlockId a = p.malloc_mib(50);
    p.malloc_mib(4);
    p.free(a);
    const BlockId b = p.malloc_mib(55);
    EXPECT_EQ(p.stats().num_alloc_retries, 1);
    if (capacity == 70) {
      EXPECT_EQ(b, kOutOfMemory);
      continue;
    }
    EXPECT_EQ(p.offset(b), 54 * kMiB);
    EXPECT_EQ(p.allocator.reserved(), 83886080);
    EXPECT_EQ(p.allocator.allocated(), 61865984);
  }
}

TEST(WorkedExample, GarbageCollectionFreesWhatIsOldEnough) {
  Process p("garbage_collection_threshold:0.5");
  p.limit(100 * kMiB);
  const BlockId a = p.malloc_mib(20), b = p.malloc_mib(24);
  p.malloc_mib(30);
  p.free(a);
  p.free(b);
  EXPECT_EQ(p.allocator.reserved(), 77594624);
  p.malloc_mib(26);
  EXPECT_EQ(p.allocator.reserved(), 58720256);

  Process older("garbage_collection_threshold:0.55");
  older.limit(100 * kMiB);
  const BlockId c = older.malloc_mib(20), d = older.malloc_mib(24);
  older.free(c);
  older.malloc_mib(30);
  older.free(d);
  older.malloc_mib(26);
  EXPECT_EQ(older.allocator.reserved(), 83886080);
  EXPECT_EQ(older.stats().num_alloc_retries, 0);
}

TEST(WorkedExample, CachedBlocksAreReleasedForALargeRequest) {
  for (const Bytes request : {76, 110}) {
    Process p("max_split_size_mb:40", 200 * kMiB);
    const BlockId a = p.malloc_mib(100), b = p.malloc_mib(60);
    p.free(a);
    p.free(b);
    p.events.log.clear();
    p.malloc_mib(request);
    EXPECT_EQ(p.allocator.reserved(), request == 76 ? 142606336 : 115343360);
    EXPECT_EQ(p.events.log.front(), "free 104857600");
    EXPECT_EQ(p.stats().num_alloc_retries, 0);
    EXPECT_EQ(p.stats().num_sync_all_streams, 0);
  }
}

TEST(WorkedExample, SmallSegmentsAreTwoMebibytes) {
  Process p;
  for (int i = 0; i < 3; ++i) p.malloc(716800);
  expect(p, {2150400, 2150400, 4194304, 2043904, 2, 2150400});
}

TEST(WorkedExample, PrivatePoolKeepsItsSegmentsWhileInUse) {
  Process p;
  const PoolId pool = p.allocator.create_pool();
  p.allocator.begin_pool(pool);
  const BlockId a = p.malloc_mib(5);
  p.allocator.end_pool(pool);
  p.free(a);
  expect(p, {0, 0, 20971520, 0, 0, 0});
  const BlockId b = p.malloc_mib(5);
  EXPECT_EQ(p.allocator.reserved(), 41943040);
  p.allocator.empty_cache();
  EXPECT_EQ(p.allocator.reserved(), 41943040);
  p.allocator.release_pool(pool);
  p.allocator.release_pool(pool);
  p.allocator.empty_cache();
  EXPECT_EQ(p.allocator.reserved(), 20971520);
  p.free(b);
}

TEST(WorkedExample, NothingIsReleasedForRoomInsideAScope) {
  Process p("", 100 * kMiB);
  p.free(p.malloc_mib(60));
  const PoolId pool = p.allocator.create_pool();
  p.allocator.begin_pool(pool);
  EXPECT_EQ(p.malloc_mib(70), kOutOfMemory);
  EXPECT_EQ(p.stats().num_alloc_retries, 0);
  p.allocator.end_pool(pool);
  EXPECT_NE(p.malloc_mib(70), kOutOfMemory);
}

TEST(WorkedExample, UseOnOomPoolLendsItsFreeBlocks) {
  Process p("", 100 * kMiB);
  const PoolId pool = p.allocator.create_pool({.use_on_oom = true});
  p.allocator.begin_pool(pool);
  const BlockId a = p.malloc_mib(60);
  p.allocator.end_pool(pool);
  p.free(a);
  EXPECT_NE(p.malloc_mib(50), kOutOfMemory);
  EXPECT_EQ(p.blocks(), "A52428800 f10485760");
}

TEST(WorkedExample, NoSplitPoolHandsOutWholeBlocks) {
  Process p;
  const PoolId pool = p.allocator.create_pool({.no_split = true});
  p.allocator.begin_pool(pool);
  p.malloc_mib(5);
  EXPECT_EQ(p.blocks(), "A20971520");
  EXPECT_EQ(p.allocator.requested(), 5 * kMiB);
}

TEST(WorkedExample, APluggablePoolHasNativeSegmentsFromItsOwnDevice) {
  VirtualDevice engine(10 * kGiB);
  Process p("expandable_segments:True");
  const PoolId pool = p.allocator.create_pool({.device = &engine});
  p.allocator.begin_pool(pool);
  const BlockId a = p.malloc_mib(30);
  p.allocator.end_pool(pool);
  EXPECT_EQ(engine.card().used(), 30 * kMiB);
  EXPECT_EQ(p.device.card().used(), 0);
  EXPECT_EQ(p.events.log.back(), "alloc 31457280");
  p.free(a);
  p.allocator.release_pool(pool);
  p.allocator.release_pool(pool);
  p.allocator.empty_cache();
  EXPECT_EQ(engine.card().used(), 0);
}

TEST(WorkedExample, FreesDuringAScopeWaitForItsEnd) {
  Process p;
  const BlockId a = p.malloc_mib(3);
  p.allocator.record_stream(a, 1);
  const PoolId pool = p.allocator.create_pool();
  p.allocator.begin_pool(pool);
  p.free(a);
  p.malloc_mib(3);
  EXPECT_EQ(p.allocator.active(), 6 * kMiB);
  p.allocator.end_pool(pool);
  EXPECT_EQ(p.offset(p.malloc_mib(3)), 0);
  EXPECT_EQ(p.allocator.active(), 6 * kMiB);
}

TEST(WorkedExample, HugeRequestsFailBeforeAnythingIsCounted) {
  Process p;
  const BlockId a = p.malloc_mib(3);
  p.allocator.record_stream(a, 1);
  p.free(a);
  const MemoryStatistics before = p.stats();
  p.events.log.clear();
  EXPECT_EQ(p.malloc(kMaxRequest), kOutOfMemory);
  EXPECT_EQ(p.stats(), before);
  EXPECT_THAT(p.events.log, testing::IsEmpty());
  EXPECT_EQ(p.allocator.out_of_memory().value().requested, kMaxRequest);
  EXPECT_EQ(p.malloc(kMaxRequest - 1), kOutOfMemory);
  EXPECT_EQ(p.stats().num_ooms, 1);
}

TEST(WorkedExample, OnlyAPoolWithoutUsersIsSynchronized) {
  Process p;
  const PoolId pool = p.allocator.create_pool();
  p.allocator.empty_cache(pool);
  EXPECT_EQ(p.stats().num_sync_all_streams, 0);
  p.allocator.release_pool(pool);
  p.allocator.empty_cache(pool);
  EXPECT_EQ(p.stats().num_sync_all_streams, 1);
}

// The remainder of half a MiB is too small to be split off a native block, in whatever mode the borrower is.
TEST(WorkedExample, ALendingPoolSplitsNativeBlocksAsNativeModeDoes) {
  VirtualDevice engine(10 * kGiB);
  Process p("expandable_segments:True", 40 * kMiB);
  const PoolId pool = p.allocator.create_pool({.use_on_oom = true, .device = &engine});
  p.allocator.begin_pool(pool);
  const BlockId a = p.malloc_mib(60);
  p.allocator.end_pool(pool);
  p.free(a);
  EXPECT_NE(p.malloc(60 * kMiB - 512 * kKiB), kOutOfMemory);
  EXPECT_THAT(p.blocks(), testing::HasSubstr("A62914560"));
}

// A snapshot shows for a free block what its memory was last asked for, except where an unmap cut it off.
TEST(WorkedExample, FreeBlocksRememberTheirLastRequest) {
  Process p;
  p.free(p.malloc(1000));
  EXPECT_EQ(p.allocator.segments()[0].blocks[0].requested, 1000);
  p.malloc(600);
  EXPECT_EQ(p.allocator.segments()[0].blocks[1].requested, 1000);

  Process expandable("expandable_segments:True");
  const BlockId a = expandable.malloc_mib(30), b = expandable.malloc_mib(15);
  expandable.free(a);
  expandable.allocator.empty_cache();  // unmaps the first 20 MiB; 10 MiB stay before b
  const auto blocks = expandable.allocator.segments()[0].blocks;
  EXPECT_EQ(blocks[1].size, 10 * kMiB);
  EXPECT_EQ(blocks[1].requested, 0);
  expandable.free(b);
}

TEST(WorkedExample, OldRangesServeNoRequestsOnceExpandableIsOff) {
  Process p("expandable_segments:True");
  const BlockId a = p.malloc_mib(15);
  p.free(a);
  p.allocator.change_settings(AllocatorSettings{});
  p.malloc_mib(15);
  EXPECT_EQ(p.blocks(), "f20971520 U | A16777216");
}

TEST(WorkedExample, PeaksAndSumsRestart) {
  Process p;
  p.free(p.malloc_mib(30));
  p.malloc_mib(3);
  p.allocator.reset_peak();
  EXPECT_EQ(p.allocator.peak_allocated(), 3 * kMiB);
  EXPECT_EQ(p.allocator.peak_reserved(), 30 * kMiB);
  p.allocator.reset_accumulated();
  const MemoryStatistics s = p.stats();
  EXPECT_EQ(s.all.allocated_bytes, (Statistic{3 * kMiB, 3 * kMiB, 0, 0}));
  EXPECT_EQ(s.num_device_alloc, 0);
  p.malloc_mib(2);
  EXPECT_EQ(p.stats().large_pool.allocated_bytes, (Statistic{5 * kMiB, 5 * kMiB, 2 * kMiB, 0}));
}

}  // namespace
}  // namespace headroom::allocator
