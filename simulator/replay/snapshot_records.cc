#include "simulator/replay/snapshot_records.h"

#include <fmt/format.h>

#include <limits>

namespace headroom::replay {
namespace {

enum Key : std::uint32_t {
  kAction,
  kAddr,
  kAddress,
  kSize,
  kStream,
  kTimeUs,
  kFrames,
  kDeviceFree,
  kPoolId,
  kName,
  kFilename,
  kLine,
  kRequestedSize,
  kState,
  kBlocks,
  kDevice,
  kTotalSize,
  kSegmentType,
  kSegmentPoolId,
  kIsExpandable,
  kStage,
  kKeys
};
// String ids below kKeys are these, in order: a key is recognised by comparing one number.
constexpr std::string_view kKeyNames[kKeys] = {
    "action",          "addr",          "address", "size",   "stream",     "time_us",
    "frames",          "device_free",   "pool_id", "name",   "filename",   "line",
    "requested_size",  "state",         "blocks",  "device", "total_size", "segment_type",
    "segment_pool_id", "is_expandable", "stage"};

/// Device addresses have fewer bits, and so have all sums of sizes in address space.
constexpr std::int64_t kLargest = std::int64_t{1} << 60;

tl::unexpected<Error> wrong(std::string_view what, std::string_view key, std::string_view expected,
                            std::string_view found) {
  return fail(fmt::format("{}: {}: expected {}, found {}", what, key, expected, found));
}

}  // namespace

/// The known keys of one dict.
struct SnapshotRecords::Fields {
  const PickleHeap& heap;
  std::string_view what;
  std::size_t number = 0;  ///< which one, for messages
  std::uint32_t present = 0;
  PickleValue values[kKeys];

  explicit Fields(const PickleHeap& h) : heap(h) {}
  std::string place() const { return fmt::format("{} {}", what, number); }
  bool has(Key key) const { return (present >> key & 1) != 0; }

