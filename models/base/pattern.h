#pragma once

#include <string_view>

namespace headroom {

/// What a pattern is held against: a text, as a shell's `case` does, or a path, as .gitignore and shells do,
/// where
/// `*`, `?` and sets stop at `/`, `**` does not, and `**/` may stand for nothing.
enum class PatternOf { text, path };

/// Whether `text` holds a character that a pattern gives a meaning: `*`, `?`, `[`.
bool is_pattern(std::string_view text);

/// Whether the whole of `text` matches: `*`, `?`, `[a-c]`, `[!a-c]`, `\x`. An unclosed `[` is a plain one.
/// Time is at most the product of the lengths.
bool matches(std::string_view pattern, std::string_view text, PatternOf of);

}  // namespace headroom
