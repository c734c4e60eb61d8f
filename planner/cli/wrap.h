#pragma once

#include <string>
#include <string_view>

namespace headroom::cli {

/// `text` with no line longer than `width` characters, as far as its words allow: longer ones go on in the next line,
/// set in under what they belong to. A line that is a label, two spaces or more, and a text goes on under the text; any
/// other four to the right of where it began. Words are never cut (they are paths, keys and commands to copy). Colour
/// takes no room.
std::string wrapped(std::string_view text, std::size_t width);

}  // namespace headroom::cli
