#include "planner/study/cell_json.h"

#include <algorithm>

namespace headroom::study {
namespace {

using Json = nlohmann::ordered_json;

Json peak_json(const Peak& peak) {
  return {{"bytes", peak.bytes}, {"step", peak.step}, {"phase", peak.phase}};
}

Peak peak_from(const Json& value) {
  return {.bytes = value.at("bytes").get<Bytes>(),
          .step = value.at("step").get<int>(),
          .phase = value.at("phase").get<std::string>()};
}

Json parts_json(const std::vector<FreePart>& parts) {
  Json out = Json::array();
  for (const FreePart& part : parts) {
    Json one = {{"step", part.step},
                {"phase", part.phase},
                {"component", name(part.component)},
                {"operation", part.operation},
                {"bytes", part.bytes}};
    if (part.kept()) one["kept_by"] = name(part.kept_by);
    out.push_back(std::move(one));
  }
  return out;
}

std::vector<FreePart> parts_from(const Json& value) {
  std::vector<FreePart> out;
  for (const Json& one : value) {
    FreePart& part = out.emplace_back();
    part.step = one.at("step").get<int>();
    part.phase = one.at("phase").get<std::string>();
    part.component = parse_component(one.at("component").get<std::string>()).value_or(Component::other);
    part.operation = one.at("operation").get<std::string>();
    part.bytes = one.at("bytes").get<Bytes>();
    if (one.contains("kept_by"))
      part.kept_by = parse_component(one.at("kept_by").get<std::string>()).value_or(Component::other);
  }
  return out;
}

Json phase_json(const CellPhase& phase) {
  Json points = Json::array();
  for (const MemoryPoint& point : phase.memory.points) points.push_back({point.allocated, point.reserved});
  return {{"phase", phase.memory.phase},
          {"reserved", phase.memory.reserved},
          {"allocated", phase.memory.allocated},
          {"kept", phase.memory.kept()},
          {"seconds", phase.seconds},
          {"parts", parts_json(phase.memory.parts)},
          {"points", std::move(points)}};
}

CellPhase phase_from(const Json& value, int step) {
  CellPhase out;
  out.memory.step = step;
  out.memory.phase = value.at("phase").get<std::string>();
  out.memory.reserved = value.at("reserved").get<Bytes>();
  out.memory.allocated = value.at("allocated").get<Bytes>();
  out.seconds = value.at("seconds").get<double>();
  out.memory.parts = parts_from(value.at("parts"));
  for (const Json& point : value.at("points"))
    out.memory.points.push_back({point.at(0).get<Bytes>(), point.at(1).get<Bytes>()});
  return out;
}

}  // namespace

Json cell_json(const Cell& cell) {
  Json out = {{"job", cell.job},
              {"framework", cell.framework},
              {"strategy", cell.strategy},
              {"empty_cache", name(cell.empty_cache)},
              {"status", name(cell.status)}};
  if (!cell.message.empty()) out["message"] = cell.message;
  if (cell.status == Cell::Status::failed) return out;
  out["gpu"] = cell.gpu;
  out["gpus"] = cell.gpus;
  out["peak_reserved"] = peak_json(cell.reserved);
  out["peak_allocated"] = peak_json(cell.allocated);
  out["peak_device"] = peak_json(cell.device);
  out["fragmentation"] = cell.fragmentation();
  out["without_fragmentation"] = cell.without_fragmentation();
  out["kept"] = cell.kept;
  out["retries"] = cell.retries;
  out["seconds"] = cell.seconds;
  out["segments_got"] = cell.gets;
  out["segments_returned"] = cell.returns;
  out["parts"] = parts_json(cell.parts);
  out["phases"] = Json::array();
  for (const CellPhase& phase : cell.step) out["phases"].push_back(phase_json(phase));
  return out;
}

std::optional<Cell> cell_from_json(const Json& value) {
  try {
    Cell out;
    out.job = value.at("job").get<std::string>();
    out.framework = value.at("framework").get<std::string>();
    out.strategy = value.at("strategy").get<std::string>();
    const auto when = parse_emptying(value.at("empty_cache").get<std::string>());
    if (!when) return std::nullopt;
    out.empty_cache = *when;
    const auto status = value.at("status").get<std::string>();
    for (const Cell::Status one : {Cell::Status::done, Cell::Status::out_of_memory, Cell::Status::failed})
      if (status == name(one)) out.status = one;
    if (value.contains("message")) out.message = value.at("message").get<std::string>();
    if (out.status == Cell::Status::failed) return out;
    out.gpu = value.at("gpu").get<std::string>();
    out.gpus = value.at("gpus").get<std::int64_t>();
    out.reserved = peak_from(value.at("peak_reserved"));
    out.allocated = peak_from(value.at("peak_allocated"));
    out.device = peak_from(value.at("peak_device"));
    out.allocated_there = value.at("without_fragmentation").get<Bytes>();
    out.kept = value.at("kept").get<Bytes>();
    out.retries = value.at("retries").get<std::int64_t>();
    out.seconds = value.at("seconds").get<double>();
    out.gets = value.at("segments_got").get<std::int64_t>();
    out.returns = value.at("segments_returned").get<std::int64_t>();
    out.parts = parts_from(value.at("parts"));
    for (const Json& phase : value.at("phases")) out.step.push_back(phase_from(phase, std::max(out.reserved.step, 0)));
    return out;
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

}  // namespace headroom::study
