#include "models/architecture/family.h"
#include "models/architecture/qwen_vl.h"

namespace headroom {
namespace {

void describe(Config& config, Architecture& model) {
  describe_qwen_vl_text(config, model);
  Config vision = config.section("vision_config");
  model.vision = {.block_class = "Qwen2_5_VLVisionBlock",
                  .blocks = vision.size("depth", 32),
                  .hidden = vision.size("hidden_size", 3584),
                  .heads = vision.size("num_heads", 16),
                  .mlp_hidden = vision.size("intermediate_size", 3420),
                  .activation = vision.text("hidden_act", "silu"),
                  .norm = NormKind::rms,
                  .gated = true,
                  .channels = vision.size({"in_channels", "in_chans"}, 3),
                  .patch = vision.size("patch_size", 14),
                  .temporal_patch = vision.size("temporal_patch_size", 2),
                  .merge = vision.size("spatial_merge_size", 2),
                  .output = vision.size("out_hidden_size", 3584)};
}

void write(TensorWriter& out) {
  write_qwen_vision(out, [](TensorWriter& writer, const VisionTower& tower) {
    writer.linear("mlp.gate_proj", tower.mlp_hidden, tower.hidden, Split::column, true);
    writer.linear("mlp.up_proj", tower.mlp_hidden, tower.hidden, Split::column, true);
    writer.linear("mlp.down_proj", tower.hidden, tower.mlp_hidden, Split::row, true);
  });
  write_qwen_vl_text(out);
}

}  // namespace

extern const Family kQwen25Vl;
const Family kQwen25Vl{"qwen2_5_vl", "Qwen2_5_VLDecoderLayer", describe, write};

}  // namespace headroom
