#pragma once

#include <map>
#include <optional>
#include <string>

#include "models/base/bytes.h"
#include "models/base/result.h"
#include "simulator/hardware/hardware.h"
#include "simulator/job/job.h"

namespace headroom::cli {

/// What became of steps whose sequences were drawn one by one.
struct DrawnSteps {
  int steps = 0;                      ///< run, of those asked for: fewer once it is clear that many run out
  int ran_out = 0;                    ///< of them: a process got no memory, though its cache was given back
  std::map<std::string, int> phases;  ///< in which
  int gave_back = 0;                  ///< got on by giving cached memory back
  std::int64_t retries = 0;           ///< how often, in all steps
};

/// Runs `steps` steps of `job` in the simulator on cards with `room` bytes: a quarter of them in each of four runs, one
/// after the other in the same processes, which begin anew after a step that runs out. Lengths of every sequence of a step are drawn: a prompt has its mean
/// length; a response ends at random at a rate that gives the mean, or, where the spread is known, is as a gamma
/// distribution of that mean and spread has it; at the cap at the latest. The sequences are dealt to all ranks and cut
/// into micro-batches as each role's settings say; of the ranks the one is followed that draws the largest one, for
/// where one runs out all do. The same draws every time.
///
/// Nothing where no length changes a micro-batch: roles pad to the cap, or lengths are unknown or all alike.
Result<std::optional<DrawnSteps>> draw_steps(const Job& job, const Lengths& lengths, const Hardware& hardware, Bytes room,
                                             int steps = 100);

/// "3 of 100 steps with drawn lengths run out of memory (train_actor 3), 12 more give cached memory back (40 times)"
std::string text(const DrawnSteps& drawn);

}  // namespace headroom::cli
