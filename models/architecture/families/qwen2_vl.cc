#include "models/architecture/family.h"
#include "models/architecture/qwen_vl.h"

namespace headroom {
namespace {

void describe(Config& config, Architecture& model) {
  describe_qwen_vl_text(config, model);
  Config vision = config.section("vision_config");
  VisionTower& tower = model.vision;
  tower = {.block_class = "Qwen2VLVisionBlock",
           .blocks = vision.size("depth", 32),
           .hidden = vision.size("embed_dim", 1280),
           .heads = vision.size("num_heads", 16),
           .activation = vision.text("hidden_act", "quick_gelu"),
           .channels = vision.size({"in_channels", "in_chans"}, 3),
           .patch = vision.size("patch_size", 14),
           .temporal_patch = vision.size("temporal_patch_size", 2),
           .merge = vision.size("spatial_merge_size", 2),
           .output = vision.size("hidden_size", 3584)};
  tower.mlp_hidden =
      static_cast<std::int64_t>(static_cast<double>(tower.hidden) * vision.number("mlp_ratio", 4));
}

void write(TensorWriter& out) {
  write_qwen_vision(out, [](TensorWriter& writer, const VisionTower& tower) {
    writer.linear("mlp.fc1", tower.mlp_hidden, tower.hidden, Split::column, true);
    writer.linear("mlp.fc2", tower.hidden, tower.mlp_hidden, Split::row, true);
  });
  write_qwen_vl_text(out);
}

}  // namespace

extern const Family kQwen2Vl;
const Family kQwen2Vl{"qwen2_vl", "Qwen2VLDecoderLayer", describe, write};

}  // namespace headroom
