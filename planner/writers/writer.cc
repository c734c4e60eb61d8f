#include "planner/writers/writer.h"

#include <array>

#include "planner/writers/csv.h"
#include "planner/writers/json.h"
#include "planner/writers/markdown.h"

namespace headroom::writers {

std::span<const Writer> writers() {
  static constexpr std::array<Writer, 3> table = {{
      {"--json", json},
      {"--csv", csv},
      {"--markdown", markdown},
  }};
  return table;
}

}  // namespace headroom::writers
