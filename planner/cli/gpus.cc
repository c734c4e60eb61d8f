#include "models/base/printable.h"
#include "planner/cli/gpus.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <ostream>

#include "planner/cli/output.h"
#include "planner/writers/columns.h"
#include "simulator/hardware/fields.h"
#include "simulator/hardware/library.h"

namespace headroom::cli {
namespace {

using Kind = HardwareField::Kind;
using writers::Columns;
constexpr auto kLeft = Columns::Align::left, kRight = Columns::Align::right;

std::string rate(double value) {
  if (value >= 1e15) return fmt::format("{:.4g} P", value / 1e15);
  if (value >= 1e12) return fmt::format("{:.4g} T", value / 1e12);
  return fmt::format("{:.4g} G", value / 1e9);
}

std::string figure(const HardwareField& field, const Hardware& hardware) {
  switch (field.kind) {
    case Kind::bytes:
      return format_bytes(whole_figure(field, hardware));
    case Kind::count:
      return fmt::format("{}", whole_figure(field, hardware));
    case Kind::seconds:
      return fmt::format("{:.1f} us", real_figure(field, hardware) * 1e6);
    case Kind::share:
      return fmt::format("{:.1f}%", real_figure(field, hardware) * 100);
    case Kind::rate: {
      const double value = real_figure(field, hardware);
      const bool bytes = field.section == "links" || field.key == "memory";
      return value == 0 ? "none" : rate(value) + (bytes ? "B/s" : "FLOP/s");
    }
    case Kind::curve:
      break;
  }
  std::vector<std::string> points;
  for (const auto& point : curve_figure(field, hardware).points())
    points.push_back(fmt::format("{:.0f}% at {:.0f} us", point.fraction * 100, point.seconds * 1e6));
  return fmt::format("{}", fmt::join(points, ", "));
}

nlohmann::ordered_json number(const HardwareField& field, const Hardware& hardware) {
  switch (field.kind) {
    case Kind::bytes:
    case Kind::count:
      return whole_figure(field, hardware);
    case Kind::rate:
    case Kind::seconds:
    case Kind::share:
      return real_figure(field, hardware);
    case Kind::curve:
      break;
  }
  auto points = nlohmann::ordered_json::array();
  for (const auto& point : curve_figure(field, hardware).points())
    points.push_back({point.seconds, point.fraction});
  return points;
}

nlohmann::ordered_json json(const Hardware& hardware) {
  nlohmann::ordered_json out;
  out["name"] = hardware.name;
  out["short_names"] = hardware.short_names;
  out["versions"] = hardware.versions;
  for (const HardwareField& field : hardware_fields())
    if (hardware.sources.contains(std::string(field.section)))
      out[std::string(field.section)][std::string(field.key)] = number(field, hardware);
  for (const auto& [section, source] : hardware.sources) out[section]["source"] = source;
  return out;
}

std::string json_text(std::span<const Hardware> profiles) {
  nlohmann::ordered_json out;
  out["schema"] = "headroom.gpus/1";
  out["gpus"] = nlohmann::ordered_json::array();
  for (const Hardware& profile : profiles) out["gpus"].push_back(json(profile));
  return out.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace

std::string gpu_table(std::span<const Hardware> profiles) {
  Columns table({kLeft, kLeft, kRight, kRight, kRight, kRight});
  table.add({"NAME", "AS THE DRIVER REPORTS IT", "MEMORY", "BF16 FLOP/s", "MEMORY B/s", "NVLINK B/s"});
  for (const Hardware& profile : profiles)
    table.add({profile.short_names.empty() ? "" : profile.short_names.front(), profile.name,
               format_gib(profile.total_memory), profile.matrix.bf16 > 0 ? rate(profile.matrix.bf16) : "none",
               rate(profile.memory_bandwidth),
               profile.links.nvlink > 0 ? rate(profile.links.nvlink) : "none"});
  return table.text();
}

std::string gpu_details(const Hardware& hardware) {
  std::string out = printable(hardware.name) + "\n";
  if (!hardware.short_names.empty())
    out += printable(fmt::format("also: {}", fmt::join(hardware.short_names, ", "))) + "\n";
  for (const auto& [name, version] : hardware.versions)
    out += printable(fmt::format("measured with {} {}", name, version)) + "\n";
  const auto fields = hardware_fields();
  for (size_t at = 0; at < fields.size();) {
    const std::string section(fields[at].section);
    Columns rows({kLeft, kLeft});
    for (; at < fields.size() && fields[at].section == section; ++at)
      rows.add({std::string(fields[at].key), figure(fields[at], hardware)});
    const auto source = hardware.sources.find(section);
    if (source == hardware.sources.end()) continue;  // optional and not stated
    out += fmt::format("\n{} ({})\n", section, printable(source->second)) + rows.text("  ");
  }
  return out;
}

Command gpus_command() {
  return {.name = "gpus",
          .summary = "lists the hardware profiles, or shows one with its sources",
          .options = {{"NAME|FILE", "", "a profile's short name, the driver's name, or a profile's file"}},
          .common = kJsonFlag,
          .run = gpus};
}

int gpus(const Arguments& arguments, Streams& streams) {
  const std::string name = arguments.text("NAME|FILE");
  std::vector<Hardware> one;
  if (!name.empty()) {
    HEADROOM_CLI_ASSIGN(Hardware hardware, load_hardware(name), streams);
    one.push_back(std::move(hardware));
  }
  const std::span<const Hardware> shown = name.empty() ? hardware_profiles() : std::span<const Hardware>(one);
  if (arguments.common.json)
    HEADROOM_CLI_TRY(write_output(*arguments.common.json, json_text(shown), streams), streams);
  if (arguments.common.json != "-")
    streams.out << (name.empty() ? gpu_table(shown) : gpu_details(one.front()));
  return kDone;
}

}  // namespace headroom::cli
