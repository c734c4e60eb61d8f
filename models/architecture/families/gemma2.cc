#include "models/architecture/blocks.h"
#include "models/architecture/family.h"
#include "models/architecture/gemma.h"
#include "models/architecture/layer_patterns.h"

namespace headroom {
namespace {

constexpr Defaults kDefaults{.vocabulary = 256000,
                             .hidden = 2304,
                             .intermediate = 9216,
                             .layers = 26,
                             .heads = 8,
                             .kv_heads = 4,
                             .head_dim = 256,
                             .max_positions = 8192,
                             .activation = "gelu_pytorch_tanh",
                             .tied = true};

/// Layers alternate between a window and everything, the window first.
void describe(Config& config, Architecture& model) {
  Decoder& decoder = model.decoder = read_decoder(config, kDefaults);
  Layer layer = read_layer(config, kDefaults, decoder.hidden);
  layer.residual = ResidualKind::sandwich;
  layer.attention_post_norm = layer.mlp_post_norm = rms_norm(decoder.hidden);
  layer.attention.softcap = config.number_or_none("attn_logit_softcapping", 50);
  decoder.logits_softcap = config.number_or_none("final_logit_softcapping", 30);
  apply_gemma(decoder, layer);
  const SlidingRule rule{.window = config.size_or_none("sliding_window", 4096), .full_every = 2};
  decoder.groups = read_sliding_layers(config, decoder.layers, layer, rule);
}

void write(TensorWriter& out) {
  write_llama_frame(out, [&](const Layer& layer) { write_gemma_layer(out, layer); });
}

}  // namespace

extern const Family kGemma2;
const Family kGemma2{"gemma2", "Gemma2DecoderLayer", describe, write};

}  // namespace headroom
