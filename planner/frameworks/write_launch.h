#pragma once

#include <functional>
#include <span>
#include <string>

#include "models/base/result.h"
#include "planner/frameworks/read_job.h"

namespace headroom {

/// How a framework spells `key=value` as a word of its launch: `+key=value` where its schema lacks the key.
using Spelling = std::function<std::string(const Setting& setting)>;

/// The script (or command) of a run with `settings` changed: words that set those keys are replaced where
/// they stand, others are put behind the last word of the command; all else, comments too, stays. Words from
/// the command line (`read.overrides`) become part of it. Where a word does not stand in the script (`"$@"`),
/// the new one behind the last word wins. Errors: a run that no script launches.
Result<std::string> write_script(const ReadJob& read, std::span<const Setting> settings,
                                 const WriteHeader& header, const Spelling& spelling);

/// `settings` as words of a launch, one a line, quoted for a shell: a list of overrides that CONFIG may be.
std::string write_overrides(std::span<const Setting> settings, const WriteHeader& header,
                            const Spelling& spelling);

/// `word` as a shell takes it for one word, unquoted where it needs no quotes.
std::string shell_quoted(std::string_view word);

}  // namespace headroom
