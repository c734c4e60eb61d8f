#include "models/architecture/qwen3_next.h"

#include "models/architecture/blocks.h"
#include "models/architecture/family.h"

namespace headroom {
namespace {

constexpr QwenHybrid kNext{
    .defaults = {.vocabulary = 151936,
                 .hidden = 2048,
                 .intermediate = 5632,
                 .layers = 48,
                 .heads = 16,
                 .kv_heads = 2,
                 .head_dim = 256,
                 .max_positions = 32768},
    .experts = {.experts = 512, .experts_per_token = 10, .hidden = 512, .normalized = true},
    .shared_hidden = 512,
    .fused_projection = true};

void describe(Config& config, Architecture& model) {
  describe_qwen_hybrid(config, model, kNext);
}

void write(TensorWriter& out) {
  write_qwen_hybrid(out, "model");
}

}  // namespace

extern const Family kQwen3Next;
const Family kQwen3Next{"qwen3_next", "Qwen3NextDecoderLayer", describe, write, {.begin_token = false}};

}  // namespace headroom
