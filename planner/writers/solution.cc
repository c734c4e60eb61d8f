#include "planner/writers/solution.h"

#include "planner/writers/report_json.h"

namespace headroom::writers {

std::string solution_json(const Report& report, const std::string& knob, const std::string& value,
                          const std::optional<std::string>& next) {
  nlohmann::ordered_json out = report_json(report);
  out["solved"] = {{"knob", knob}, {"value", value}};
  if (next) out["solved"]["next_that_does_not_fit"] = *next;
  return dump(out);
}

}  // namespace headroom::writers
