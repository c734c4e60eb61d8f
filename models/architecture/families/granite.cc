#include "models/architecture/blocks.h"
#include "models/architecture/family.h"

namespace headroom {

/// LLaMA with scalar multipliers, which own no memory.
extern const Family kGranite;
const Family kGranite{"granite", "GraniteDecoderLayer", describe_llama, write_llama};

}  // namespace headroom