  /// The usual case: an integer in [0, kLargest]. False: something else, which the functions below judge.
  bool plain(Key key, std::int64_t& out) const {
    if (!has(key) || !values[key].is(PickleKind::integer)) return false;
    const std::int64_t value = values[key].number();
    if (value < 0 || value > kLargest) return false;
    out = value;
    return true;
  }
  /// An integer; `fallback` when the key is absent, an error when there is none.
  Result<std::int64_t> integer(Key key, std::optional<std::int64_t> fallback = std::nullopt) const {
    if (!has(key)) {
      if (fallback) return *fallback;
      return fail(fmt::format("{}: {}: missing", place(), kKeyNames[key]));
    }
    if (const auto value = heap.integer(values[key])) [[likely]]
      return *value;
    return wrong(place(), kKeyNames[key], "an integer", describe(values[key].kind()));
  }
  Result<Bytes> size(Key key, std::optional<std::int64_t> fallback = std::nullopt) const {
    HEADROOM_ASSIGN(const Bytes value, integer(key, fallback));
    if (value < 0 || value > kLargest)
      return wrong(place(), kKeyNames[key], "a size from 0 to 2^60", fmt::format("{}", value));
    return value;
  }
  Result<std::int64_t> address(Key key, std::optional<std::int64_t> fallback = std::nullopt) const {
    HEADROOM_ASSIGN(const std::int64_t value, integer(key, fallback));
    if (value < 0 || value > kLargest)
      return wrong(place(), kKeyNames[key], "an address below 2^60",
                   fmt::format("{:#x}", static_cast<std::uint64_t>(value)));
    return value;
  }
  Result<std::uint32_t> string(Key key) const {
    if (!has(key)) return fail(fmt::format("{}: {}: missing", place(), kKeyNames[key]));
    if (values[key].is(PickleKind::string)) return values[key].index();
    return wrong(place(), kKeyNames[key], "a string", describe(values[key].kind()));
  }
  Result<bool> boolean(Key key) const {
    if (!has(key)) return false;
    if (values[key].is(PickleKind::boolean)) return values[key].number() != 0;
    return wrong(place(), kKeyNames[key], "a boolean", describe(values[key].kind()));
  }
  Result<std::optional<PoolKey>> pool(Key key) const {
    if (!has(key)) return std::nullopt;
    if (values[key].is(PickleKind::tuple)) {
      const auto items = heap.tuple(values[key]);
      if (items.size() == 2) {
        const auto a = heap.integer(items[0]), b = heap.integer(items[1]);
        if (a && b) return PoolKey{*a, *b};
      }
    }
    return wrong(place(), kKeyNames[key], "a tuple of two integers", describe(values[key].kind()));
  }
};

SnapshotRecords::SnapshotRecords(PickleHeap& heap, Snapshot& snapshot) : snapshot_(snapshot) {
  for (const std::string_view key : kKeyNames) heap.strings().intern(key);
  for (std::size_t a = 0; a < kTraceActions; ++a) heap.strings().intern(name(static_cast<TraceAction>(a)));
}

Result<PickleRecord> SnapshotRecords::fold(PickleHeap& heap, std::span<const PickleValue> items) {
  Fields fields(heap);
  for (std::size_t i = 0; i < items.size(); i += 2) {
    if (!items[i].is(PickleKind::string) || items[i].index() >= kKeys) continue;
    fields.present |= 1u << items[i].index();
    fields.values[items[i].index()] = items[i + 1];
  }
  if (fields.has(kAction)) return fold_event(heap, fields);
  if (fields.has(kFilename) && fields.has(kLine)) return fold_frame(heap, fields);
  if (fields.has(kState) && fields.has(kSize)) return fold_block(heap, fields);
  if (fields.has(kBlocks)) return fold_segment(heap, fields);
  if (fields.has(kStage) && fields.has(kTimeUs)) return fold_annotation(heap, fields);
  return PickleRecord{};
}

Result<PickleRecord> SnapshotRecords::fold_event(PickleHeap& heap, Fields& fields) {
  fields.what = "trace entry";
  fields.number = snapshot_.events.size();
  HEADROOM_ASSIGN(const std::uint32_t action, fields.string(kAction));
  TraceEvent event;
  if (action >= kKeys && action < kKeys + kTraceActions) {
    event.action = static_cast<TraceAction>(action - kKeys);
  }
  if (event.action != TraceAction::other) {
    if (event.action == TraceAction::oom) {
      HEADROOM_ASSIGN(event.address, fields.size(kDeviceFree, 0));
    } else if (!fields.plain(kAddr, event.address)) {
      HEADROOM_ASSIGN(event.address, fields.address(kAddr));
    }
    if (!fields.plain(kSize, event.size)) {
      HEADROOM_ASSIGN(event.size, fields.size(kSize));
    }
    if (!fields.plain(kTimeUs, event.time_us)) {
      HEADROOM_ASSIGN(event.time_us, fields.integer(kTimeUs, 0));
    }
    HEADROOM_ASSIGN(event.stack, stack_of(heap, fields));
    HEADROOM_ASSIGN(event.context, context_of(heap, fields));
  }
  if (snapshot_.events.size() > kMaxPickleIndex) return fail("more than 536,870,911 trace entries");
  snapshot_.events.push_back(event);
  return PickleRecord{kEventRecord, static_cast<std::uint32_t>(snapshot_.events.size() - 1)};
}

Result<PickleRecord> SnapshotRecords::fold_frame(PickleHeap&, Fields& fields) {
  fields.what = "stack frame";
  fields.number = snapshot_.stacks.frame_count();
  Frame frame;
  HEADROOM_ASSIGN(frame.file, fields.string(kFilename));
  HEADROOM_ASSIGN(frame.name, fields.string(kName));
  HEADROOM_ASSIGN(const std::int64_t line, fields.integer(kLine));
  frame.line =
      line < 0 || line > std::numeric_limits<std::uint32_t>::max() ? 0 : static_cast<std::uint32_t>(line);
  return PickleRecord{kFrameRecord, snapshot_.stacks.add_frame(frame)};
}

Result<StackId> SnapshotRecords::stack_of(PickleHeap& heap, const Fields& fields) {
  if (!fields.has(kFrames)) return StackId{0};
  const PickleValue list = fields.values[kFrames];
  if (!list.is(PickleKind::list)) return wrong(fields.place(), "frames", "a list", describe(list.kind()));
  if (const auto known = heap.sealed(list)) return *known;
  frames_scratch_.clear();
  for (const PickleHandle item : heap.list(list)) {
    const PickleValue frame = heap.value(item);
    if (!frame.is(PickleKind::dict) || heap.record(frame).kind != kFrameRecord)
      return wrong(fields.place(), "frames", "dicts with name, filename and line", describe(frame.kind()));
    frames_scratch_.push_back(heap.record(frame).index);
  }
  const StackId id = snapshot_.stacks.add_stack(frames_scratch_);
  heap.seal(list, id);
  return id;
}

Result<std::uint16_t> SnapshotRecords::context_of(const PickleHeap&, const Fields& fields) {
  TraceContext context;
  if (!fields.plain(kStream, context.stream)) {
    HEADROOM_ASSIGN(context.stream, fields.integer(kStream, 0));
  }
  if (fields.has(kPoolId)) {
    HEADROOM_ASSIGN(context.pool, fields.pool(kPoolId));
  }
  if (!snapshot_.contexts.empty() && snapshot_.contexts[last_context_] == context) return last_context_;
  const auto [at, fresh] = context_ids_.try_emplace({context.stream, context.pool},
                                                    static_cast<std::uint16_t>(snapshot_.contexts.size()));
  if (fresh) {
    if (snapshot_.contexts.size() >= std::numeric_limits<std::uint16_t>::max())
      return fail(fmt::format("{}: more than 65,535 pairs of stream and pool", fields.place()));
    snapshot_.contexts.push_back(context);
  }
  return last_context_ = at->second;
}

Result<PickleRecord> SnapshotRecords::fold_block(PickleHeap& heap, Fields& fields) {
  fields.what = "block";
  fields.number = blocks_.size();
  SnapshotBlock block;
  HEADROOM_ASSIGN(block.address, fields.address(kAddress, 0));
  HEADROOM_ASSIGN(block.size, fields.size(kSize));
  HEADROOM_ASSIGN(block.requested, fields.size(kRequestedSize, block.size));
  HEADROOM_ASSIGN(const std::uint32_t state, fields.string(kState));
  const std::string_view text = heap.strings()[state];
  if (text == "active_allocated") {
    block.state = SnapshotBlockState::allocated;
  } else if (text == "active_pending_free" || text == "active_awaiting_free") {
    block.state = SnapshotBlockState::pending_free;
  } else if (text == "inactive") {
    block.state = SnapshotBlockState::inactive;
  } else {
    return wrong(fields.place(), "state", "active_allocated, active_pending_free or inactive",
                 fmt::format("`{}`", text.substr(0, 40)));
  }
  if (block.state != SnapshotBlockState::inactive && block.requested > block.size)
    return wrong(fields.place(), "requested_size", fmt::format("at most the block's {} bytes", block.size),
                 fmt::format("{}", block.requested));
  HEADROOM_ASSIGN(block.stack, stack_of(heap, fields));
  blocks_.push_back(block);
  return PickleRecord{kBlockRecord, static_cast<std::uint32_t>(blocks_.size() - 1)};
}

Result<PickleRecord> SnapshotRecords::fold_segment(PickleHeap& heap, Fields& fields) {
  fields.what = "segment";
  fields.number = segments_.size();
  SnapshotSegment segment;
  HEADROOM_ASSIGN(segment.device, fields.integer(kDevice, 0));
  HEADROOM_ASSIGN(segment.address, fields.address(kAddress));
  HEADROOM_ASSIGN(segment.size, fields.size(kTotalSize));
  HEADROOM_ASSIGN(segment.stream, fields.integer(kStream, 0));
  HEADROOM_ASSIGN(const std::uint32_t type, fields.string(kSegmentType));
  segment.small = heap.strings()[type] == "small";
  HEADROOM_ASSIGN(segment.expandable, fields.boolean(kIsExpandable));
  HEADROOM_ASSIGN(const std::optional<PoolKey> pool, fields.pool(kSegmentPoolId));
  segment.pool = pool.value_or(PoolKey{0, 0});
  HEADROOM_ASSIGN(segment.stack, stack_of(heap, fields));
  const PickleValue list = fields.values[kBlocks];
  if (!list.is(PickleKind::list)) return wrong(fields.place(), "blocks", "a list", describe(list.kind()));
  if (heap.sealed(list))
    return fail(fmt::format("{}: its list of blocks belongs to another one", fields.place()));
  HEADROOM_TRY(fill_blocks(heap, list, segment));
  heap.seal(list, 0);
  segment_blocks_ += segment.blocks.size();
  segments_.push_back(std::move(segment));
  return PickleRecord{kSegmentRecord, static_cast<std::uint32_t>(segments_.size() - 1)};
}

/// Blocks tile their segment: each begins where the one before ends. Old versions write no addresses.
Status SnapshotRecords::fill_blocks(PickleHeap& heap, PickleValue list, SnapshotSegment& segment) {
  const auto items = heap.list(list);
  segment.blocks.reserve(items.size());
  Bytes filled = 0;
  for (const PickleHandle item : items) {
    const PickleValue value = heap.value(item);
    if (!value.is(PickleKind::dict) || heap.record(value).kind != kBlockRecord)
      return wrong(fmt::format("segment {}", segments_.size()), "blocks", "dicts with size and state",
                   describe(value.kind()));
    SnapshotBlock block = blocks_[heap.record(value).index];
    const std::int64_t expected = segment.address + filled;
    if (block.address == 0) block.address = expected;
    if (block.address != expected || block.size > segment.size - filled)
      return fail(fmt::format(
          "segment {}: block {} lies at {} with {} bytes, expected at {} and inside the segment's "
          "{} bytes",
          segments_.size(), segment.blocks.size(), block.address, block.size, expected, segment.size));
    filled += block.size;
    segment.blocks.push_back(block);
  }
  if (filled != segment.size)
    return fail(fmt::format("segment {}: its blocks hold {} bytes, expected {}", segments_.size(), filled,
                            segment.size));
  return {};
}

Result<PickleRecord> SnapshotRecords::fold_annotation(PickleHeap& heap, Fields& fields) {
  fields.what = "annotation";
  fields.number = annotations_.size();
  Annotation annotation;
  HEADROOM_ASSIGN(const std::uint32_t text, fields.string(kName));
  annotation.name = heap.strings()[text];
  HEADROOM_ASSIGN(const std::uint32_t stage, fields.string(kStage));
  annotation.start = heap.strings()[stage] == "START";
  HEADROOM_ASSIGN(annotation.device, fields.integer(kDevice, 0));
  HEADROOM_ASSIGN(annotation.time_us, fields.integer(kTimeUs));
  annotations_.push_back(std::move(annotation));
  return PickleRecord{kAnnotationRecord, static_cast<std::uint32_t>(annotations_.size() - 1)};
}

std::size_t SnapshotRecords::memory() const {
  return snapshot_.events.memory() + snapshot_.stacks.memory() + blocks_.memory() +
         segment_blocks_ * sizeof(SnapshotBlock) + segments_.size() * sizeof(SnapshotSegment) +
         annotations_.size() * (sizeof(Annotation) + 16) + context_ids_.size() * 128;
}

}  // namespace headroom::replay
