#include "planner/writers/csv.h"

#include <fmt/format.h>

namespace headroom::writers {
namespace {

std::string header() {
  std::string out =
      "file,device,alike,pool,step,phase,peak_device,peak_host,margin_bytes,seconds,process,rank,peak_allocated,"
      "peak_reserved,allocated_end,reserved_end,outside";
  for (std::size_t i = 0; i < kComponents; ++i) out += fmt::format(",at_{}", name(static_cast<Component>(i)));
  return out + "\n";
}

std::string row(const Report& report, const DeviceReport& device, const PhaseReport& phase, const ProcessPhase* process) {
  std::string out = fmt::format("{},{},{},{},{},{},{},{},{},{}", csv_field(report.file), device.device, device.alike,
                                csv_field(device.pool), phase.step, csv_field(phase.phase), phase.peak_device,
                                phase.peak_host, phase.margin, phase.seconds);
  out += process == nullptr ? ",,,,,,,"
                            : fmt::format(",{},{},{},{},{},{},{}", csv_field(process->process), process->rank,
                                          process->peak_allocated, process->peak_reserved,
                                          process->allocated_end, process->reserved_end, process->outside);
  for (const Bytes bytes : phase.at_peak_device.bytes) out += fmt::format(",{}", bytes);
  return out + "\n";
}

}  // namespace

std::string csv_field(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"') out += '"';
    out += c;
  }
  return out + "\"";
}

std::string csv(const Report& report) {
  return csv(std::span(&report, 1));
}

std::string csv(std::span<const Report> reports) {
  std::string out = header();
  for (const Report& report : reports)
    for (const DeviceReport& device : report.devices)
      for (const PhaseReport& phase : device.phases) {
        if (phase.processes.empty()) out += row(report, device, phase, nullptr);
        for (const ProcessPhase& process : phase.processes) out += row(report, device, phase, &process);
      }
  return out;
}

}  // namespace headroom::writers
