#include "models/architecture/blocks.h"
#include "models/architecture/family.h"

namespace headroom {

extern const Family kLlama;
const Family kLlama{"llama", "LlamaDecoderLayer", describe_llama, write_llama};

}  // namespace headroom
