#pragma once

#include "planner/frameworks/read_job.h"

namespace headroom::openrlhf {

/// A run of one of OpenRLHF's own actors or trainers that was recorded phase by phase
/// (`validator/pytorch/openrlhf_actors.py`): `case.program` is the program's name (train_ppo_ray …), `case.words` the
/// words of its command, `case.model` the values of its models' config.json; `device`, `torch`, `transformers` and
/// `deepspeed` say on what it ran. `case.process` names the process that was recorded (`headroom compare` reads it).
bool is_recording(const Document& document);
bool has_recording(const JobInput& input);

/// The same input with the command that was recorded in the recording's place.
JobInput without_recordings(const JobInput& input);

/// The model that the first recording states; null: there is none.
Document recorded_model(const JobInput& input);

/// Releases that the recording ran on, where `versions` does not say.
void complete_recorded_versions(const JobInput& input, Versions& versions);

/// The recorded card; empty: none.
std::string recorded_device(const JobInput& input);

}  // namespace headroom::openrlhf
