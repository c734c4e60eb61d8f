#include "planner/writers/json.h"

#include "planner/writers/report_json.h"
#include "planner/writers/table.h"
#include "simulator/device/verdict.h"

namespace headroom::writers {
namespace {

using Json = nlohmann::ordered_json;

Json process_json(const ProcessPhase& process) {
  Json out = {
      {"process", process.process},
      {"roles", process.roles},
      {"rank", process.rank},
      {"allocated_start", process.allocated_start},
      {"peak_allocated", process.peak_allocated},
      {"allocated_end", process.allocated_end},
      {"reserved_start", process.reserved_start},
      {"peak_reserved", process.peak_reserved},
      {"reserved_end", process.reserved_end},
      {"reserved_after_empty", nullptr},
      {"peak_active", process.peak_active},
      {"inactive_split_end", process.inactive_split_end},
      {"fragmentation_at_peak", process.fragmentation_at_peak},
      {"n_allocs", process.n_allocs},
      {"segments", process.segments},
      {"retries", process.retries},
      {"outside", process.outside},
      {"at_peak_allocated", components_json(process.at_peak_allocated)},
  };
  if (process.reserved_after_empty) out["reserved_after_empty"] = *process.reserved_after_empty;
  if (process.out_of_memory) out["out_of_memory"] = *process.out_of_memory;
  return out;
}

Json spent_json(const Seconds& spent) {
  Json out = Json::object();
  for (std::size_t i = 0; i < kSpentKinds; ++i) out[std::string(name(static_cast<Spent>(i)))] = spent.by[i];
  return out;
}

Json phase_json(const PhaseReport& phase) {
  Json out = {
      {"step", phase.step},
      {"phase", phase.phase},
      {"peak_device", phase.peak_device},
      {"peak_host", phase.peak_host},
      {"margin_bytes", phase.margin},
      {"seconds", phase.seconds},
      {"seconds_by", spent_json(phase.spent)},
      {"at_peak_device", components_json(phase.at_peak_device)},
      {"at_peak_host", components_json(phase.at_peak_host)},
      {"processes", Json::array()},
  };
  if (!phase.within.empty()) out["within"] = phase.within;
  if (phase.bounded) out["bounded"] = true;
  if (phase.expected_device) out["expected_peak_device"] = *phase.expected_device;
  for (const ProcessPhase& process : phase.processes) out["processes"].push_back(process_json(process));
  return out;
}

Json engine_json(const EngineReport& engine) {
  return {{"engine", engine.engine},
          {"release", engine.release},
          {"before_loading", engine.before},
          {"weights", engine.weights},
          {"activation_peak", engine.activation_peak},
          {"non_torch", engine.non_torch},
          {"kv_cache", engine.kv_cache},
          {"kv_tokens", engine.kv_tokens},
          {"kv_blocks", engine.kv_blocks},
          {"graphs", engine.graphs},
          {"max_concurrency", engine.concurrency},
          {"asleep", engine.asleep}};
}

Json device_json(const DeviceReport& device) {
  Json out = {{"device", device.device}, {"alike", device.alike}};
  if (!device.pool.empty()) out["pool"] = device.pool;
  if (device.budget) out["budget_bytes"] = *device.budget;
  out["phases"] = Json::array();
  for (const PhaseReport& phase : device.phases) out["phases"].push_back(phase_json(phase));
  if (!device.engines.empty()) {
    out["engines"] = Json::array();
    for (const EngineReport& engine : device.engines) out["engines"].push_back(engine_json(engine));
  }
  if (!device.holders.empty()) {
    out["holders"] = Json::array();
    for (const Holder& holder : device.holders)
      out["holders"].push_back({{"module", holder.module},
                                {"operation", holder.operation},
                                {"component", name(holder.component)},
                                {"bytes", holder.bytes},
                                {"blocks", holder.blocks}});
  }
  return out;
}

Json warning_json(const Warning& warning) {
  Json out = {{"code", warning.code}, {"message", warning.message}};
  if (!warning.file.empty()) out["file"] = warning.file;
  if (warning.line > 0) out["line"] = warning.line;
  if (!warning.key.empty()) out["key"] = warning.key;
  return out;
}

}  // namespace

Json components_json(const Breakdown& breakdown) {
  Json out = Json::object();
  for (std::size_t i = 0; i < kComponents; ++i)
    if (breakdown.bytes[i] != 0) out[std::string(name(static_cast<Component>(i)))] = breakdown.bytes[i];
  return out;
}

Json report_json(const Report& report) {
  Json out = {
      {"schema", "headroom.report/1"},     {"title", report.title},      {"framework", report.framework},
      {"executor", report.executor},       {"fits", report.fits},        {"budget_bytes", report.budget},
      {"host_budget_bytes", nullptr},      {"margin", report.margin},    {"warnings", Json::array()},
      {"assumptions", report.assumptions}, {"versions", Json::object()}, {"devices", Json::array()},
  };
  if (const std::vector<std::string> open = undetermined(report); !open.empty()) out["undetermined"] = open;
  if (!report.file.empty()) out["file"] = report.file;
  out["verdict"] = verdict(report);
  if (!report.understood.empty())
    for (const auto& [what, value] : report.understood) out["understood"][what] = value;
  if (report.host_budget > 0) out["host_budget_bytes"] = report.host_budget;
  for (const Warning& warning : report.warnings) out["warnings"].push_back(warning_json(warning));
  if (report.other_seconds > 0) out["other_seconds"] = report.other_seconds;
  for (const auto& [library, version] : report.versions) out["versions"][library] = version;
  for (const DeviceReport& device : report.devices) out["devices"].push_back(device_json(device));
  return out;
}

std::string dump(const Json& value) {
  return value.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string json(const Report& report) {
  return dump(report_json(report));
}

std::string json(std::span<const Report> reports) {
  if (reports.size() == 1) return json(reports[0]);
  Json all = Json::array();
  for (const Report& report : reports) all.push_back(report_json(report));
  return dump(all);
}

}  // namespace headroom::writers
