#pragma once

#include <string_view>

namespace headroom {

/// A text file of the source tree that was compiled into the binary (headroom_embed in cmake/Embed.cmake).
struct EmbeddedFile {
  std::string_view path;  ///< relative to the source tree, for messages
  std::string_view text;
};

}  // namespace headroom
