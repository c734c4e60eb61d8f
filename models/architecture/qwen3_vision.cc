#include "models/architecture/qwen3_vision.h"

#include <fmt/format.h>

#include <string>

#include "models/architecture/blocks.h"

namespace headroom {
namespace {

/// What joins merge² patches into one token: behind the tower a norm of a patch, at its depths one of the
/// joined patches.
void write_merger(TensorWriter& out, const std::string& at, bool joined_norm) {
  const VisionTower& tower = out.model().vision;
  const std::int64_t merged = tower.hidden * tower.merge * tower.merge;
  out.norm(at + ".norm", layer_norm(joined_norm ? merged : tower.hidden));
  out.linear(at + ".linear_fc1", merged, merged, Split::column, true);
  out.linear(at + ".linear_fc2", tower.output, merged, Split::row, true);
}

}  // namespace

VisionTower read_qwen3_vision(Config& config, std::string_view block_class, std::int64_t depths) {
  Config vision = config.section("vision_config");
  if (const auto listed = vision.sizes("deepstack_visual_indexes");
      listed && static_cast<std::int64_t>(listed->size()) != depths)
    vision.reject("deepstack_visual_indexes",
                  fmt::format("expected {} depths, as in all public models", depths));
  return {.block_class = std::string(block_class),
          .blocks = vision.size("depth", 27),
          .hidden = vision.size("hidden_size", 1152),
          .heads = vision.size("num_heads", 16),
          .mlp_hidden = vision.size("intermediate_size", 4304),
          .activation = vision.text("hidden_act", "gelu_pytorch_tanh"),
          .channels = vision.size("in_channels", 3),
          .patch = vision.size("patch_size", 16),
          .temporal_patch = vision.size("temporal_patch_size", 2),
          .merge = vision.size("spatial_merge_size", 2),
          .position_rows = vision.size("num_position_embeddings", 2304),
          .output = vision.size("out_hidden_size", 3584)};
}

void write_qwen3_vision(TensorWriter& out, std::int64_t depths) {
  const VisionTower& tower = out.model().vision;
  const std::int64_t width = tower.hidden;
  out.place(Place::vision);
  out.parameter("model.visual.patch_embed.proj.weight",
                {width, tower.channels, tower.temporal_patch, tower.patch, tower.patch});
  out.parameter("model.visual.patch_embed.proj.bias", {width});
  out.parameter("model.visual.pos_embed.weight", {tower.position_rows, width});
  out.buffer("model.visual.rotary_pos_emb.inv_freq", {width / tower.heads / 4}, DType::fp32);
  out.vision_blocks("model.visual.blocks", tower.blocks, [&] {
    out.norm("norm1", layer_norm(width));
    out.norm("norm2", layer_norm(width));
    out.linear("attn.qkv", 3 * width, width, Split::column, true);
    out.linear("attn.proj", width, width, Split::row, true);
    out.linear("mlp.linear_fc1", tower.mlp_hidden, width, Split::column, true);
    out.linear("mlp.linear_fc2", width, tower.mlp_hidden, Split::row, true);
  });
  write_merger(out, "model.visual.merger", false);
  for (std::int64_t i = 0; i < depths; ++i)
    write_merger(out, "model.visual.deepstack_merger_list." + std::to_string(i), true);
}

}  // namespace headroom
