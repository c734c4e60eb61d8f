#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/base/result.h"
#include "models/document/document.h"
#include "planner/configuration/override.h"

namespace headroom {

/// Lays `over` over `base`: maps merge, anything else replaces.
void lay_over(Document& base, const Document& over);

/// A configuration as a stack of trees: defaults, then files, then overrides, each laid over what is below
/// it. Maps merge; anything else replaces. Nothing is copied together: a key is looked up from the top, so
/// that every value remembers the file and line that gave it, and what a defaults table does not know stays
/// as it was written.
///
/// References (`${…}`) are resolved when a key is asked for, after all layers are in place.
class Layers {
 public:
  /// Lays the framework's default values below everything else; replaces earlier defaults.
  void set_defaults(Document defaults) { defaults_.root = std::move(defaults); }
  /// Lays a file over what is there.
  void add_file(std::string file, Document document);
  /// Lays one override over what is there. Errors: a key that runs through a value that is no map.
  Status apply(const Override& change);
  /// Says of a key just applied that nobody knows its value before the run, and what would tell. A later
  /// value takes it back.
  void leave_open(const std::string& key, std::string what) { open_[key] = std::move(what); }
  /// The value of `key` comes from elsewhere after all.
  void close(const std::string& key) { open_.erase(key); }
  /// What would tell the value of `key`; null when it is known.
  const std::string* open(std::string_view key) const {
    const auto found = open_.find(key);
    return found == open_.end() ? nullptr : &found->second;
  }
  /// Variables for `${oc.env:…}`; those of this process are asked after.
  void set_environment(std::map<std::string, std::string> variables) { environment_ = std::move(variables); }

  /// A framework's own resolvers in references (see InterpolationScope::resolver).
  using OwnResolver =
      std::function<Result<std::optional<Document>>(std::string_view name, const std::vector<Document>&)>;
  void set_resolver(OwnResolver resolver) { resolver_ = std::move(resolver); }

  /// A value and where it comes from.
  struct Value {
    Document value;
    std::string file;
    int line = 0;
    bool given = false;  ///< by a file or an override, not by the defaults
  };
  /// The resolved value at a dotted key; nothing when no layer has it or an override removed it. A map comes
  /// merged from all layers. Errors carry the place: a reference to nothing, a cycle, a bad resolver.
  Result<std::optional<Value>> get(std::string_view key) const;

  /// Whether a file or an override holds `key` (null counts, a map counts).
  bool given(std::string_view key) const;

  /// Where `key` was given: its file and line; of the nearest map above it when it was not.
  void locate(std::string_view key, std::string& file, int& line) const;

  /// Every leaf that files and overrides give, unresolved, topmost wins: lists count as leaves, empty maps
  /// too. At most `most` (the rest is left out).
  struct Leaf {
    std::string key;
    const Document* value = nullptr;
    const std::string* file = nullptr;
  };
  std::vector<Leaf> given_leaves(std::size_t most = 50'000) const;

 private:
  struct Layer {
    std::string file;
    Document root = Document::map();
    std::vector<std::string> removed;
  };
  struct Raw {
    const Document* value = nullptr;
    const Layer* layer = nullptr;
    std::string redirected;  ///< the key continues below a reference: look here instead
  };
  class Resolver;

  std::optional<Raw> find(std::string_view key) const;
  Document merged(std::string_view key) const;

  Layer defaults_;
  std::vector<Layer> layers_;  ///< bottom first
  std::string last_file_;  ///< of those added
  std::map<std::string, std::string> environment_;
  OwnResolver resolver_;
  std::map<std::string, std::string, std::less<>> open_;
};

}  // namespace headroom
