#pragma once

#include <string>

#include "models/base/result.h"
#include "models/document/document.h"
#include "simulator/job/job.h"

namespace headroom::jobfile {

/// Headroom's own job file, format `job/1`: YAML (or JSON) that states every field of a Job (fields.h).
/// Fields that are left out have the Job's defaults; processes, start and step are completed
/// (standard_step.h). Unknown keys are errors with the nearest known name, and so are wrong types, words and
/// bounds; each names FILE:LINE and the field. Models are found by planner/configuration/model_lookup.h;
/// `base` is the file's folder. The result satisfies validate_job.
Result<Job> read_job_file(const Document& document, const std::string& file, const std::string& base);

/// The job as such a file: reading it gives an equal Job (models are written by the name the user gave).
/// Fields at their defaults are left out.
Document write_job_file(const Job& job);

/// The JSON Schema (draft 2020-12) of the format, as text.
std::string job_schema();

}  // namespace headroom::jobfile
