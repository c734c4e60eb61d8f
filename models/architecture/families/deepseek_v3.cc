#include "models/architecture/blocks.h"
#include "models/architecture/deepseek.h"
#include "models/architecture/family.h"

namespace headroom {
namespace {

constexpr Defaults kDefaults{.vocabulary = 129280,
                             .hidden = 7168,
                             .intermediate = 18432,
                             .layers = 61,
                             .heads = 128,
                             .kv_heads = 128,
                             .max_positions = 4096};

constexpr DeepseekDefaults kDeepseek{.dense_layers = 3,
                                     .experts = 256,
                                     .experts_per_token = 8,
                                     .expert_hidden = 2048,
                                     .shared_experts = 1,
                                     .normalized = true,
                                     .expert_groups = 8,
                                     .open_groups = 4};

void describe(Config& config, Architecture& model) {
  describe_deepseek(config, model, kDefaults, kDeepseek);
}

void write(TensorWriter& out) {
  write_deepseek(out, {.router_linear = false, .router_correction = true});
}

}  // namespace

extern const Family kDeepseekV3;
const Family kDeepseekV3{"deepseek_v3", "DeepseekV3DecoderLayer", describe, write};

/// Kimi K2 is DeepSeek-V3 under a name of its own.
extern const Family kKimiK2;
const Family kKimiK2{"kimi_k2", "DeepseekV3DecoderLayer", describe, write};

/// GLM-4.7-Flash: DeepSeek-V3's layers in other sizes, which its public config states in full.
extern const Family kGlm4MoeLite;
const Family kGlm4MoeLite{
    "glm4_moe_lite", "Glm4MoeLiteDecoderLayer", describe, write, {.begin_token = false}};

}  // namespace headroom
