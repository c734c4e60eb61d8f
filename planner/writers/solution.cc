#include "planner/writers/solution.h"

#include "planner/writers/report_json.h"

namespace headroom::writers {

namespace {

nlohmann::ordered_json side(const search::Tried& tried) {
  nlohmann::ordered_json out = {{"value", tried.value}, {"fits", tried.outcome.fits}};
  if (!tried.outcome.valid) {
    out["refused"] = tried.outcome.refusal;
    return out;
  }
  out["peak_device"] = tried.outcome.peak_device;
  out["spare_bytes"] = tried.outcome.spare;
  out["limiting_phase"] = tried.outcome.limiting_phase;
  return out;
}

}  // namespace

std::string solution_json(const Report& report, const std::string& knob, const search::Solution& solution) {
  nlohmann::ordered_json out = report_json(report);
  out["solved"] = {{"knob", knob}, {"value", nullptr}};
  if (solution.fits) {
    out["solved"]["value"] = solution.fits->value;
    out["solved"]["fits"] = side(*solution.fits);
  }
  if (solution.beyond) {
    if (solution.fits) out["solved"]["next_that_does_not_fit"] = solution.beyond->value;
    out["solved"]["beyond"] = side(*solution.beyond);
  }
  return dump(out);
}

}  // namespace headroom::writers
