#include "validator/measurements.h"

#include <nlohmann/json.hpp>

namespace headroom::gpu {

std::string to_json(const Measurements& m) {
  using Json = nlohmann::ordered_json;
  Json memory = Json::array(), rates = Json::array();
  for (const MemoryPoint& p : m.memory) {
    memory.push_back({{"action", p.action}, {"used", p.used}, {"added", p.added}});
  }
  for (const RatePoint& p : m.rates) {
    rates.push_back({{"kind", p.kind},
                     {"shape", p.shape},
                     {"dtype", std::string(name(p.dtype))},
                     {"flops", p.flops},
                     {"bytes", p.bytes},
                     {"seconds", p.seconds}});
  }
  return Json{{"schema", "headroom.measurements/1"},
              {"gpu", m.gpu},
              {"gpus", m.gpus},
              {"multiprocessors", m.multiprocessors},
              {"total_memory", m.total_memory},
              {"granularity", m.granularity},
              {"host_memory", m.host_memory},
              {"used_by_others", m.used_by_others},
              {"versions", m.versions},
              {"memory", memory},
              {"rates", rates},
              {"notes", m.notes}}
             .dump(1) +
         "\n";
}

}  // namespace headroom::gpu
