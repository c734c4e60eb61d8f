#include "simulator/engine/weights.h"

#include <algorithm>

#include "models/sharding/tensor_parallel.h"

namespace headroom::engine {
namespace {

/// Elements that share a scale in four-bit types, and that scale's bytes.
constexpr std::int64_t kNf4Group = 128, kNvfp4Group = 16, kMxfp4Group = 32;
constexpr Bytes kNf4Scale = 2, kFp4Scale = 1;
/// Kernels for MXFP4 experts take inputs and intermediate sizes in whole tiles.
constexpr std::int64_t kExpertTile = 128, kHiddenTile = 256;

TensorCut cut_of(const Engine& engine) {
  TensorCut cut;
  cut.tensor = engine.tensor;
  // Whole experts are dealt out when there is an expert group; otherwise each is cut like a dense MLP.
  cut.expert = engine.expert;
  cut.expert_tensor = engine.expert > 1 ? 1 : engine.tensor;
  cut.vocabulary = VocabularyRule::engine();
  cut.cut_vision = true;
  return cut;
}

/// GPT-OSS is published with experts in MXFP4; all else in fp4 is NVFP4.
bool mxfp4(const Engine& engine) {
  return engine.weights == DType::fp4 && engine.model->family == "gpt_oss";
}

bool is_expert(const Tensor& tensor) {
  return tensor.role == TensorRole::experts || tensor.expert != -1;
}

/// What a tensor's elements are stored as.
DType stored(const Tensor& tensor, const Engine& engine) {
  if (element_size(engine.weights) > 1) return engine.weights;
  const bool linear = tensor.role == TensorRole::linear || tensor.role == TensorRole::experts;
  const bool kept = !linear || tensor.shape.size() < 2 || tensor.place == Place::head ||
                    tensor.place == Place::vision ||
                    (mxfp4(engine) && !is_expert(tensor));
  return kept ? DType::bf16 : engine.weights;
}

/// Elements of an MXFP4 expert matrix [… , out, in] with both sides in whole tiles.
std::int64_t tiled(const LocalTensor& part, const Engine& engine, bool transposed) {
  const std::size_t n = part.shape.size();
  if (n < 2) return part.count();
  std::int64_t out = part.shape[n - 2], in = part.shape[n - 1];
  if (transposed) std::swap(out, in);
  const std::int64_t hidden = engine.model->decoder.hidden;
  const auto whole = [hidden](std::int64_t side) {
    const std::int64_t tile = side == hidden ? kHiddenTile : kExpertTile;
    return ceil_div(side, tile) * tile;
  };
  return part.count() / (out * in) * whole(out) * whole(in);
}

Bytes stored_bytes(const Tensor& tensor, const LocalTensor& part, const Engine& engine) {
  const DType type = stored(tensor, engine);
  const bool packed = type == DType::fp4 && mxfp4(engine);
  const std::int64_t count = packed ? tiled(part, engine, tensor.transposed) : part.count();
  Bytes bytes = bytes_of(type, count);
  if (type == DType::nf4) bytes += count / kNf4Group * kNf4Scale;
  if (type == DType::fp4) bytes += count / (packed ? kMxfp4Group : kNvfp4Group) * kFp4Scale;
  return bytes;
}

/// A tensor on one rank. Vision towers are cut like the decoder, or whole where their sizes do not divide.
Result<LocalTensor> local(const Architecture& model, const Tensor& tensor, TensorCut cut) {
  Result<LocalTensor> out = local_tensor(model, tensor, cut);
  if (out || tensor.place != Place::vision) return out;
  cut.cut_vision = false;
  return local_tensor(model, tensor, cut);
}

/// Elements of both factors beside stacked experts, for each rank of the adapter: gate and up have a pair each.
std::int64_t expert_slots(const Tensor& tensor, const LocalTensor& part) {
  if (part.shape.size() != 3) return 0;
  std::int64_t out = part.shape[1], in = part.shape[2];
  if (tensor.transposed) std::swap(out, in);
  const bool gate_and_up = tensor.name.find("gate_up") != std::string::npos;
  return part.shape[0] * ((gate_and_up ? 2 : 1) * in + out);
}

/// Adapters of `lora_slots` requests at once, on every linear layer and every expert whatever the trainer adapts:
/// both factors, in 16 bits.
Bytes lora_slots(const Tensor& tensor, const LocalTensor& part, const Engine& engine) {
  if (engine.lora_slots == 0 || tensor.place != Place::layer) return 0;
  const std::int64_t slots = engine.lora_slots * engine.lora_rank;
  if (tensor.role == TensorRole::experts && engine.experts_take_adapters)
    return bytes_of(DType::bf16, slots * expert_slots(tensor, part));
  if (tensor.role != TensorRole::linear) return 0;
  const std::int64_t out = tensor.shape[0], in = tensor.count() / tensor.shape[0];
  return bytes_of(DType::bf16, slots * (in + ceil_div(out, engine.tensor)));
}

/// Where layers have embeddings of tokens of their own: those of a whole step, made beforehand.
Bytes token_buffer(const Engine& engine) {
  const Decoder& decoder = engine.model->decoder;
  if (decoder.token_rows == 0) return 0;
  return bytes_of(DType::bf16, engine.max_batched_tokens * decoder.layers * decoder.layer(0).token_width);
}

/// Cosines and sines of every position, one table for all layers: 16 bits as the model's, or fp32 where the
/// rotation is scaled inside latent attention.
Bytes rotary_table(const Decoder& decoder, DType dtype) {
  if (decoder.position != PositionKind::rotary || decoder.groups.empty()) return 0;
  const Attention& attention = decoder.attention();
  if (attention.kind == AttentionKind::latent)
    return bytes_of(DType::fp32, decoder.max_positions * attention.rope_dim);
  return bytes_of(dtype == DType::fp32 ? DType::fp32 : DType::bf16,
                  decoder.max_positions * attention.rotary_dim);
}

/// Keys' and values' projections out of the latent, transposed for decoding.
Bytes absorbed(const Decoder& decoder, std::int64_t tensor, std::int64_t from, std::int64_t to) {
  std::int64_t elements = 0;
  for (const LayerGroup& group : decoder.groups) {
    const Attention& a = group.layer.attention;
    if (a.kind != AttentionKind::latent) continue;
    const std::int64_t here = std::min(to, group.first + group.count) - std::max(from, group.first);
    elements += std::max<std::int64_t>(0, here) * ceil_div(a.heads, tensor) * (a.nope_dim + a.value_head_dim) *
                a.kv_rank;
  }
  return bytes_of(DType::bf16, elements);
}

bool on_stage(const Tensor& tensor, const Stage& stage, std::int64_t from, std::int64_t to) {
  switch (tensor.place) {
    case Place::layer:
      return tensor.layer >= from && tensor.layer < to;
    case Place::embedding:
    case Place::vision:
      return stage.first();
    default:
      return stage.last();
  }
}

}  // namespace

Result<Bytes> stage_weights(const Engine& engine, const Stage& stage) {
  const Architecture& model = *engine.model;
  const TensorCut cut = cut_of(engine);
  const auto [from, to] = stage_layers(model.decoder.layers, stage);
  Bytes bytes = 0;
  for (const Tensor& tensor : model.tensors) {
    if (!on_stage(tensor, stage, from, to)) continue;
    // A tied head has no weight of its own, unless it lies on another stage than the embedding.
    if (!tensor.tied_to.empty() && stage.of == 1) continue;
    HEADROOM_ASSIGN(const LocalTensor part, local(model, tensor, cut));
    bytes += stored_bytes(tensor, part, engine) + lora_slots(tensor, part, engine);
  }
  return bytes + rotary_table(model.decoder, engine.weights) + token_buffer(engine) +
         absorbed(model.decoder, engine.tensor, from, to);
}

}  // namespace headroom::engine
