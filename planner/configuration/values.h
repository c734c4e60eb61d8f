#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/base/dtype.h"
#include "models/base/result.h"
#include "planner/configuration/layers.h"
#include "planner/frameworks/read_job.h"

namespace headroom {

/// Typed reading of a configuration, one call a key.
///
/// The first thing that is wrong is kept with its FILE:LINE and key, and every later call returns a harmless
/// value: readers stay free of error handling and ask `status()` once at the end. Each key asked for is noted
/// as used.
class Values {
 public:
  /// How numbers and booleans may be written. Lenient, as OmegaConf and environment variables are read:
  /// quotes do not matter, 4.0 and 1e9 are whole numbers. Strict, as a Python program that reads JSON takes
  /// them: "8" is text and 2.0 no count of anything.
  enum class Grammar { lenient, strict };

  explicit Values(const Layers& layers, Grammar grammar = Grammar::lenient)
      : layers_(layers), grammar_(grammar) {}

  // Each returns the key's value. A key that no layer has, or that is null, gives `fallback`.
  std::int64_t integer(std::string_view key, std::int64_t least, std::int64_t most,
                       std::int64_t fallback = 0);
  double number(std::string_view key, double least, double most, double fallback = 0);
  bool flag(std::string_view key, bool fallback = false);
  std::string text(std::string_view key, std::string fallback = "");
  DType dtype(std::string_view key, DType fallback);
  std::vector<std::string> texts(std::string_view key);  ///< a list, or one word alone
  bool listed(std::string_view key);                     ///< whether it is a list
  std::vector<std::int64_t> integers(std::string_view key, std::int64_t least);
  Document tree(std::string_view key);  ///< a map as it is; an empty one when absent

  // Nothing when absent or null.
  std::optional<std::int64_t> optional_integer(std::string_view key, std::int64_t least, std::int64_t most);
  std::optional<double> optional_number(std::string_view key, double least, double most);
  std::optional<std::string> optional_text(std::string_view key);

  /// One of `words`; anything else is an error that lists them.
  std::string word(std::string_view key, std::initializer_list<std::string_view> words,
                   std::string_view fallback);

  bool given(std::string_view key) const { return layers_.given(key); }
  const Layers& layers() const { return layers_; }

  /// Keeps `message` as the error, unless there is one already; placed at `key`.
  void fail_at(std::string_view key, std::string message);
  /// Keeps a foreign error (of a model file, say); its place is `key`'s when it has none.
  void fail_with(Error error, std::string_view key);
  void warn_at(std::string_view key, std::string message);
  /// A key that other values make meaningless: a warning that says why.
  void without_effect(std::string_view key, std::string_view why);

  Status status() const;
  bool failed() const { return error_.has_value(); }
  std::vector<Notice> take_warnings() { return std::move(warnings_); }
  /// Every key asked for, with its resolved value, in the order of the alphabet.
  const std::map<std::string, Layers::Value, std::less<>>& used() const { return used_; }
  /// Whether `without_effect` was said of `key`.
  bool has_effect(std::string_view key) const { return ineffective_.find(key) == ineffective_.end(); }

 private:
  const Document* get(std::string_view key);
  void mismatch(std::string_view key, const Document& found, std::string expected);
  Document plain(const Document& value) const;

  const Layers& layers_;
  Grammar grammar_;
  std::set<std::string, std::less<>> ineffective_;
  std::map<std::string, Layers::Value, std::less<>> used_;
  std::optional<Error> error_;
  std::vector<Notice> warnings_;
};

}  // namespace headroom
