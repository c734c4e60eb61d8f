#include "planner/cli/schema.h"

#include <fmt/format.h>

#include <array>
#include <ostream>
#include <vector>

#include "models/base/nearest.h"
#include "planner/frameworks/job/file.h"
#include "planner/writers/gate.h"
#include "planner/writers/json.h"
#include "planner/writers/recorded_schemas.h"
#include "planner/writers/study/study.h"

namespace headroom::cli {
namespace {

struct Schema {
  std::string_view name;
  std::string (*text)();
};

/// A command's name stands for what its --json writes.
constexpr std::array<Schema, 11> kSchemas = {{
    {"job", [] { return std::string(jobfile::job_schema()); }},
    {"report", [] { return std::string(writers::report_schema()); }},
    {"estimate", [] { return std::string(writers::report_schema()); }},
    {"simulate", [] { return std::string(writers::report_schema()); }},
    {"plan", [] { return std::string(writers::report_schema()); }},
    {"explain", [] { return std::string(writers::report_schema()); }},
    {"solve", [] { return std::string(writers::report_schema()); }},
    {"replay", [] { return std::string(writers::replay_schema()); }},
    {"compare", [] { return std::string(writers::compare_schema()); }},
    {"check", [] { return std::string(writers::gate_schema()); }},
    {"study", [] { return std::string(writers::study_schema()); }},
}};

}  // namespace

Command schema_command() {
  return {"schema",
          "prints a JSON Schema: of the own job file, or of what a command's --json writes",
          {{"NAME", "", "job (the default), report, check, or a command: estimate, simulate, plan, solve, explain, replay, compare, study"}},
          0,
          schema};
}

int schema(const Arguments& arguments, Streams& streams) {
  const std::string name = arguments.text("NAME", "job");
  std::vector<std::string_view> known;
  for (const Schema& one : kSchemas) {
    if (one.name == name) {
      streams.verbatim = true;
      streams.out << one.text();
      return kDone;
    }
    known.push_back(one.name);
  }
  const std::string near = nearest(name, known);
  return report_error({.message = fmt::format("expected one of job, report, check and a command, found '{}'{}", name,
                                              near.empty() ? "" : "; did you mean '" + near + "'?"),
                       .file = {},
                       .key = "NAME"},
                      streams);
}

}  // namespace headroom::cli
