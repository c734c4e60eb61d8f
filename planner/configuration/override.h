#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "models/base/result.h"
#include "models/document/document.h"

namespace headroom {

/// One command-line word of Hydra's override grammar.
struct Override {
  enum class Kind {
    set,     ///< `a.b=v`
    add,     ///< `+a.b=v`
    force,   ///< `++a.b=v`
    remove,  ///< `~a.b` or `~a.b=v`
  };
  Kind kind = Kind::set;
  std::string key;   ///< dotted, without its mark
  Document value;    ///< null for remove
  std::string file;  ///< where it was written: a path, or `--set`
  int line = 0;
};

/// Parses one override; quotes of a shell must be gone already. Errors carry `file`, `line` and the key: no
/// `=`, an empty or malformed key (letters, digits, `_ - . / @`), or a value outside the grammar of
/// value_grammar.h.
Result<Override> parse_override(std::string_view text, std::string file, int line = 0);

/// Whether `text` looks like a list of overrides rather than YAML: its first word that is no comment starts
/// with a dotted key and `=`.
bool looks_like_overrides(std::string_view text);

/// A list of overrides: one a line, `#` comments, empty lines, a trailing `\` and quotes as a shell would
/// take them. A list of more than 100,000 lines is an error.
Result<std::vector<Override>> parse_override_list(std::string_view text, const std::string& file);

/// A word of such a list before it is parsed.
struct ListedWord {
  std::string text;
  int line = 0;
};
/// The words of such a list, quotes and trailing `\` taken off.
Result<std::vector<ListedWord>> parse_word_list(std::string_view text, const std::string& file);

}  // namespace headroom
