#include "models/architecture/blocks.h"
#include "models/architecture/deepseek.h"
#include "models/architecture/family.h"

namespace headroom {
namespace {

constexpr Defaults kDefaults{.vocabulary = 32000};

constexpr DeepseekDefaults kDeepseek{
    .dense_layers = 0, .experts = 64, .experts_per_token = 0, .expert_hidden = 1407, .shared_experts = 2};

void describe(Config& config, Architecture& model) {
  describe_deepseek(config, model, kDefaults, kDeepseek);
}

void write(TensorWriter& out) {
  write_deepseek(out, {.router_linear = true, .router_correction = false});
}

}  // namespace

extern const Family kDeepseekV2;
const Family kDeepseekV2{"deepseek_v2", "DeepseekV2DecoderLayer", describe, write};

}  // namespace headroom
