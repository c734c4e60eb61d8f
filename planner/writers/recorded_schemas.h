#pragma once

namespace headroom::writers {

/// JSON Schemas of what `headroom replay` and `headroom compare` write.
const char* replay_schema();
const char* compare_schema();

}  // namespace headroom::writers
