#include "planner/writers/writer.h"

#include <array>

#include "planner/writers/csv.h"
#include "planner/writers/html/html.h"
#include "planner/writers/json.h"
#include "planner/writers/markdown.h"

namespace headroom::writers {

std::span<const Writer> writers() {
  static constexpr std::array<Writer, 4> table = {{
      {"--json", json},
      {"--html", html},
      {"--csv", csv},
      {"--markdown", markdown},
  }};
  return table;
}

}  // namespace headroom::writers
