#pragma once

#include "simulator/job/job.h"

namespace headroom {

/// Gives `job` the plain order of its algorithm where it states none, from the roles and engines it has:
///
///   start  every role is built, trained ones with an optimizer; engines start; weights are sent once
///   step   generate, reward, actor and reference log-probs, critic values, critic and actor updates, sync
///
/// without offloading or sleeping, whatever the roles are called that are not actor, ref, critic or reward
/// being trained (when trained) in the order given. A job whose `start` or `step` is not empty keeps it.
void complete_step(Job& job);

/// Whether what `engine` generates is the trainer's own program: Transformers' generate and DeepSpeed's
/// hybrid engine.
bool inside_trainer(const Engine& engine);

/// Gives `job` processes where it names none: `trainer` with every role, and one process an engine that needs
/// one.
void complete_processes(Job& job);

}  // namespace headroom
