#pragma once

#include <span>
#include <string>
#include <string_view>

#include "models/base/result.h"
#include "planner/frameworks/read_job.h"

namespace headroom {

/// The files of a run as one YAML text with `settings` changed, headed by a comment block.
///
/// One YAML file is patched in place (yaml_patch.h): comments, order and unknown keys stay. Several files,
/// and lists of overrides, are laid over each other first. Overrides of the command line (`read.overrides`)
/// become part of the text, so that it stands alone. An earlier header of Headroom's is replaced.
Result<std::string> write_back(const ReadJob& read, std::span<const Setting> settings,
                               const WriteHeader& header);

/// The comment block that heads what is written, an empty line at its end. Empty without lines.
std::string header_text(const WriteHeader& header);
/// `text` without such a block at its start.
std::string_view without_header(std::string_view text);

}  // namespace headroom
