#include <fmt/format.h>

#include "models/base/printable.h"
#include "planner/writers/gate.h"

namespace headroom::writers {
namespace {

/// Text in a workflow command; in a property, what would end it is escaped too.
std::string command_text(std::string_view text, bool property) {
  std::string out;
  for (const char c : printable(text)) {
    if (c == '%') {
      out += "%25";
    } else if (property && c == ':') {
      out += "%3A";
    } else if (property && c == ',') {
      out += "%2C";
    } else {
      out += c;
    }
  }
  return out;
}

std::string annotation(const char* level, std::string_view file, int line, std::string_view title,
                       std::string_view message) {
  return fmt::format("::{} file={},line={},title={}::{}\n", level, command_text(file, true), line > 0 ? line : 1,
                     command_text(title, true), command_text(message, false));
}

}  // namespace

std::string gate_github(std::span<const GateResult> results) {
  std::string out;
  for (const GateResult& result : results) {
    const std::string& file = result.file.empty() ? result.path : result.file;
    const std::string message = (result.key.empty() ? "" : result.key + ": ") + result.reason;
    if (result.status == GateStatus::undetermined) {
      out += annotation("warning", file, result.line, "headroom: undetermined", message);
    } else if (result.status != GateStatus::fits) {
      const std::string title = fmt::format("headroom: {}", name(result.status));
      out += annotation("error", file, result.line, title, message);
    }
    if (!result.report) continue;
    for (const Warning& warning : result.report->warnings)
      if (warning.code != "undetermined")
        out += annotation("notice", warning.file.empty() ? result.path : warning.file, warning.line,
                          "headroom: " + warning.code,
                          (warning.key.empty() ? "" : warning.key + ": ") + warning.message);
  }
  return out;
}

}  // namespace headroom::writers
