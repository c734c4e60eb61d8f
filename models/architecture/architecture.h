#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "models/base/bytes.h"
#include "models/base/dtype.h"

namespace headroom {

/// What a model *is*: its sizes, its blocks in order, and every weight. Knows nothing of runs.
///
/// Two views of the same model, kept equal by test: `decoder` (blocks with sizes, from which programs are
/// written) and `tensors` (every weight with name, shape and sharding rule, from which inventories and shards
/// are summed).

// --- Blocks ----------------------------------------------------------------------------------------------

enum class NormKind { rms, layer };

struct Norm {
  NormKind kind = NormKind::rms;
  std::int64_t size = 0;  ///< elements of the weight
  bool weight = true;
  bool bias = false;      ///< LayerNorm only
  bool plus_one = false;  ///< Gemma multiplies by (1 + weight) in fp32
  bool present() const { return size > 0; }
  friend bool operator==(const Norm&, const Norm&) = default;
};

enum class AttentionKind {
  separate,   ///< q, k, v as three linears
  fused_qkv,  ///< one linear for q, k, v (GPT-2's Conv1D, NeoX, Bloom, Falcon, Phi-3)
  latent,     ///< DeepSeek's multi-head latent attention
};

enum class PositionKind { none, rotary, learned, alibi };

struct Attention {
  AttentionKind kind = AttentionKind::separate;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;        ///< of queries and keys
  std::int64_t value_head_dim = 0;  ///< of values; = head_dim except in latent attention
  std::int64_t rotary_dim = 0;      ///< rotated part of head_dim; 0 when not rotary
  bool qkv_bias = false;
  bool output_bias = false;
  Norm query_norm, key_norm;        ///< Qwen3, Gemma 3, OLMo 2 (size = head_dim or the whole projection)
  Norm value_norm;                  ///< Gemma 4: on each value head, without a weight
  std::int64_t sliding_window = 0;  ///< tokens; 0: full attention
  bool sinks = false;               ///< GPT-OSS: one learned logit a head
  double softcap = 0;               ///< Gemma 2: tanh cap on the scores (eager attention)
  bool gated = false;               ///< Qwen3-Next: queries are projected with a gate on the result
  bool key_is_value = false;        ///< Gemma 4: values are the keys' projection; they have none of their own
  /// Gemma 4: keys and values are those of the last layer of its kind (full, sliding) that projects them.
  bool borrows = false;
  // latent attention; 0 otherwise
  std::int64_t query_rank = 0, kv_rank = 0, nope_dim = 0, rope_dim = 0;
  friend bool operator==(const Attention&, const Attention&) = default;
};

/// What mixes a layer's tokens.
enum class MixerKind {
  attention,    ///< `Layer::attention`
  gated_delta,  ///< `Layer::state`: Gated DeltaNet's linear attention (Qwen3-Next, Qwen3.5)
  mamba2,       ///< `Layer::state`: Mamba 2 (Nemotron-H)
  none,         ///< nothing: the layer is its MLP alone (Nemotron-H)
};

/// A mixer that keeps a state of fixed size instead of keys and values: a projection, a causal convolution
/// over channels (queries, keys, values; in Mamba 2: C, B, x), the recurrence, a gated norm, a projection.
struct StateMixer {
  std::int64_t heads = 0;      ///< of values; each has a state [key_dim, value_dim]
  std::int64_t groups = 0;     ///< of queries and keys, shared by heads / groups heads each
  std::int64_t key_dim = 0;    ///< of a group (Mamba 2: the state's size)
  std::int64_t value_dim = 0;  ///< of a head
  std::int64_t kernel = 0;     ///< tokens that the convolution sees
  std::int64_t chunk = 64;     ///< tokens that the recurrence takes at once
  bool convolution_bias = false;
  bool projection_bias = false;
  bool fused_projection = false;  ///< one linear in front (two in Qwen3-Next) rather than one for each part
  DType cached = DType::bf16;     ///< of the state in an engine's cache, as the config asks
  Norm norm;                      ///< on the result; its size is a head's value (gated_delta) or all of them
  std::int64_t values() const { return heads * value_dim; }
  std::int64_t channels() const { return 2 * groups * key_dim + values(); }  ///< of the convolution
  friend bool operator==(const StateMixer&, const StateMixer&) = default;
};

enum class MlpKind {
  gated,
  plain,
  experts,
  none,  ///< the layer is its mixer alone (Nemotron-H)
};

struct Mlp {
  MlpKind kind = MlpKind::gated;
  std::string activation{};    ///< silu, gelu, gelu_new, gelu_pytorch_tanh, relu …
  std::int64_t hidden = 0;     ///< of a dense MLP, or of one expert
  bool fused_gate_up = false;  ///< Phi-3, GLM-4: gate and up in one linear
  bool bias = false;
  // experts only
  std::int64_t experts = 0, experts_per_token = 0;
  std::int64_t shared_hidden = 0;  ///< hidden size of the shared expert(s) together; 0: none
  bool shared_gate = false;        ///< Qwen2-MoE: scalar gate on the shared expert
  bool router_bias = false;
  bool normalized = false;  ///< weights of a token's experts are divided by their sum
  /// DeepSeek: groups of experts, and those of them that a token's experts may come from; 0: one choice of
  /// all.
  std::int64_t expert_groups = 0, open_groups = 0;
  bool expert_bias = false;    ///< GPT-OSS
  bool plain_experts = false;  ///< without a gate, shared ones too (Nemotron 3)
  std::int64_t latent = 0;     ///< Nemotron 3 Super: width that routed experts work in; 0: the model's
  bool stacked = false;        ///< experts kept as 3-D tensors [experts, …] rather than one linear each
  friend bool operator==(const Mlp&, const Mlp&) = default;
};

/// How the two residual branches are arranged.
enum class ResidualKind {
  sequential,  ///< x + attention(norm(x)), then x + mlp(norm(x))
  post_norm,   ///< norm after the residual addition (OPT-350M), or on the branch before it (OLMo 2)
  sandwich,    ///< norms before and after each branch (Gemma 2 and 3, GLM-4)
  parallel,    ///< both branches read x (NeoX: two norms; GPT-J, Phi, Cohere, Falcon: one)
};

struct Layer {
  ResidualKind residual = ResidualKind::sequential;
  bool branch_post_norm = false;  ///< post_norm: the norm stands on the branch (OLMo 2), not on the sum (OPT)
  Norm attention_norm, mlp_norm;  ///< before the branch (post_norm: after)
  Norm attention_post_norm, mlp_post_norm;  ///< sandwich only
  MixerKind mixer = MixerKind::attention;
  Attention attention;  ///< without heads where another mixer stands
  StateMixer state;     ///< without heads where attention stands
  Mlp mlp;
  /// Gemma 4: width of the layer's own embedding of each token, which gates the hidden state, is projected to it and
  /// added through `token_norm`; 0: none.
  std::int64_t token_width = 0;
  Norm token_norm;
  friend bool operator==(const Layer&, const Layer&) = default;
};

/// Equal neighbouring layers are described once.
struct LayerGroup {
  std::int64_t first = 0, count = 0;  ///< layer indices
  Layer layer;
};

struct Decoder {
  std::int64_t hidden = 0, vocabulary = 0, layers = 0;
  std::int64_t max_positions = 0;
  std::int64_t embedding_dim = 0;  ///< differs from hidden in OPT-350M (projections in and out)
  std::int64_t position_rows = 0;  ///< rows of a learned position table (OPT: max_positions + 2)
  PositionKind position = PositionKind::rotary;
  bool tied_embeddings = false;
  bool head_bias = false;
  std::int64_t token_rows = 0;     ///< rows of the table of layers' own embeddings (Layer::token_width); 0: none
  std::int64_t next_token_layers = 0;  ///< in the checkpoint, behind the last one, for multi-token prediction
  double embedding_scale = 1;  ///< Gemma multiplies embeddings (an extra tensor)
  double logits_softcap = 0;   ///< Gemma 2
  double dropout = 0;          ///< residual dropout of the family's default config (OPT, GPT-2: 0.1)
  double attention_dropout = 0;
  Norm embedding_norm;  ///< Bloom
  Norm final_norm;
  std::vector<LayerGroup> groups;  ///< in order, together all layers
  const Layer& layer(std::int64_t index) const;
  const Attention& attention() const;  ///< the first layer's that has one; of no heads where none has
};

/// A vision tower: what turns pixels into embeddings in front of the decoder. `blocks` is 0 when there is
/// none.
struct VisionTower {
  std::string block_class{};  ///< a wrapping unit of its own: Qwen2VLVisionBlock …
  std::int64_t blocks = 0, hidden = 0, heads = 0, mlp_hidden = 0;
  std::string activation{};
  NormKind norm = NormKind::layer;
  bool gated = false;  ///< the MLP has a gate (Qwen2.5-VL)
  std::int64_t channels = 3, patch = 0, temporal_patch = 1;
  std::int64_t merge = 1;  ///< side of the square of patches that becomes one token of the decoder
  std::int64_t image = 0;  ///< side in pixels when fixed (SigLIP); 0: any
  /// Rows of a learned table from which an image's own grid is interpolated (Qwen3-VL); 0: there is none.
  std::int64_t position_rows = 0;
  std::int64_t output = 0;  ///< width of what it gives the decoder
  bool pooling_head = false;
};

/// A tower for sound in front of the decoder, of which the weights are known; `blocks` is 0 when there is none.
struct SoundTower {
  std::int64_t blocks = 0, hidden = 0, heads = 0;
  std::int64_t kernel = 0;  ///< of each block's convolution over time
  struct Channels {
    std::int64_t first = 0, second = 0;
  } channels;               ///< of the two convolutions in front
  std::int64_t output = 0;  ///< width of what it gives
};

// --- Weights ---------------------------------------------------------------------------------------------

/// Which dimension tensor parallelism cuts: of a linear's weight [out, in], or of its bias. Routed experts
/// are cut by the expert-tensor group instead, and whole experts are dealt out over expert parallelism.
enum class Split {
  replicated,
  column,      ///< dimension 0 (output features)
  row,         ///< dimension 1 (input features)
  vocabulary,  ///< dimension 0, padded as the runtime pads vocabularies
  qkv,         ///< dimension 0 by head; key/value heads replicated when fewer than ranks
};

/// Where in the pipeline a weight lives.
enum class Place { embedding, layer, final_norm, head, vision };  ///< vision: towers, for sound too

/// What module holds a tensor: decides what adapters attach to and what is quantised.
enum class TensorRole {
  linear,  ///< weight of a Linear or of GPT-2's Conv1D
  embedding,
  norm,     ///< weight or bias of a norm
  bias,     ///< of a linear
  experts,  ///< stacked expert matrices or their biases
  other,    ///< routers that are no Linear, attention sinks, convolutions
};

struct Tensor {
  std::string name;  ///< Transformers' name: model.layers.0.self_attn.q_proj.weight
  std::vector<std::int64_t> shape;
  DType dtype = DType::bf16;
  std::string tied_to;              ///< name of the tensor whose storage this shares; empty otherwise
  Split split = Split::replicated;  ///< of one expert's matrix when `expert` is not -1
  TensorRole role = TensorRole::other;
  bool transposed = false;  ///< the matrix is stored [in, out]: Conv1D, GPT-OSS experts
  Place place = Place::layer;
  std::int32_t layer = -1;     ///< decoder layer (place vision: block of the tower), or -1
  std::int32_t expert = -1;    ///< routed expert index; -1: none, -2: all experts stacked in dimension 0
  bool buffer = false;         ///< lives on the GPU but is no parameter
  bool trainable = true;       ///< receives a gradient
  std::int64_t count() const;  ///< elements
};

/// What stands on the body.
enum class HeadKind {
  language_model,           ///< lm_head, tied to the embedding or not
  scalar,                   ///< v_head.weight [1, hidden], as DeepSpeed-Chat's reward and critic models
  sequence_classification,  ///< score.weight [labels, hidden], no bias
  token_classification,     ///< score with bias: verl's critics
};

/// A model read from a `config.json`.
struct Architecture {
  std::string family;                ///< model_type
  std::string source;                ///< path or preset name, for messages
  std::string transformers_version;  ///< as the config says; empty when it does not
  DType dtype = DType::fp32;         ///< of the checkpoint (dtype | torch_dtype)
  HeadKind head = HeadKind::language_model;
  std::int64_t labels = 0;  ///< rows of the head when it is no language model's
  Decoder decoder;
  VisionTower vision;
  SoundTower sound;
  std::vector<Tensor>
      tensors;  ///< in Transformers' order of named parameters; tied tensors listed once more with tied_to
  std::string layer_class;  ///< decoder layer class, the default wrapping unit: LlamaDecoderLayer …

  std::int64_t parameters() const;  ///< elements, tied ones counted once, buffers not
  std::int64_t trainable_parameters() const;
  const Tensor* find(std::string_view name) const;  ///< by name; nullptr when absent. O(tensors)
};

}  // namespace headroom
