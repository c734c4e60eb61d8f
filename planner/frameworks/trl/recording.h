#pragma once

#include <optional>

#include "planner/frameworks/read_job.h"

namespace headroom::trl {

/// A run of one of TRL's own trainers that was recorded phase by phase (`validator/pytorch/trl_trainers.py`):
/// `case.trainer` is its name, `case.words` the words of its command, `case.model` the values of its model's
/// config.json; `device`, `versions` and `alloc_conf` say on what it ran. What such a run always has (one GPU,
/// no checkpoints, examples of `case.prompt` plus `case.response` tokens) is no word of it.
bool is_recording(const Document& document);

/// The same run as a trainer's YAML: key by key, the model in `headroom.model_config`. Errors: a word that is
/// no flag with a value, with its line.
Result<Document> trainer_file(const JobInput::File& recording);

/// Optimizer steps that the recorded run made, by its words; none: they don't say.
std::optional<int> recorded_steps(const JobInput& input);

/// Whether any of the files is a recording, and those files with trainers' YAML in its place.
bool has_recording(const JobInput& input);
Result<JobInput> without_recordings(const JobInput& input);

}  // namespace headroom::trl
