#pragma once

#include <string>
#include <string_view>

namespace headroom {

/// `text` as it may be shown to people: names come from files of others, and a terminal or a page obeys what is
/// in them. Written as escapes (`\x1b`, `\n`, `\u202e`) are control characters, line ends, bytes that are no
/// UTF-8, and characters that are invisible or turn the direction of text (bidirectional marks, zero-width
/// ones, line separators). All else stays.
std::string printable(std::string_view text);

}  // namespace headroom
