#include "planner/writers/solution.h"

#include "planner/writers/report_json.h"

namespace headroom::writers {

namespace {

nlohmann::ordered_json side(const search::Tried& tried) {
  return {{"value", tried.value},
          {"fits", tried.outcome.fits},
          {"peak_device", tried.outcome.peak_device},
          {"spare_bytes", tried.outcome.spare},
          {"limiting_phase", tried.outcome.limiting_phase}};
}

}  // namespace

std::string solution_json(const Report& report, const std::string& knob, const search::Solution& solution) {
  nlohmann::ordered_json out = report_json(report);
  out["solved"] = {{"knob", knob}, {"value", solution.fits.value}, {"fits", side(solution.fits)}};
  if (solution.beyond) {
    out["solved"]["next_that_does_not_fit"] = solution.beyond->value;
    out["solved"]["beyond"] = side(*solution.beyond);
  }
  return dump(out);
}

}  // namespace headroom::writers
