#include <fmt/format.h>

#include <array>
#include <cctype>
#include <filesystem>
#include <set>

#include "planner/writers/gate.h"
#include "planner/writers/report_json.h"

namespace headroom::writers {
namespace {

using Json = nlohmann::ordered_json;

struct Rule {
  std::string_view id, text;
};
constexpr std::array<Rule, 4> kRules = {{
    {"over", "The run does not fit its budget."},
    {"grown", "The run needs more than the baseline allows."},
    {"undetermined", "Nothing shows that the run fits."},
    {"error", "The configuration could not be read."},
}};

/// A path as a URI reference: relative ones are relative to the repository.
std::string uri(std::string_view path) {
  std::string out = path.starts_with('/') ? "file://" : "";
  for (const char c : std::filesystem::path(path).lexically_normal().generic_string()) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) != 0 ||
                       std::string_view("-._~/").find(c) != std::string_view::npos;
    out += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return out;
}

Json result_of(std::string_view rule, const char* level, const std::string& message, const std::string& file,
               int line, const std::string& path) {
  Json location = {{"physicalLocation",
                    {{"artifactLocation", {{"uri", uri(file)}}}, {"region", {{"startLine", line > 0 ? line : 1}}}}}};
  return {{"ruleId", rule},
          {"level", level},
          {"message", {{"text", message}}},
          {"locations", Json::array({std::move(location)})},
          {"partialFingerprints", {{"headroom/v1", fmt::format("{}:{}", rule, path)}}}};
}

}  // namespace

std::string gate_sarif(std::span<const GateResult> results, std::string_view version) {
  Json rules = Json::array(), found = Json::array();
  for (const Rule& rule : kRules)
    rules.push_back({{"id", rule.id}, {"shortDescription", {{"text", rule.text}}}});
  std::set<std::string> codes;
  for (const GateResult& result : results) {
    const std::string& file = result.file.empty() ? result.path : result.file;
    const std::string message = (result.key.empty() ? "" : result.key + ": ") + result.reason;
    if (result.status != GateStatus::fits)
      found.push_back(result_of(name(result.status),
                                result.status == GateStatus::undetermined ? "warning" : "error", message, file,
                                result.line, result.path));
    if (!result.report) continue;
    for (const Warning& warning : result.report->warnings) {
      if (warning.code == "undetermined") continue;
      if (codes.insert(warning.code).second)
        rules.push_back({{"id", warning.code}, {"shortDescription", {{"text", "A warning: " + warning.code}}}});
      found.push_back(result_of(warning.code, "note", (warning.key.empty() ? "" : warning.key + ": ") + warning.message,
                                warning.file.empty() ? result.path : warning.file, warning.line, result.path));
    }
  }
  Json driver = {{"name", "headroom"}, {"version", version}, {"rules", std::move(rules)}};
  Json run = {{"tool", {{"driver", std::move(driver)}}},
              {"columnKind", "unicodeCodePoints"},
              {"results", std::move(found)}};
  return dump({{"$schema", "https://json.schemastore.org/sarif-2.1.0.json"},
               {"version", "2.1.0"},
               {"runs", Json::array({std::move(run)})}});
}

}  // namespace headroom::writers
