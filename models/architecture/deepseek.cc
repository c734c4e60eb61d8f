#include "models/architecture/deepseek.h"

namespace headroom {
namespace {

Attention read_latent_attention(Config& config, const Defaults& defaults) {
  Attention attention;
  attention.kind = AttentionKind::latent;
  attention.heads = attention.kv_heads = config.essential("num_attention_heads", defaults.heads);
  attention.query_rank = config.size_or_none("q_lora_rank", 1536);
  attention.kv_rank = config.size("kv_lora_rank", 512);
  attention.nope_dim = config.size("qk_nope_head_dim", 128);
  attention.rope_dim = config.size("qk_rope_head_dim", 64);
  attention.value_head_dim = config.size("v_head_dim", 128);
  attention.head_dim = attention.nope_dim + attention.rope_dim;
  attention.rotary_dim = attention.rope_dim;
  attention.qkv_bias = attention.output_bias = config.flag("attention_bias", false);
  if (attention.query_rank > 0) attention.query_norm = rms_norm(attention.query_rank);
  attention.key_norm = rms_norm(attention.kv_rank);
  return attention;
}

void write_latent_attention(TensorWriter& out, const Attention& attention) {
  const std::int64_t hidden = out.decoder().hidden;
  const std::int64_t queries = attention.heads * attention.head_dim;
  if (attention.query_rank > 0) {
    out.linear("self_attn.q_a_proj", attention.query_rank, hidden, Split::replicated, attention.qkv_bias);
    out.norm("self_attn.q_a_layernorm", attention.query_norm);
    out.linear("self_attn.q_b_proj", queries, attention.query_rank, Split::column);
  } else {
    out.linear("self_attn.q_proj", queries, hidden, Split::column);
  }
  out.linear("self_attn.kv_a_proj_with_mqa", attention.kv_rank + attention.rope_dim, hidden,
             Split::replicated, attention.qkv_bias);
  out.norm("self_attn.kv_a_layernorm", attention.key_norm);
  out.linear("self_attn.kv_b_proj", attention.heads * (attention.nope_dim + attention.value_head_dim),
             attention.kv_rank, Split::column);
  out.linear("self_attn.o_proj", hidden, attention.heads * attention.value_head_dim, Split::row,
             attention.output_bias);
}

void write_experts_beside_shared(TensorWriter& out, const Mlp& mlp, const DeepseekNames& names) {
  const std::int64_t hidden = out.decoder().hidden;
  write_experts(out, "mlp.experts", mlp);
  if (names.router_linear) {
    out.linear("mlp.gate", mlp.experts, hidden, Split::replicated);
  } else {
    out.parameter("mlp.gate.weight", {mlp.experts, hidden});
  }
  if (names.router_correction) out.buffer("mlp.gate.e_score_correction_bias", {mlp.experts}, DType::fp32);
  if (mlp.shared_hidden > 0) write_gated_mlp(out, "mlp.shared_experts", {.hidden = mlp.shared_hidden});
}

}  // namespace

void place_deepseek_experts(Config& config, Decoder& decoder, const Layer& layer, const Defaults& defaults,
                            const DeepseekDefaults& deepseek) {
  const std::int64_t dense = config.count("first_k_dense_replace", deepseek.dense_layers);
  Mlp experts = read_experts(config, {"n_routed_experts", "num_experts"}, "moe_intermediate_size",
                             {.experts = deepseek.experts,
                              .experts_per_token = deepseek.experts_per_token,
                              .hidden = deepseek.expert_hidden,
                              .normalized = deepseek.normalized},
                             defaults.activation);
  // V2 ignores norm_topk_prob, and its groups where experts are chosen greedily.
  const bool grouped = deepseek.expert_groups > 0 || config.text("topk_method", "greedy") != "greedy";
  if (deepseek.expert_groups == 0) experts.normalized = false;
  if (grouped) {
    experts.expert_groups = config.size_or_none("n_group", deepseek.expert_groups);
    experts.open_groups = config.size_or_none("topk_group", deepseek.open_groups);
    if (experts.expert_groups > 0 && experts.experts % experts.expert_groups != 0)
      config.reject("n_group", "expected a number of groups that divides the routed experts");
  }
  experts.shared_hidden = experts.hidden * config.count("n_shared_experts", deepseek.shared_experts);
  if (experts.experts_per_token == 0 && dense < decoder.layers)
    config.reject("num_experts_per_tok", "expected the number of experts of a token, found none");
  decoder.groups = grouped_layers(decoder.layers, [&](std::int64_t i) {
    Layer next = layer;
    if (i >= dense) next.mlp = experts;
    return next;
  });
}

void describe_deepseek(Config& config, Architecture& model, const Defaults& defaults,
                       const DeepseekDefaults& deepseek) {
  Decoder& decoder = model.decoder = read_decoder(config, defaults);
  Layer layer;
  layer.attention = read_latent_attention(config, defaults);
  layer.mlp = read_gated_mlp(config, defaults);
  layer.attention_norm = layer.mlp_norm = rms_norm(decoder.hidden);

  place_deepseek_experts(config, decoder, layer, defaults, deepseek);
}

void write_deepseek_mlp(TensorWriter& out, const Mlp& mlp, const DeepseekNames& names) {
  if (mlp.kind == MlpKind::experts) {
    write_experts_beside_shared(out, mlp, names);
  } else {
    write_gated_mlp(out, "mlp", mlp);
  }
}

void write_deepseek(TensorWriter& out, const DeepseekNames& names) {
  write_llama_frame(out, [&](const Layer& layer) {
    write_latent_attention(out, layer.attention);
    write_deepseek_mlp(out, layer.mlp, names);
    out.norm("input_layernorm", layer.attention_norm);
    out.norm("post_attention_layernorm", layer.mlp_norm);
  });
}

}  // namespace headroom
