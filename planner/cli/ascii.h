#pragma once

#include <string>
#include <string_view>

namespace headroom::cli {

/// `text` with the signs that Headroom's own sentences and tables use (dashes, arrows, bars, ×) in ASCII, for locales that
/// have nothing else. Letters of names from files stay as they are.
std::string in_ascii(std::string_view text);

}  // namespace headroom::cli
