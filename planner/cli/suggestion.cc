#include "planner/cli/suggestion.h"

#include <fmt/format.h>

#include "models/base/printable.h"
#include "planner/cli/executors.h"
#include "planner/search/changes.h"
#include "planner/writers/plan.h"

namespace headroom::cli {

std::string suggestion(const Run& run, const Report& report) {
  if (report.fits || run.framework == nullptr || run.framework->knobs == nullptr) return "";
  const search::Setup setup = run.setup();
  const Result<search::Space> space = search::make_space(run.framework->knobs(run.read), {}, {});
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
