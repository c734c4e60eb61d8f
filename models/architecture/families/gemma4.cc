#include <cmath>
#include <string>

#include "models/architecture/blocks.h"
#include "models/architecture/family.h"
#include "models/architecture/gemma.h"
#include "models/architecture/layer_patterns.h"

namespace headroom {
namespace {

constexpr Defaults kDefaults{.vocabulary = 262144,
                             .hidden = 2304,
                             .intermediate = 9216,
                             .layers = 30,
                             .heads = 8,
                             .kv_heads = 4,
                             .head_dim = 256,
                             .max_positions = 131072,
                             .activation = "gelu_pytorch_tanh",
                             .tied = true};

/// What layers that see all tokens have instead, and which layers take others' keys and values.
struct Rules {
  std::int64_t global_head = 0, global_kv_heads = 0;
  bool key_is_value = false;  ///< in full layers
  std::int64_t first_borrower = 0;
  bool wide_borrowers = false;  ///< their MLP is twice as wide
};

Layer layer_at(const Layer& layer, std::int64_t index, const Rules& rules) {
  Layer out = layer;
  Attention& attention = out.attention;
  if (attention.sliding_window == 0) {
    attention.head_dim = attention.value_head_dim = attention.rotary_dim = rules.global_head;
    attention.key_is_value = rules.key_is_value;
    if (rules.key_is_value) attention.kv_heads = rules.global_kv_heads;
  }
  attention.query_norm = attention.key_norm = attention.value_norm = rms_norm(attention.head_dim);
  attention.value_norm.weight = false;
  if (index < rules.first_borrower) return out;
  attention.borrows = true;
  attention.key_norm = attention.value_norm = {};
  if (rules.wide_borrowers) out.mlp.hidden *= 2;
  return out;
}

/// Gemma 3's layer with heads twice as wide where all tokens are seen, values normed, the last layers borrowing keys
/// and values, and an embedding of each token for each layer.
void describe_text(Config& config, Architecture& model) {
  Decoder& decoder = model.decoder = read_decoder(config, kDefaults);
  Layer layer = read_layer(config, kDefaults, decoder.hidden);
  layer.residual = ResidualKind::sandwich;
  layer.attention_post_norm = layer.mlp_post_norm = rms_norm(decoder.hidden);
  layer.token_width = config.size_or_none("hidden_size_per_layer_input", 256);
  if (layer.token_width > 0) {
    layer.token_norm = rms_norm(decoder.hidden);
    decoder.token_rows = config.size("vocab_size_per_layer_input", 262144);
  }
  if (config.flag("enable_moe_block", false))
    config.reject("enable_moe_block", "expected false; experts beside a dense MLP are not modelled");
  decoder.embedding_scale = std::sqrt(static_cast<double>(decoder.hidden));
  decoder.logits_softcap = config.number_or_none("final_logit_softcapping", 0);
  const SlidingRule sliding{.window = config.size_or_none("sliding_window", 512), .full_every = 6};
  Rules rules{.global_head = config.size_or_none("global_head_dim", 512),
              .global_kv_heads = config.size_or_none("num_global_key_value_heads", layer.attention.kv_heads),
              .key_is_value = config.flag("attention_k_eq_v", false),
              .first_borrower = decoder.layers - config.count("num_kv_shared_layers", 0),
              .wide_borrowers = config.flag("use_double_wide_mlp", false)};
  if (rules.global_head == 0) rules.global_head = layer.attention.head_dim;
  if (rules.global_kv_heads == 0) rules.global_kv_heads = layer.attention.kv_heads;
  if (rules.first_borrower < 1) {
    config.reject("num_kv_shared_layers", "expected fewer than num_hidden_layers");
    rules.first_borrower = 1;
  }
  Decoder windows = decoder;
  windows.groups = read_sliding_layers(config, decoder.layers, layer, sliding);
  bool lent[2] = {false, false};  // by a full, by a sliding layer
  decoder.groups = grouped_layers(decoder.layers, [&](std::int64_t i) {
    Layer here = windows.layer(i);
    // The last layer sees everything, whatever the list says.
    if (i + 1 == decoder.layers) here.attention.sliding_window = 0;
    bool& lender = lent[here.attention.sliding_window > 0 ? 1 : 0];
    lender = lender || i < rules.first_borrower;
    if (!lender)
      config.reject("num_kv_shared_layers", "expected a layer of each kind before those that share keys and values");
    return layer_at(here, i, rules);
  });
}

/// Sizes of the encoder of sound, of which only the weights are known here.
struct Sound {
  std::int64_t layers = 0, hidden = 0, kernel = 0, heads = 0, output = 0, first = 0, second = 0;
};

Sound read_sound(Config& config) {
  if (!config.has("audio_config") || config.is_null("audio_config")) return {};
  Config sound = config.section("audio_config");
  const auto channels = sound.sizes("subsampling_conv_channels").value_or(std::vector<std::int64_t>{128, 32});
  return {.layers = sound.size("num_hidden_layers", 12),
          .hidden = sound.size("hidden_size", 1024),
          .kernel = sound.size("conv_kernel_size", 5),
          .heads = sound.size("num_attention_heads", 8),
          .output = sound.size("output_proj_dims", 1536),
          .first = channels.empty() ? 0 : channels.front(),
          .second = channels.empty() ? 0 : channels.back()};
}

void describe_both(Config& config, Architecture& model) {
  if (!config.has("text_config")) config.reject("text_config", "expected the decoder's sizes, found none");
  Config text = config.section("text_config");
  describe_text(text, model);
  model.decoder.tied_embeddings = config.flag("tie_word_embeddings", model.decoder.tied_embeddings);
  const Sound sound = read_sound(config);
  model.sound = {.blocks = sound.layers,
                 .hidden = sound.hidden,
                 .heads = sound.heads,
                 .kernel = sound.kernel,
                 .channels = {sound.first, sound.second},
                 .output = sound.output};
  if (!config.has("vision_config") || config.is_null("vision_config")) return;
  Config vision = config.section("vision_config");
  model.vision = {.block_class = "Gemma4VisionEncoderLayer",
                  .blocks = vision.size("num_hidden_layers", 16),
                  .hidden = vision.size("hidden_size", 768),
                  .heads = vision.size("num_attention_heads", 12),
                  .mlp_hidden = vision.size("intermediate_size", 3072),
                  .activation = vision.text("hidden_activation", "gelu_pytorch_tanh"),
                  .norm = NormKind::rms,
                  .gated = true,
                  .patch = vision.size("patch_size", 16),
                  .merge = vision.size("pooling_kernel_size", 3),
                  .position_rows = vision.size("position_embedding_size", 10240),
                  .output = model.decoder.hidden};
}

/// A linear of a tower: within a module that can clamp what goes in and out.
void clipped(TensorWriter& out, const std::string& name, std::int64_t rows, std::int64_t columns, Split split) {
  out.linear(name + ".linear", rows, columns, split);
}

void write_vision(TensorWriter& out) {
  const VisionTower& tower = out.model().vision;
  if (tower.blocks == 0) return;
  const std::int64_t width = tower.hidden, head = width / tower.heads;
  const std::string at = "model.vision_tower.";
  out.place(Place::vision);
  out.parameter(at + "patch_embedder.position_embedding_table", {2, tower.position_rows, width});
  out.linear(at + "patch_embedder.input_proj", width, tower.channels * tower.patch * tower.patch, Split::replicated);
  out.vision_blocks(at + "encoder.layers", tower.blocks, [&] {
    for (const char* name : {"q_proj", "k_proj", "v_proj"})
      clipped(out, std::string("self_attn.") + name, width, width, Split::column);
    clipped(out, "self_attn.o_proj", width, width, Split::row);
    out.norm("self_attn.q_norm", rms_norm(head));
    out.norm("self_attn.k_norm", rms_norm(head));
    clipped(out, "mlp.gate_proj", tower.mlp_hidden, width, Split::column);
    clipped(out, "mlp.up_proj", tower.mlp_hidden, width, Split::column);
    clipped(out, "mlp.down_proj", width, tower.mlp_hidden, Split::row);
    for (const char* name : {"input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm",
                             "post_feedforward_layernorm"})
      out.norm(name, rms_norm(width));
  });
  out.place(Place::embedding);
}

void write_feed_forward(TensorWriter& out, const std::string& name, std::int64_t width) {
  clipped(out, name + ".ffw_layer_1", 4 * width, width, Split::column);
  clipped(out, name + ".ffw_layer_2", width, 4 * width, Split::row);
  out.norm(name + ".pre_layer_norm", rms_norm(width));
  out.norm(name + ".post_layer_norm", rms_norm(width));
}

void write_sound_block(TensorWriter& out, const SoundTower& tower) {
  const std::int64_t width = tower.hidden;
  write_feed_forward(out, "feed_forward1", width);
  write_feed_forward(out, "feed_forward2", width);
  out.parameter("self_attn.per_dim_scale", {width / tower.heads});
  for (const char* name : {"q_proj", "k_proj", "v_proj", "post"})
    clipped(out, std::string("self_attn.") + name, width, width, Split::replicated);
  out.linear("self_attn.relative_k_proj", width, width, Split::replicated);
  clipped(out, "lconv1d.linear_start", 2 * width, width, Split::replicated);
  clipped(out, "lconv1d.linear_end", width, width, Split::replicated);
  out.parameter("lconv1d.depthwise_conv1d.weight", {width, 1, tower.kernel});
  out.norm("lconv1d.pre_layer_norm", rms_norm(width));
  out.norm("lconv1d.conv_norm", rms_norm(width));
  for (const char* name : {"norm_pre_attn", "norm_post_attn", "norm_out"}) out.norm(name, rms_norm(width));
}

void write_sound(TensorWriter& out) {
  const SoundTower& tower = out.model().sound;
  if (tower.blocks == 0) return;
  constexpr std::int64_t kSide = 3;  // of the two convolutions that halve time and frequency
  const std::string at = "model.audio_tower.", sampled = at + "subsample_conv_projection.";
  const auto [first, second] = tower.channels;
  out.parameter(sampled + "layer0.conv.weight", {first, 1, kSide, kSide});
  out.parameter(sampled + "layer0.norm.weight", {first}, TensorRole::norm);
  out.parameter(sampled + "layer1.conv.weight", {second, first, kSide, kSide});
  out.parameter(sampled + "layer1.norm.weight", {second}, TensorRole::norm);
  out.linear(sampled + "input_proj_linear", tower.hidden, first / 4 * second, Split::replicated);
  out.vision_blocks(at + "layers", tower.blocks, [&] { write_sound_block(out, tower); });
  out.linear(at + "output_proj", tower.output, tower.hidden, Split::replicated, true);
}

void write_towers_behind(TensorWriter& out) {
  const Architecture& model = out.model();
  out.place(Place::vision);
  write_sound(out);
  if (model.vision.blocks > 0)
    out.linear("model.embed_vision.embedding_projection", model.decoder.hidden, model.vision.hidden, Split::replicated);
  if (model.sound.blocks > 0)
    out.linear("model.embed_audio.embedding_projection", model.decoder.hidden, model.sound.output, Split::replicated);
}

void write_layer(TensorWriter& out, const Layer& layer) {
  const Attention& a = layer.attention;
  const std::int64_t hidden = out.decoder().hidden, keys = a.kv_heads * a.head_dim;
  out.linear("self_attn.q_proj", a.heads * a.head_dim, hidden, Split::column, a.qkv_bias);
  out.norm("self_attn.q_norm", a.query_norm);
  if (!a.borrows) {
    out.norm("self_attn.k_norm", a.key_norm);
    out.linear("self_attn.k_proj", keys, hidden, Split::qkv, a.qkv_bias);
    if (!a.key_is_value) out.linear("self_attn.v_proj", keys, hidden, Split::qkv, a.qkv_bias);
  }
  out.linear("self_attn.o_proj", hidden, a.heads * a.head_dim, Split::row, a.output_bias);
  write_gated_mlp(out, "mlp", layer.mlp);
  out.norm("input_layernorm", layer.attention_norm);
  out.norm("post_attention_layernorm", layer.attention_post_norm);
  out.norm("pre_feedforward_layernorm", layer.mlp_norm);
  out.norm("post_feedforward_layernorm", layer.mlp_post_norm);
  out.buffer("layer_scalar", {1}, out.model().dtype);
  if (layer.token_width == 0) return;
  out.linear("per_layer_input_gate", layer.token_width, hidden, Split::replicated);
  out.linear("per_layer_projection", hidden, layer.token_width, Split::replicated);
  out.norm("post_per_layer_input_norm", layer.token_norm);
}

void write_rotaries(TensorWriter& out, const std::string& module) {
  std::int64_t full = 0, sliding = 0;
  for (const LayerGroup& group : out.decoder().groups) {
    const Attention& attention = group.layer.attention;
    (attention.sliding_window > 0 ? sliding : full) = attention.rotary_dim / 2;
  }
  for (const auto& [size, type] : {std::pair{full, "full"}, std::pair{sliding, "sliding"}}) {
    if (size == 0) continue;
    out.buffer(module + "." + type + "_attention_inv_freq", {size}, DType::fp32);
    out.buffer(module + "." + type + "_attention_original_inv_freq", {size}, DType::fp32);
  }
}

void write_text_at(TensorWriter& out, const std::string& body) {
  const Decoder& decoder = out.decoder();
  out.embedding(body + ".embed_tokens", decoder.vocabulary, decoder.hidden);
  out.buffer(body + ".embed_tokens.embed_scale", {}, DType::fp32);
  out.layers(body + ".layers", [&](const Layer& layer) { write_layer(out, layer); });
  out.norm(body + ".norm", decoder.final_norm);
  write_rotaries(out, body + ".rotary_emb");
  if (decoder.token_rows == 0) return;
  const std::int64_t width = decoder.layer(0).token_width, all = decoder.layers * width;
  // Looked up beside the embedding, on the first stage.
  out.place(Place::embedding);
  out.embedding(body + ".embed_tokens_per_layer", decoder.token_rows, all);
  out.buffer(body + ".embed_tokens_per_layer.embed_scale", {}, DType::fp32);
  out.linear(body + ".per_layer_model_projection", all, decoder.hidden, Split::replicated);
  out.norm(body + ".per_layer_projection_norm", rms_norm(width));
}

void write_text(TensorWriter& out) {
  write_text_at(out, "model");
  out.head("lm_head", "model.embed_tokens.weight", out.decoder().hidden);
}

void write_both(TensorWriter& out) {
  write_vision(out);
  write_text_at(out, "model.language_model");
  write_towers_behind(out);
  out.head("lm_head", "model.language_model.embed_tokens.weight", out.decoder().hidden);
}

}  // namespace

extern const Family kGemma4, kGemma4Text;
const Family kGemma4Text{"gemma4_text", "Gemma4TextDecoderLayer", describe_text, write_text};
const Family kGemma4{"gemma4", "Gemma4TextDecoderLayer", describe_both, write_both};

}  // namespace headroom
