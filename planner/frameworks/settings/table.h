#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "models/base/dtype.h"
#include "planner/configuration/values.h"
#include "planner/frameworks/settings/release.h"

namespace headroom::settings {

/// A framework's keys as one table: each row says what a key is called, which field of the settings it fills,
/// what it is when it is not given, in which releases, within which bounds, and what it does to memory.
/// Reading, defaults, `explain --keys`, warnings and what knobs write all come from the rows.

enum class Effect {
  modelled,    ///< decides memory or time, and is read
  unmodelled,  ///< decides memory, and no program models it: named where it differs from its default
  none,        ///< decides neither
};

/// Where a value goes.
template <typename S>
using Member =
    std::variant<std::monostate, bool& (*)(S&), std::int64_t& (*)(S&), std::optional<std::int64_t>& (*)(S&),
                 double& (*)(S&), std::string& (*)(S&), DType& (*)(S&), std::vector<std::string>& (*)(S&)>;

/// One key of one section. A row without a member whose key names a map covers what stands below it.
template <typename S>
struct Row {
  std::string_view key;  ///< below the section; dotted
  Member<S> member = std::monostate{};
  std::string_view fallback = "null";  ///< in the grammar of value_grammar.h; references allowed
  Effect effect = Effect::modelled;
  std::string_view note = {};  ///< what is missing, or why there is no effect
  std::int64_t least = 0, most = std::int64_t{1} << 30;
  Release since = kFirst, until = kNever;
};

enum class Kind { any, boolean, integer, number, text, list, map };

/// A row with its whole key and without its settings: what everything but reading needs.
struct Key {
  std::string path;
  Kind kind = Kind::any;
  std::string_view fallback, note;
  Effect effect = Effect::none;
  Release since, until;
};

template <typename S>
Kind kind_of(const Row<S>& row) {
  constexpr Kind kKinds[] = {Kind::any,    Kind::boolean, Kind::integer, Kind::integer,
                             Kind::number, Kind::text,    Kind::text,    Kind::list};
  return kKinds[row.member.index()];
}

/// Appends the rows of a section to `keys`. `active`: the section's keys count in this run; else none of them
/// has an effect, for the reason `why`.
template <typename S>
void append_keys(std::vector<Key>& keys, std::string_view section, std::span<const Row<S>> rows,
                 bool active = true, std::string_view why = {}) {
  for (const Row<S>& row : rows) {
    std::string path = std::string(section) + std::string(row.key);
    if (path.ends_with('.')) path.pop_back();  // a row without a key is the whole section
    keys.push_back({.path = std::move(path),
                    .kind = kind_of(row),
                    .fallback = row.fallback,
                    .note = active ? row.note : why,
                    .effect = active ? row.effect : Effect::none,
                    .since = row.since,
                    .until = row.until});
  }
}

/// Appends keys that change nothing of what is predicted, of data, logging and files, but those that `keys` has.
void append_without_effect(std::vector<Key>& keys, std::span<const std::string_view> names);

/// Reads the section's keys of `release` into `into`. What is wrong ends up as the error of `values`.
template <typename S>
void read_section(Values& values, std::string_view section, std::span<const Row<S>> rows,
                  const Release& release, S& into) {
  constexpr double kAny = 1e300;
  for (const Row<S>& row : rows) {
    if (release < row.since || release >= row.until || row.effect == Effect::none) continue;
    const std::string key = std::string(section) + std::string(row.key);
    std::visit(
        [&](auto get) {
          using Get = decltype(get);
          if constexpr (!std::is_same_v<Get, std::monostate>) {
            auto& field = get(into);
            using Field = std::remove_reference_t<decltype(field)>;
            if constexpr (std::is_same_v<Field, bool>) field = values.flag(key, field);
            if constexpr (std::is_same_v<Field, std::int64_t>)
              field = values.integer(key, row.least, row.most, field);
            if constexpr (std::is_same_v<Field, std::optional<std::int64_t>>)
              field = values.optional_integer(key, row.least, row.most);
            if constexpr (std::is_same_v<Field, double>) field = values.number(key, -kAny, kAny, field);
            if constexpr (std::is_same_v<Field, std::string>) field = values.text(key, field);
            if constexpr (std::is_same_v<Field, DType>) field = values.dtype(key, field);
            if constexpr (std::is_same_v<Field, std::vector<std::string>>) field = values.texts(key);
          }
        },
        row.member);
  }
}

/// A field's value as a knob shows it.
std::string shown(bool value);
std::string shown(std::int64_t value);
std::string shown(const std::optional<std::int64_t>& value);
std::string shown(double value);
std::string shown(const std::string& value);
std::string shown(DType value);
std::string shown(const std::vector<std::string>& value);

/// Sets a field from a value's text, as reading it would; false: it is no such value.
bool assign_field(bool& field, const std::string& value);
bool assign_field(std::int64_t& field, const std::string& value);
bool assign_field(std::optional<std::int64_t>& field, const std::string& value);
bool assign_field(double& field, const std::string& value);
bool assign_field(std::string& field, const std::string& value);
bool assign_field(DType& field, const std::string& value);
bool assign_field(std::vector<std::string>& field, const std::string& value);

/// Sets the field of `key` (below the section) from a value's text; false: no such row, or no such value.
template <typename S>
bool assign(S& into, std::span<const Row<S>> rows, std::string_view key, const std::string& value) {
  for (const Row<S>& row : rows) {
    if (row.key != key) continue;
    const bool set = std::visit(
        [&](auto get) {
          if constexpr (std::is_same_v<decltype(get), std::monostate>)
            return false;
          else
            return assign_field(get(into), value);
        },
        row.member);
    if (set) return true;
  }
  return false;
}

/// The tree of default values of `release`, references unresolved. Rows of maps give nothing.
Document defaults(std::span<const Key> keys, const Release& release);

/// The row of `path` in `release`, or the nearest one when that release has none; null for an unknown path. A
/// row above `path` counts, the longest one first.
const Key* find_key(std::span<const Key> keys, std::string_view path, const Release& release);

}  // namespace headroom::settings
