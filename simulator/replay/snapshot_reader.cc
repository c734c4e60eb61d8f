#include "simulator/replay/snapshot_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "simulator/replay/snapshot_records.h"

namespace headroom::replay {
namespace {

/// Assembles the snapshot from the pickle's root once everything is read.
class Assembly {
 public:
  Assembly(PickleHeap& heap, SnapshotRecords& records, Snapshot& snapshot)
      : heap_(heap), records_(records), snapshot_(snapshot) {}

  Status root(PickleValue value) {
    if (!value.is(PickleKind::dict) || heap_.record(value).kind != kNoRecord)
      return wrong("the pickle", "a dict", value);
    bool segments = false, traces = false;
    for (const auto& [key, item] : heap_.pairs(value)) {
      const std::string_view name = heap_.string(key).value_or("");
      if (name == "segments") {
        segments = true;
        HEADROOM_TRY(read_segments(item));
      } else if (name == "device_traces") {
        traces = true;
        HEADROOM_TRY(read_traces(item));
      } else if (name == "allocator_settings") {
        HEADROOM_TRY(read_settings(item));
      } else if (name == "external_annotations") {
        HEADROOM_TRY(read_annotations(item));
      }
    }
    if (!segments && !traces)
      return fail("the pickle has neither `segments` nor `device_traces`: it is no memory snapshot");
    return {};
  }

 private:
  tl::unexpected<Error> wrong(std::string_view what, std::string_view expected, PickleValue found) const {
    return fail(fmt::format("{}: expected {}, found {}", what, expected, describe(found.kind())));
  }

  Result<std::span<const PickleHandle>> list(PickleValue value, std::string_view what) const {
    if (!value.is(PickleKind::list) || heap_.sealed(value)) return wrong(what, "a list", value);
    return heap_.list(value);
  }

  /// The record behind a list's item. Dicts that were filled item by item become records now.
  Result<std::uint32_t> record(PickleHandle handle, SnapshotRecordKind kind, std::string_view what,
                               std::string_view expected) {
    const PickleValue value = heap_.value(handle);
    if (!value.is(PickleKind::dict)) return wrong(what, expected, value);
    PickleRecord found = heap_.record(value);
    if (found.kind == kNoRecord) {
      std::vector<PickleValue> items;
      for (const auto& [k, v] : heap_.pairs(value)) {
        items.push_back(k);
        items.push_back(v);
      }
      HEADROOM_ASSIGN(found, records_.fold(heap_, items));
      if (found.kind != kNoRecord) heap_.set_record(value, found);
    }
    if (found.kind != kind) return fail(fmt::format("{}: expected {}, found another dict", what, expected));
    return found.index;
  }

  Status read_segments(PickleValue value) {
    HEADROOM_ASSIGN(const auto items, list(value, "segments"));
    snapshot_.segments.clear();
    std::vector<bool> used;
    for (const PickleHandle item : items) {
      HEADROOM_ASSIGN(const std::uint32_t index, record(item, kSegmentRecord, "segments", "segments"));
      used.resize(std::max<std::size_t>(used.size(), index + 1));
      if (used[index]) return fail(fmt::format("segments: segment {} is listed twice", index));
      used[index] = true;
      snapshot_.segments.push_back(std::move(records_.segment(index)));
    }
    return {};
  }

  Status read_traces(PickleValue value) {
    HEADROOM_ASSIGN(const auto devices, list(value, "device_traces"));
    snapshot_.traces.clear();
    std::size_t next = 0;
    for (const PickleHandle device : devices) {
      HEADROOM_ASSIGN(const auto items, list(heap_.value(device), "device_traces"));
      const std::size_t first = next;
      for (const PickleHandle item : items) {
        HEADROOM_ASSIGN(const std::uint32_t index,
                        record(item, kEventRecord, "device_traces", "trace entries"));
        if (index != next)
          return fail(fmt::format("device_traces: trace entry {} is listed out of order", index));
        ++next;
      }
      snapshot_.traces.emplace_back(first, next - first);
    }
    return {};
  }

  Status read_annotations(PickleValue value) {
    HEADROOM_ASSIGN(const auto items, list(value, "external_annotations"));
    snapshot_.annotations.clear();
    for (const PickleHandle item : items) {
      HEADROOM_ASSIGN(const std::uint32_t index,
                      record(item, kAnnotationRecord, "external_annotations", "annotations"));
      snapshot_.annotations.push_back(records_.annotation(index));
    }
    return {};
  }

  Status read_settings(PickleValue value) {
    if (!value.is(PickleKind::dict) || heap_.record(value).kind != kNoRecord)
      return wrong("allocator_settings", "a dict", value);
    SnapshotSettings& settings = snapshot_.settings;
    for (const auto& [key, item] : heap_.pairs(value)) {
      const std::string_view name = heap_.string(key).value_or("");
      const auto integer = heap_.integer(item);
      if (name == "PYTORCH_CUDA_ALLOC_CONF") {
        if (!item.is(PickleKind::string))
          return wrong("allocator_settings: PYTORCH_CUDA_ALLOC_CONF", "a string", item);
        settings.conf = *heap_.string(item);
      } else if (name == "max_split_size") {
        if (!integer) return wrong("allocator_settings: max_split_size", "an integer", item);
        if (*integer >= 0) settings.max_split_size = *integer;
      } else if (name == "garbage_collection_threshold") {
        const auto real = heap_.real(item);
        if (!real) return wrong("allocator_settings: garbage_collection_threshold", "a number", item);
        settings.garbage_collection_threshold = *real;
      } else if (name == "expandable_segments") {
        if (!item.is(PickleKind::boolean))
          return wrong("allocator_settings: expandable_segments", "a boolean", item);
        settings.expandable_segments = item.number() != 0;
      } else if (name == "roundup_power2_divisions") {
        HEADROOM_TRY(read_divisions(item));
      }
    }
    return {};
  }

  /// Keys are an interval's start in MiB, `"1"` to `"32768"`.
  Status read_divisions(PickleValue value) {
    constexpr std::string_view kWhat = "allocator_settings: roundup_power2_divisions";
    if (!value.is(PickleKind::dict)) return wrong(kWhat, "a dict", value);
    for (const auto& [key, item] : heap_.pairs(value)) {
      const auto divisions = heap_.integer(item);
      if (!divisions) return wrong(kWhat, "an integer", item);
      for (std::size_t i = 0; i < 16; ++i)
        if (heap_.string(key) == fmt::format("{}", 1 << i))
          snapshot_.settings.roundup_power2_divisions[i] = static_cast<int>(*divisions);
    }
    return {};
  }

  PickleHeap& heap_;
  SnapshotRecords& records_;
  Snapshot& snapshot_;
};

}  // namespace

Result<Snapshot> read_snapshot(ByteSource& source, const PickleLimits& limits,
                               std::function<void(double)> progress) {
  Snapshot snapshot;
  PickleHeap heap;
  SnapshotRecords records(heap, snapshot);
  PickleReader reader(source, heap, &records, limits);
  if (progress) reader.on_progress(std::move(progress));
  HEADROOM_ASSIGN(const PickleValue root, reader.read());
  if (const Status status = Assembly(heap, records, snapshot).root(root); !status) {
    Error error = status.error();
    error.file = source.name();
    return fail(std::move(error));
  }
  snapshot.strings = std::move(heap.strings());
  return snapshot;
}

Result<Snapshot> read_snapshot(const std::string& path) {
  HEADROOM_ASSIGN(ByteSource source, ByteSource::open(path));
  return read_snapshot(source);
}

}  // namespace headroom::replay
