#pragma once

#include <string_view>

namespace headroom::cli {

/// Whether `text` holds a character that a pattern gives a meaning: `*`, `?`, `[`.
bool is_pattern(std::string_view text);

/// Whether `path` is one that `pattern` means, as .gitignore and shells read it: `*` and `?` stop at `/`, `**`
/// does not, `[a-c]` and `[!a-c]` are sets. The whole path must match. Quadratic in the lengths at most.
bool matches(std::string_view pattern, std::string_view path);

}  // namespace headroom::cli
