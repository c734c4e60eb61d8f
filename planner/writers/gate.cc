#include "planner/writers/gate.h"

#include <fmt/format.h>

#include "planner/writers/markdown.h"
#include "planner/writers/report_json.h"
#include "planner/writers/table.h"

namespace headroom::writers {
namespace {

using Json = nlohmann::ordered_json;

Json result_json(const GateResult& result) {
  Json out = {{"file", result.path}, {"status", name(result.status)}, {"reason", result.reason}};
  if (!result.key.empty() || result.line > 0) {
    out["blame"] = {{"file", result.file}};
    if (result.line > 0) out["blame"]["line"] = result.line;
    if (!result.key.empty()) out["blame"]["key"] = result.key;
  }
  if (result.before) out["baseline_peak_device"] = *result.before;
  if (result.report) out["report"] = report_json(*result.report);
  return out;
}

}  // namespace

std::string_view name(GateStatus status) {
  switch (status) {
    case GateStatus::fits:
      return "fits";
    case GateStatus::undetermined:
      return "undetermined";
    case GateStatus::over:
      return "over";
    case GateStatus::grown:
      return "grown";
    case GateStatus::failed:
      return "error";
  }
  return "";
}

GateCounts counts(std::span<const GateResult> results) {
  GateCounts out;
  for (const GateResult& result : results) {
    switch (result.status) {
      case GateStatus::fits:
        ++out.fits;
        break;
      case GateStatus::undetermined:
        ++out.undetermined;
        break;
      case GateStatus::over:
        ++out.over;
        break;
      case GateStatus::grown:
        ++out.grown;
        break;
      case GateStatus::failed:
        ++out.failed;
        break;
    }
  }
  return out;
}

std::string totals(std::span<const GateResult> results) {
  const GateCounts n = counts(results);
  std::string out = fmt::format("{} configuration{}:", n.all(), n.all() == 1 ? "" : "s");
  const char* separator = " ";
  const auto add = [&](std::size_t count, const char* one, const char* many) {
    if (count == 0) return;
    out += fmt::format("{}{} {}", separator, count, count == 1 ? one : many);
    separator = ", ";
  };
  add(n.fits, "fits", "fit");
  add(n.over, "does not fit", "do not fit");
  add(n.grown, "grows too much", "grow too much");
  add(n.undetermined, "is undetermined", "are undetermined");
  add(n.failed, "could not be read", "could not be read");
  return out;
}

std::string gate_json(std::span<const GateResult> results) {
  const GateCounts n = counts(results);
  Json out = {{"schema", "headroom.check/1"},
              {"counts",
               {{"fits", n.fits},
                {"over", n.over},
                {"grown", n.grown},
                {"undetermined", n.undetermined},
                {"error", n.failed}}},
              {"configurations", Json::array()}};
  for (const GateResult& result : results) out["configurations"].push_back(result_json(result));
  return dump(out);
}

const char* gate_schema() {
  return R"json({
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "$id": "headroom.check/1",
  "title": "What the gate says of each configuration. Sizes are bytes.",
  "type": "object",
  "required": ["schema", "counts", "configurations"],
  "additionalProperties": false,
  "properties": {
    "schema": {"const": "headroom.check/1"},
    "counts": {
      "type": "object",
      "required": ["fits", "over", "grown", "undetermined", "error"],
      "additionalProperties": {"type": "integer"}
    },
    "configurations": {
      "type": "array",
      "items": {
        "type": "object",
        "required": ["file", "status", "reason"],
        "additionalProperties": false,
        "properties": {
          "file": {"type": "string", "description": "the configuration, as it was named or found"},
          "status": {"enum": ["fits", "over", "grown", "undetermined", "error"]},
          "reason": {"type": "string", "description": "the verdict in a sentence, or what is wrong"},
          "blame": {
            "type": "object",
            "required": ["file"],
            "additionalProperties": false,
            "properties": {"file": {"type": "string"}, "line": {"type": "integer"}, "key": {"type": "string"}}
          },
          "baseline_peak_device": {"type": "integer"},
          "report": {"type": "object", "description": "headroom.report/1"}
        }
      }
    }
  }
}
)json";
}

std::string gate_markdown(std::span<const GateResult> results) {
  std::string out = "### " + totals(results) + "\n\n| configuration | | peak GiB | spare GiB | |\n";
  out += "| --- | --- | ---: | ---: | --- |\n";
  for (const GateResult& result : results) {
    std::string peak, left;
    if (result.report)
      if (const PeakPlace place = highest(*result.report); place.phase != nullptr) {
        peak = gib(place.phase->peak_device);
        left = gib(spare(*result.report));
      }
    const bool good = result.status == GateStatus::fits;
    out += fmt::format("| {} | {} | {} | {} | {} |\n", markdown_text(result.path),
                       good ? "fits" : fmt::format("**{}**", name(result.status)), peak, left,
                       good ? "" : markdown_text(result.reason));
  }
  return out;
}

}  // namespace headroom::writers
