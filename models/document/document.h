#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "models/base/result.h"

namespace headroom {

/// A YAML or JSON file as a tree that remembers its lines, so that every message can name FILE:LINE.
///
/// Values are plain: a scalar keeps its text and whether it was quoted; conversion happens on access.
/// Aliases are expanded; the reader bounds depth, node count and bytes, so hostile files end in an error.
class Document {
 public:
  enum class Kind { null, scalar, list, map };

  Document() = default;

  Kind kind() const { return kind_; }
  bool is_null() const { return kind_ == Kind::null; }
  bool is_scalar() const { return kind_ == Kind::scalar; }
  bool is_list() const { return kind_ == Kind::list; }
  bool is_map() const { return kind_ == Kind::map; }

  int line() const { return line_; }                 ///< from 1; 0 when made in memory
  const std::string& text() const { return text_; }  ///< of a scalar
  bool quoted() const { return quoted_; }            ///< scalar was written in quotes: never a number or null

  const std::vector<Document>& items() const { return items_; }  ///< of a list
  const std::vector<std::pair<std::string, Document>>& entries() const {
    return entries_;
  }  ///< of a map, in file order

  /// The value at `key` of a map; nullptr when absent or not a map. Does not split dots.
  const Document* find(std::string_view key) const;
  Document* find(std::string_view key);
  /// The value at a dotted path (`a.b.c`).
  const Document* find_path(std::string_view dotted) const;

  /// The scalar read as a type; nothing when it is not of that form. Numbers accept `1e-6`, `1_000`; booleans
  /// the YAML 1.1 words true/false/yes/no/on/off in any case.
  std::optional<std::int64_t> as_int() const;
  std::optional<double> as_double() const;
  std::optional<bool> as_bool() const;

  // Building and editing (readers, `--set`, writers).
  static Document null(int line = 0);
  static Document scalar(std::string text, int line = 0, bool quoted = false);
  static Document list(int line = 0);
  static Document map(int line = 0);
  void append(Document item) { items_.push_back(std::move(item)); }
  /// Sets `key` of a map, replacing an earlier value in place.
  Document& set(std::string_view key, Document value);
  /// Adds an entry to a map that is known to hold no `key` yet: constant time, where `set` looks for it.
  void add_entry(std::string key, Document value) { entries_.emplace_back(std::move(key), std::move(value)); }
  /// Sets a dotted path, making maps on the way; false when a non-map stands in the way.
  bool set_path(std::string_view dotted, Document value);
  /// Removes `key`; false when absent.
  bool erase(std::string_view key);

 private:
  Kind kind_ = Kind::null;
  int line_ = 0;
  bool quoted_ = false;
  std::string text_;
  std::vector<Document> items_;
  std::vector<std::pair<std::string, Document>> entries_;
};

/// Bounds that keep hostile input cheap.
struct ReadLimits {
  std::int64_t bytes = 16 << 20;
  std::int64_t nodes = 300'000;  ///< after alias expansion
  int depth = 200;
};

/// Reads one YAML document (JSON is YAML) from text; `file` is used in messages only. A key given twice in
/// one map is an error, as it is to OmegaConf; `<<` brings the entries of a map, or of a list of maps.
Result<Document> parse_document(std::string_view text, const std::string& file,
                                const ReadLimits& limits = {});

/// The bytes of a file: missing, unreadable, a directory, or larger than `most` bytes is an error naming it.
Result<std::string> read_text(const std::string& path, std::int64_t most = ReadLimits{}.bytes);

/// Reads a file: missing, unreadable, a directory, empty, binary or malformed input is an error naming it.
Result<Document> read_document(const std::string& path, const ReadLimits& limits = {});

/// The document as YAML text (block style, two spaces); strings that would read as another type are quoted.
std::string write_yaml(const Document& document);

}  // namespace headroom
