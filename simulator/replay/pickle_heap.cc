#include "simulator/replay/pickle_heap.h"

#include <algorithm>
#include <functional>

namespace headroom::replay {

std::string_view describe(PickleKind kind) {
  switch (kind) {
    case PickleKind::none:
      return "None";
    case PickleKind::boolean:
      return "a boolean";
    case PickleKind::integer:
    case PickleKind::wide_integer:
      return "an integer";
    case PickleKind::real:
      return "a float";
    case PickleKind::string:
      return "a string";
    case PickleKind::list:
      return "a list";
    case PickleKind::tuple:
      return "a tuple";
    case PickleKind::dict:
      return "a dict";
  }
  return "a value";
}

std::uint32_t StringTable::intern(std::string_view text) {
  if (texts_.size() * 2 >= slots_.size()) grow();
  const std::uint64_t hash = std::hash<std::string_view>{}(text);
  const std::size_t mask = slots_.size() - 1;
  std::size_t i = hash & mask;
  for (; slots_[i] != 0; i = (i + 1) & mask) {
    const std::uint32_t id = slots_[i] - 1;
    if (hashes_[id] == hash && texts_[id] == text) return id;
  }
  const auto id = static_cast<std::uint32_t>(texts_.size());
  slots_[i] = id + 1;
  texts_.push_back(arena_.emplace_back(text));
  hashes_.push_back(hash);
  memory_ += text.size() + sizeof(std::string) + sizeof(std::string_view) + sizeof(std::uint64_t);
  return id;
}

void StringTable::grow() {
  std::vector<std::uint32_t> slots(slots_.empty() ? 256 : slots_.size() * 2);
  const std::size_t mask = slots.size() - 1;
  for (std::uint32_t id = 0; id < texts_.size(); ++id) {
    std::size_t i = hashes_[id] & mask;
    while (slots[i] != 0) i = (i + 1) & mask;
    slots[i] = id + 1;
  }
  slots_ = std::move(slots);
}

PickleValue PickleHeap::make_real(double value) {
  reals_.push_back(value);
  return {PickleKind::real, static_cast<std::int64_t>(reals_.size() - 1)};
}

PickleValue PickleHeap::make_tuple(std::span<const PickleValue> items) {
  // Newer traces carry a pool id with every entry: mostly the one before.
  if (!tuples_.empty()) {
    const auto [first, count] = tuples_.back();
    if (count == items.size() && std::equal(items.begin(), items.end(), tuple_items_.begin() + first))
      return {PickleKind::tuple, static_cast<std::int64_t>(tuples_.size() - 1)};
  }
  tuples_.emplace_back(static_cast<std::uint32_t>(tuple_items_.size()),
                       static_cast<std::uint32_t>(items.size()));
  tuple_items_.insert(tuple_items_.end(), items.begin(), items.end());
  return {PickleKind::tuple, static_cast<std::int64_t>(tuples_.size() - 1)};
}

std::optional<double> PickleHeap::real(PickleValue value) const {
  if (value.is(PickleKind::real)) return reals_[value.index()];
  if (const auto number = integer(value)) return static_cast<double>(*number);
  return std::nullopt;
}

std::optional<std::string_view> PickleHeap::string(PickleValue value) const {
  if (!value.is(PickleKind::string)) return std::nullopt;
  return strings_[value.index()];
}

std::span<const PickleValue> PickleHeap::tuple(PickleValue value) const {
  const auto [first, count] = tuples_[value.index()];
  return std::span(tuple_items_).subspan(first, count);
}

std::uint32_t PickleHeap::open_list() {
  if (unused_lists_.empty()) {
    open_lists_.emplace_back();
    return static_cast<std::uint32_t>(open_lists_.size() - 1);
  }
  const std::uint32_t list = unused_lists_.back();
  unused_lists_.pop_back();
  return list;
}

bool PickleHeap::append(PickleValue list, std::span<const PickleValue> items) {
  const std::uint32_t state = lists_[list.index()];
  if ((state & kSealed) != 0) return false;
  std::vector<PickleHandle>& target = open_lists_[state];
  list_memory_ -= target.capacity() * sizeof(PickleHandle);
  if (target.capacity() == 0) target.reserve(items.size());
  for (const PickleValue& item : items) target.push_back(handle(item));
  list_memory_ += target.capacity() * sizeof(PickleHandle);
  return true;
}

void PickleHeap::seal(PickleValue list, std::uint32_t number) {
  constexpr std::size_t kKept = 64;  // Items; the memory of longer lists goes back.
  const std::uint32_t state = lists_[list.index()];
  std::vector<PickleHandle>& items = open_lists_[state];
  items.clear();
  if (items.capacity() > kKept) {
    list_memory_ -= items.capacity() * sizeof(PickleHandle);
    std::vector<PickleHandle>().swap(items);
  }
  unused_lists_.push_back(state);
  lists_[list.index()] = number | kSealed;
}

void PickleHeap::add_pairs(PickleValue dict, std::span<const PickleValue> keys_and_values) {
  if (untouched(dict)) {
    set_record(dict, {0, static_cast<std::uint32_t>(maps_.size())});
    maps_.emplace_back();
  }
  std::vector<Pair>& map = maps_[record(dict).index];
  map_memory_ -= map.capacity() * sizeof(Pair);
  for (std::size_t i = 0; i + 1 < keys_and_values.size(); i += 2)
    map.emplace_back(keys_and_values[i], keys_and_values[i + 1]);
  map_memory_ += map.capacity() * sizeof(Pair);
}

std::span<const PickleHeap::Pair> PickleHeap::pairs(PickleValue dict) const {
  if (untouched(dict) || record(dict).kind != 0) return {};
  return maps_[record(dict).index];
}

std::size_t PickleHeap::memory() const {
  return strings_.memory() + lists_.memory() + open_lists_.size() * sizeof(std::vector<PickleHandle>) +
         list_memory_ + dicts_.memory() + map_memory_ + maps_.size() * sizeof(std::vector<Pair>) +
         (wide_.capacity() + reals_.capacity() + others_.capacity()) * 8 +
         tuple_items_.capacity() * sizeof(PickleValue) + tuples_.capacity() * 8;
}

}  // namespace headroom::replay
