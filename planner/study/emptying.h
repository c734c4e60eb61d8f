#pragma once

#include <array>
#include <optional>
#include <string_view>

#include "simulator/job/job.h"

namespace headroom::study {

/// When a trainer's cache is emptied (torch.cuda.empty_cache()) in a step.
enum class Emptying {
  own,            ///< where the framework's own code does
  never,          ///< nowhere: what the framework's steps do is taken out
  generation,     ///< after generation
  inference,      ///< after every phase without gradients
  training,       ///< after training phases
  phases,         ///< after every phase
  micro_batches,  ///< after every phase, and after each micro-batch's forward without gradients or backward
};
inline constexpr std::array<std::string_view, 7> kEmptyings = {"own",      "never",  "generation",   "inference",
                                                               "training", "phases", "micro_batches"};
std::string_view name(Emptying when);
std::optional<Emptying> parse_emptying(std::string_view text);

/// The job with its cache emptied then, by standard actions at ends of phases, whose seconds are the phases'. What
/// happens before the first step, and what loops and residency actions do by themselves, stays.
Job emptied(Job job, Emptying when);

/// Actions by which every training process of `job` empties its cache.
std::vector<Action> empty_actions(const Job& job);

}  // namespace headroom::study
