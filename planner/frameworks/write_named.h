#pragma once

#include <span>
#include <string>

#include "models/base/result.h"
#include "planner/frameworks/read_job.h"

namespace headroom {

/// The script of a run whose launch names a configuration (named_configuration.h) with `settings` changed by words of the
/// launch; the configuration itself stays. Headroom's own keys are left out: no program reads them.
Result<std::string> write_named_script(const ReadJob& read, std::span<const Setting> settings, const WriteHeader& header);
/// `settings` as such words.
Result<std::string> write_named_overrides(const ReadJob& read, std::span<const Setting> settings, const WriteHeader& header);

/// The same for programs that take a new key with `++` alone (Hydra's, of a structure that is closed).
Result<std::string> write_hydra_script(const ReadJob& read, std::span<const Setting> settings, const WriteHeader& header);
Result<std::string> write_hydra_overrides(const ReadJob& read, std::span<const Setting> settings, const WriteHeader& header);

}  // namespace headroom
