#include "models/architecture/gemma.h"

#include <cmath>

#include "models/architecture/blocks.h"

namespace headroom {

void apply_gemma(Decoder& decoder, Layer& layer) {
  decoder.embedding_scale = std::sqrt(static_cast<double>(decoder.hidden));
  Attention& attention = layer.attention;
  for (Norm* norm : {&decoder.final_norm, &layer.attention_norm, &layer.mlp_norm, &layer.attention_post_norm,
                     &layer.mlp_post_norm, &attention.query_norm, &attention.key_norm})
    norm->plus_one = norm->present();
}

void write_gemma_layer(TensorWriter& out, const Layer& layer) {
  write_attention(out, "self_attn", layer.attention);
  write_gated_mlp(out, "mlp", layer.mlp);
  out.norm("input_layernorm", layer.attention_norm);
  out.norm("post_attention_layernorm", layer.attention_post_norm);
  out.norm("pre_feedforward_layernorm", layer.mlp_norm);
  out.norm("post_feedforward_layernorm", layer.mlp_post_norm);
}

}  // namespace headroom
