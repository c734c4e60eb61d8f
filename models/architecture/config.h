#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/base/result.h"
#include "models/document/document.h"

namespace headroom {

/// The names that one value of a config goes by (`n_embd`, `hidden_size`); messages use the first.
struct Key {
  std::array<std::string_view, 4> names{};
  constexpr Key(const char* name) : names{name} {}
  constexpr Key(std::string_view a, std::string_view b, std::string_view c = {}, std::string_view d = {})
      : names{a, b, c, d} {}
};

/// A `config.json`, or a section of one, read with the family's defaults.
///
/// Errors are kept, not returned, so that a family's file reads like a table: the first one stays in
/// `status()` (shared with all sections), and every later value is its default. A key whose value is null
/// counts as absent. Two names of one key with different values are an error.
class Config {
 public:
  Config(const Document& map, std::string file);

  /// A positive size that a complete config states: an error when absent, except in a nested section
  /// (`text_config`), where Transformers leaves out what equals its default.
  std::int64_t essential(Key key, std::int64_t nested_default);
  /// A positive size.
  std::int64_t size(Key key, std::int64_t fallback);
  /// A positive size that may be switched off: 0 when the config says null, `fallback` when it says nothing.
  std::int64_t size_or_none(Key key, std::int64_t fallback);
  /// A size that may be zero.
  std::int64_t count(Key key, std::int64_t fallback);
  double number(Key key, double fallback);
  /// A number that may be switched off: 0 when the config says null.
  double number_or_none(Key key, double fallback);
  bool flag(Key key, bool fallback);
  std::string text(Key key, std::string_view fallback);
  /// A list of words; nothing when absent.
  std::optional<std::vector<std::string>> words(Key key);
  /// A list of whole numbers; nothing when absent.
  std::optional<std::vector<std::int64_t>> sizes(Key key);

  bool has(Key key) const { return find(key) != nullptr; }
  /// Present with the value null.
  bool is_null(Key key) const;
  /// The section at `name`; an empty one when absent. Must not outlive the document.
  Config section(std::string_view name) const;
  bool nested() const { return !path_.empty(); }

  /// Records an error at `key`, unless one is recorded already.
  void reject(Key key, std::string message);
  Status status() const;

 private:
  Config() = default;
  const Document* find(Key key) const;
  std::int64_t bounded(Key key, std::int64_t fallback, std::int64_t least);

  const Document* map_ = nullptr;  ///< nullptr: an absent section
  std::string file_;
  std::string path_;  ///< dotted, with its trailing dot
  std::shared_ptr<std::optional<Error>> error_;
};

}  // namespace headroom
