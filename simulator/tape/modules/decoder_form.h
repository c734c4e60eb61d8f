#pragma once

#include <string_view>

#include "models/architecture/architecture.h"
#include "models/base/result.h"
#include "simulator/job/role.h"

namespace headroom::tape {

/// How rotary positions are applied to queries and keys.
enum class RotaryForm {
  halves,       ///< x cos + rotate_half(x) sin over the whole head (Llama)
  partial,      ///< the same over a head's first columns, joined with the others (Phi, StableLM)
  leading,      ///< the same, its parts let go at once (Qwen3-Next)
  joined,       ///< the same, each joined in the expression that turns it; the whole head too (Phi-3)
  pairs,        ///< neighbouring columns turn together: rotate_half by stacking (GLM; a part of the head)
  pairs_fp32,   ///< the same in fp32 and cast back (Cohere)
  halves_fp32,  ///< cos and sin stay fp32, the results are cast (OLMo)
  interleaved,  ///< even and odd columns turn together, each by a strided view (DeepSeek-V3)
  half_tables,  ///< a head's halves by tables of half its width (GPT-OSS)
  complex,      ///< products of complex numbers in fp32 (DeepSeek-V2)
};

/// How one projection holds queries, keys and values.
enum class QkvForm {
  columns,  ///< all queries, all keys, all values (Phi-3, Baichuan)
  by_head,  ///< q, k, v of a head beside each other (Bloom, Falcon-RW)
  shared,   ///< one key and one value head behind the queries (Falcon-7B)
  groups,   ///< a group's queries, its key and its value (InternLM2)
  widened,  ///< the same, keys and values copied for every query head (Falcon-40B)
};

enum class RouterForm {
  softmax,       ///< fp32 softmax of the logits; weights stay fp32 (Mixtral)
  softmax_cast,  ///< the same, weights cast to the logits' dtype (Qwen-MoE, OLMoE)
  softmax_last,  ///< softmax of the chosen logits, in their dtype (GPT-OSS)
  softmax_fp32,  ///< logits out of an fp32 product (DeepSeek-V2)
  sigmoid_fp32,  ///< fp32 sigmoid, a correction, groups of experts first (DeepSeek-V3)
};

/// How a family's code in Transformers names and arranges what its blocks describe: data, one row a family.
/// Blocks say the sizes; this says the rest. Rows without a recording follow the source.
struct DecoderForm {
  std::string_view family;
  /// Modules of a layer in the order of their making: q k v o projections, f the fused one, L latent
  /// attention, S sinks, Q K norms; g u d gate, up, down (G: gate and up in one), m the MLP whatever it is, e
  /// experts, r router, s shared expert, x its gate, l projections to and from the experts' own width; 1 and
  /// 2 norms before attention and MLP, 3 and 4 norms behind them; T what takes the layer's own embedding of a token (Gemma 4). Another mixer stands where attention's
  /// first part would.
  std::string_view order = "qkvoQKm12";
  std::string_view experts_order = "re", mlp_order = "gud", router_module = "gate";
  std::string_view body = "model", embedding = "embed_tokens", embedding_norm = {}, layers = "layers";
  std::string_view final_norm = "norm", head = "lm_head";
  std::string_view attention = "self_attn", query = "q_proj", key = "k_proj", value = "v_proj";
  std::string_view qkv = "qkv_proj", output = "o_proj", query_norm = "q_norm", key_norm = "k_norm";
  std::string_view state = "linear_attn";  ///< a mixer that keeps a state
  std::string_view mlp = "mlp", gate = "gate_proj", up = "up_proj", down = "down_proj";
  std::string_view gate_up = "gate_up_proj", shared = "shared_experts";
  std::string_view norms[4] = {"input_layernorm", "post_attention_layernorm", "", ""};
  RotaryForm rotary = RotaryForm::halves;
  QkvForm qkv_form = QkvForm::columns;
  RouterForm router = RouterForm::softmax;
  bool clamped_gate = false;     ///< experts' gate and up alternate and are clamped (GPT-OSS)
  bool unprobed_masks = false;   ///< made without a look for packed sequences (GPT-OSS)
  bool eager_only = false;       ///< its attention has no SDPA form
  bool flash_drops_sinks = false;  ///< FlashAttention 2 runs all the same, without the sinks (verl issue 3894)
  bool python_norm = false;      ///< LayerNorm out of separate operators in fp32 (Cohere)
  bool late_norm_cast = false;   ///< RMSNorm multiplies its weight in fp32, then casts (OLMo 2)
  bool norms_by_head = false;    ///< query and key norms have a weight for each head (Cohere)
  bool branches_scaled = false;  ///< each branch and the embeddings are multiplied by a number (Granite)
  bool logits_scaled = false;    ///< so are the logits
  bool scale_buffer = false;     ///< the embedding's scale is a buffer on the device (Gemma)
  bool two_rotaries = false;     ///< sliding and full layers have frequencies of their own (Gemma 3)
  bool late_views = false;       ///< heads are split once all three projections stand
  bool late_norms = false;       ///< query and key norms stand on the split heads of all three (Gemma 3)
  bool named_branches = false;   ///< results of branches keep variables of their own (StableLM, Falcon)
  bool named_norms = false;      ///< so do those of norms (Falcon)
  bool always_masked = false;    ///< attention is given a mask even when nothing is padded, and grouped
                                 ///< heads as they are (Falcon)
  bool alibi_in_mask = false;    ///< ALiBi's biases are part of that mask; rotary tables are made too
  bool product_linears = false;  ///< linears are written x @ W.T + b (Falcon)
  bool sum_in_place = false;     ///< attention's result is added to the MLP's in place (Falcon)
  bool residual_first = false;   ///< parallel branches join the residual one after the other (Cohere)
  bool unscaled_scores = false;  ///< eager attention's product scales by itself (Bloom: baddbmm)
  bool fp32_scores = false;      ///< eager attention widens queries and keys to fp32 (GPT-J)
  bool early_positions = false;  ///< position ids go before the embeddings: no mask's arguments hold them
  bool rotary_first = false;     ///< made before the final norm (Phi)
  bool both_masks = false;       ///< the sliding layers' mask is made without such layers too (Qwen2-MoE)
};

/// The row for an architecture (Falcon's depends on its layout); null when the family has another program.
const DecoderForm* find_decoder_form(const Architecture& architecture);

/// Whether a program runs this model with this attention. Errors: a family without one; with the key
/// `attention`, a family whose attention Transformers has in eager form alone.
Status check_program(const Architecture& architecture, AttentionImplementation attention);

}  // namespace headroom::tape
