#pragma once

#include <string_view>

namespace headroom::shell {

/// Whether the whole of `text` matches a shell pattern: `*`, `?`, `[a-z]`, `\x`. Time is at most the product
/// of the lengths.
bool matches_pattern(std::string_view text, std::string_view pattern);

}  // namespace headroom::shell
