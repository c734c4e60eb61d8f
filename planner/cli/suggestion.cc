#include "planner/cli/suggestion.h"

#include <fmt/format.h>

#include "models/base/printable.h"
#include "planner/cli/executors.h"
#include "planner/search/changes.h"
#include "planner/writers/plan.h"
#include "simulator/closed_form/recalled_trainer.h"

namespace headroom::cli {

namespace {

/// Where each change costs a whole program, those towards the knobs' frugal ends alone.
std::vector<Knob> knobs_to_try(const Run& run) {
  std::vector<Knob> knobs = run.framework->knobs(run.read);
  if (closed_form::recalls(run.read.job)) return knobs;
  std::erase_if(knobs, [](Knob& knob) {
    End frugal = End::none;
    for (const Effect& effect : knob.effects)
      if (effect.frugal != End::none) frugal = effect.frugal;
    if (frugal == End::none || knob.values.empty()) return true;
    const std::string end = frugal == End::first ? knob.values.front() : knob.values.back();
    knob.values = {knob.current, end};
    return end == knob.current;
  });
  return knobs;
}

}  // namespace

std::string suggestion(const Run& run, const Report& report) {
  if (report.fits || run.framework == nullptr || run.framework->knobs == nullptr) return "";
  if (!run.read.job.not_modelled.empty()) return "";  // no change makes that known
  const search::Setup setup = run.setup();
  const std::vector<Knob> knobs = knobs_to_try(run);
  if (knobs.empty()) return "\ntry: `headroom explain` (single changes), `headroom plan` (all together)\n";
  const Result<search::Space> space = search::make_space(knobs, {}, {});
  if (!space) return "";
  for (const search::Change& change : search::single_changes(setup, *space, searching_executor())) {
    if (!change.outcome.fits) break;  // those that fit come first
    return fmt::format(
        "\ntry: {} ({} to spare in the closed form; `headroom explain` shows more, `headroom plan` searches)\n",
        printable(writers::settings_text(change.settings, change.choices)), format_gib(change.outcome.spare));
  }
  return "\ntry: `headroom plan`, which combines changes: no single one is enough\n";
}

}  // namespace headroom::cli
