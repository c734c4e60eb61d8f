#include "planner/writers/markdown.h"

#include <fmt/format.h>

#include <algorithm>

#include "models/base/printable.h"
#include "planner/writers/table.h"

namespace headroom::writers {

std::string markdown_text(std::string_view text) {
  std::string out;
  for (const char c : printable(text)) {
    if (c == '@') {  // a mention, which a backslash does not stop
      out += "&#64;";
      continue;
    }
    if (std::string_view("|*_`<>[]#~&\\").find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out;
}

std::string markdown(std::span<const Report> reports) {
  std::string out;
  if (reports.size() > 1) {
    out += "| configuration | verdict |\n| --- | --- |\n";
    for (const Report& report : reports)
      out += fmt::format("| {} | {} |\n", markdown_text(report.file.empty() ? report.title : report.file),
                         markdown_text(verdict(report)));
  }
  for (const Report& report : reports) out += (out.empty() ? "" : "\n") + markdown(report);
  return out;
}

std::string markdown(const Report& report) {
  std::string out;
  if (!report.title.empty()) out += "### " + markdown_text(report.title) + "\n\n";
  out += fmt::format("**{}**\n", markdown_text(verdict(report)));
  for (const DeviceReport& device : report.devices) {
    out += "\n" + markdown_text(device_name(device)) + ", GiB:\n\n";
    out += "| phase | step | device | margin | spare | host |\n| --- | ---: | ---: | ---: | ---: | ---: |\n";
    for (const PhaseReport* phase : worst_steps(device))
      out += fmt::format("| {} | {} | {} | {} | {} | {} |\n", markdown_text(phase->phase), phase->step,
                         gib(phase->peak_device), gib(phase->margin), gib(spare(report, device, *phase)),
                         gib(phase->peak_host));
  }
  if (const PeakPlace place = highest(report); place.phase != nullptr) {
    out += fmt::format("\nAt the highest peak, {} in {} (step {}):\n\n| component | GiB |\n| --- | ---: |\n",
                       markdown_text(device_name(*place.device)), markdown_text(place.phase->phase), place.phase->step);
    for (std::size_t i = 0; i < kComponents; ++i)
      if (const Bytes bytes = place.phase->at_peak_device.bytes[i]; bytes != 0)
        out += fmt::format("| {} | {} |\n", markdown_text(name(static_cast<Component>(i))), gib(bytes));
  }
  if (!report.warnings.empty()) out += "\n";
  for (const Warning& warning : report.warnings)
    out += fmt::format("- :warning: {}{}\n", warning.key.empty() ? "" : markdown_text(warning.key) + ": ",
                       markdown_text(warning.message));
  return out;
}

}  // namespace headroom::writers
