#include <fmt/format.h>

#include "models/base/printable.h"
#include "planner/writers/gate.h"

namespace headroom::writers {
namespace {

/// Text in XML: what is markup is escaped, and what XML has no way to write, too.
std::string xml(std::string_view text) {
  std::string out;
  for (const char c : printable(text)) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string test_case(const GateResult& result) {
  std::string out = fmt::format("    <testcase classname=\"headroom\" name=\"{}\"", xml(result.path));
  if (!result.file.empty()) out += fmt::format(" file=\"{}\"", xml(result.file));
  if (result.line > 0) out += fmt::format(" line=\"{}\"", result.line);
  const char* element = result.status == GateStatus::failed         ? "error"
                        : result.status == GateStatus::undetermined ? "skipped"
                        : result.status == GateStatus::fits         ? nullptr
                                                                    : "failure";
  if (element == nullptr) return out + fmt::format(">\n      <system-out>{}</system-out>\n    </testcase>\n", xml(result.reason));
  const std::string type =
      element == std::string_view("skipped") ? "" : fmt::format(" type=\"{}\"", name(result.status));
  return out + fmt::format(">\n      <{0} message=\"{1}\"{2}/>\n    </testcase>\n", element, xml(result.reason), type);
}

}  // namespace

std::string gate_junit(std::span<const GateResult> results) {
  const GateCounts n = counts(results);
  const std::string numbers = fmt::format("tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\"", n.all(),
                                          n.over + n.grown, n.failed, n.undetermined);
  std::string out = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";
  out += fmt::format("<testsuites {0}>\n  <testsuite name=\"headroom\" {0}>\n", numbers);
  for (const GateResult& result : results) out += test_case(result);
  return out + "  </testsuite>\n</testsuites>\n";
}

}  // namespace headroom::writers
