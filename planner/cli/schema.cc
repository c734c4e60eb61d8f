#include "planner/cli/schema.h"

#include <ostream>

#include "planner/frameworks/job/file.h"

namespace headroom::cli {

Command schema_command() {
  return {"schema", "prints the JSON Schema of Headroom's own job file", {}, 0, schema};
}

int schema(const Arguments&, Streams& streams) {
  streams.out << jobfile::job_schema();
  return 0;
}

}  // namespace headroom::cli
