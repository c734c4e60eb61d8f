#pragma once

#include <string>

#include "models/base/bytes.h"
#include "models/base/result.h"

namespace headroom::replay {

/// A whole file, decompressed when it is gzip (known by its first bytes, not its name). A missing or
/// unreadable file, a damaged or truncated archive, and a content beyond `limit` bytes are errors that name
/// the file.
Result<std::string> read_text_file(const std::string& path, Bytes limit = 512 * kMiB);

}  // namespace headroom::replay
