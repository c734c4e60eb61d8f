#include <fmt/format.h>

#include "planner/writers/columns.h"
#include "planner/writers/explanation.h"
#include "planner/writers/plan.h"
#include "planner/writers/saved.h"
#include "planner/writers/table.h"

namespace headroom::writers {
namespace {

using Align = Columns::Align;
using search::Change;
using search::Explanation;

std::string against(const search::Outcome& outcome, const search::Outcome& now) {
  if (now.seconds <= 0 || outcome.seconds <= 0) return "";
  return fmt::format("{:+.1f} %", 100 * (outcome.seconds / now.seconds - 1));
}

/// What is to spare; of a run that stops what is missing at least, where that is known.
std::string spare_text(const search::Outcome& outcome) {
  if (!outcome.breaks) return gib(outcome.spare);
  return outcome.spare < -1 ? "< " + gib(outcome.spare) : "stops";
}

std::string change_rows(const std::vector<Change>& changes, const search::Outcome& now) {
  Columns columns({Align::right, Align::right, Align::left, Align::left});
  columns.add({"spare", "step time", "limited by", "change"});
  for (const Change& change : changes)
    columns.add({spare_text(change.outcome), against(change.outcome, now), change.outcome.limiting_phase,
                 settings_text(change.settings, change.choices)});
  return columns.text("  ");
}

std::string changes_text(const Explanation& e) {
  if (e.singles.empty()) return "";
  std::string out;
  const bool fit = e.singles.front().outcome.fits;
  if (e.now.fits)
    out += "\nSingle changes that still fit, fastest first, GiB\n";
  else if (fit)
    out += "\nSingle changes that make it fit, cheapest first, GiB\n";
  else
    out += "\nNo single change makes it fit; these come closest, GiB\n";
  out += change_rows(e.singles, e.now);
  if (!e.pairs.empty()) out += "\nPairs of changes that make it fit, cheapest first, GiB\n" + change_rows(e.pairs, e.now);
  return out;
}

std::string techniques_text(const Explanation& e) {
  if (e.techniques.empty()) return "";
  Columns columns({Align::right, Align::left, Align::left, Align::left});
  columns.add({"s/step", "saves in", "", "with"});
  for (const search::Technique& technique : e.techniques) {
    columns.add({technique.seconds_known ? fmt::format("{:+.1f}", technique.seconds) : "", saved_text(technique.saved),
                 technique.what + (technique.changes_numerics ? " (trains otherwise)" : ""),
                 settings_text(technique.change.settings, technique.change.choices)});
  }
  return "\nWhat each technique saves in which phase and costs, by closed form, GiB\n" + columns.text("  ");
}

std::string would_text(const Explanation& e) {
  std::string out;
  if (e.together && !e.together->fits)
    out += fmt::format("\nNothing that can be turned makes it fit: with all that saves memory {} {} missing in {}.\n",
                       format_gib(-e.together->spare), e.together->breaks ? "at least are" : "are",
                       e.together->limiting_phase);
  if (e.together && e.together->fits)
    out += "\nNo change and no pair makes it fit; all that saves memory together would: `headroom plan` finds how "
           "little of it is enough.\n";
  return out + would_fit_text(e.would);
}

}  // namespace

std::string explanation_text(const Explanation& e) {
  std::string out;
  if (e.quick && e.quick->spare < -1)
    out += fmt::format("\nIt stops at the card's end. At least {} are missing: {} takes {} by the sum of what is alive "
                       "there.\n",
                       format_gib(-e.quick->spare), e.quick->limiting_phase, format_gib(e.quick->peak_device));
  return out + changes_text(e) + techniques_text(e) + would_text(e);
}

}  // namespace headroom::writers
