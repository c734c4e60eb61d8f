#include "planner/study/cell_json.h"
#include "planner/writers/report_json.h"
#include "planner/writers/study/study.h"

namespace headroom::writers {

std::string study_json(const study::Results& results) {
  nlohmann::ordered_json out = {{"schema", "headroom.study/1"}, {"name", results.name}};
  out["cells"] = nlohmann::ordered_json::array();
  for (const study::Cell& cell : results.cells) {
    nlohmann::ordered_json one = study::cell_json(cell);
    if (const auto part = saved(results, cell)) one["saved"] = *part;
    if (const auto lost = seconds_lost(results, cell)) one["seconds_lost"] = *lost;
    out["cells"].push_back(std::move(one));
  }
  return dump(out);
}

}  // namespace headroom::writers
