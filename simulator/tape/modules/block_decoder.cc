#include "simulator/tape/modules/block_decoder.h"

#include <algorithm>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

#include "simulator/tape/core/checkpoint.h"
#include "simulator/tape/modules/alibi.h"
#include "simulator/tape/modules/eager_attention.h"
#include "simulator/tape/modules/position_ids.h"
#include "simulator/tape/modules/sequence_split.h"
#include "simulator/tape/operations/copy.h"
#include "simulator/tape/operations/in_place.h"
#include "simulator/tape/operations/pointwise.h"
#include "simulator/tape/operations/views.h"

namespace headroom::tape {
namespace {

const std::uint16_t kScale = operation_name("embed_scale");

}  // namespace

BlockDecoder::BlockDecoder(Tape& tape, const Architecture& architecture, const DecoderForm& form,
                           const std::string& path, const ModelOptions& options)
    : Model(tape, architecture, path, options), form_(form) {
  const std::string body(form.body), embedding = body + "." + std::string(form.embedding);
  body_module_ = intern(body);
  embedding_module_ = intern(embedding);
  logits_scaled_ = form.logits_scaled;
  build_towers(false);
  register_parameter(*this, embedding + ".weight", embedding_, {decoder_.vocabulary, decoder_.hidden}, -1);
  if (form.scale_buffer) {
    scale_ = tape_.empty({}, options_.dtype, kScale);
    register_buffer(scale_);
  }
  if (decoder_.embedding_norm.present())
    embedding_norm_.build(*this, body + "." + std::string(form.embedding_norm), decoder_.embedding_norm, -1);
  layers_ = std::vector<DecoderLayer>(static_cast<std::size_t>(decoder_.layers));
  for (int i = 0; i < decoder_.layers; ++i) {
    kinds_[slides(i) ? 1 : 0] = true;
    build_layer(layers_[static_cast<std::size_t>(i)], i);
  }
  if (form.both_masks) kinds_[0] = kinds_[1] = true;
  if (form.rotary_first) build_rotary();
  final_norm_.build(*this, body + "." + std::string(form.final_norm), decoder_.final_norm, -1);
  final_norm_.form = norm_form(form);
  if (!form.rotary_first) build_rotary();
  token_inputs_.build(*this, body);
  build_towers(true);
  Tensor compared;
  for (const RotaryEmbedding& rotary : rotary_)
    if (rotary.frequencies.defined()) compared = rotary.initialise(*this);
  compared.reset();
  build_head(embedding_, std::string(form.head));
  share_tokens();
}

/// Ranks share the tokens where every layer is attention over separate projections and a dense MLP.
void BlockDecoder::share_tokens() {
  if (options_.token_ranks <= 1) return;
  constexpr std::string_view kColumns[] = {"q_proj", "k_proj", "v_proj", "gate_proj", "up_proj"};
  constexpr std::string_view kRows[] = {"o_proj", "down_proj"};
  const auto ends = [](std::string_view name, std::span<const std::string_view> with) {
    return std::any_of(with.begin(), with.end(), [&](std::string_view end) { return name.ends_with(end); });
  };
  const bool plain = std::all_of(linears().begin(), linears().end(), [&](const NamedLinear& linear) {
    return linear.layer_index < 0 || ends(linear.name, kColumns) || ends(linear.name, kRows);
  });
  if (!plain) options_.token_ranks = 1;
  for (NamedLinear& linear : linears()) {
    if (linear.layer_index < 0) continue;
    if (ends(linear.name, kColumns)) linear.layer->gathers = options_.token_ranks;
    if (ends(linear.name, kRows)) linear.layer->scatters = options_.token_ranks;
  }
}

/// Weights of towers for images and sound, those listed before the decoder's or those `behind` them.
void BlockDecoder::build_towers(bool behind) {
  bool passed = false;
  for (const headroom::Tensor& tensor : architecture_.tensors) {
    passed = passed || tensor.place != Place::vision;
    if (passed != behind || tensor.place != Place::vision || tensor.buffer || !tensor.tied_to.empty()) continue;
    register_parameter(*this, tensor.name, towers_.emplace_back(), Shape::contiguous(tensor.shape), -1);
  }
}

/// Whether later layers of this one's kind take its keys and values: the last that makes some.
bool BlockDecoder::lends(int index) const {
  const auto borrows = [this](std::int64_t i) { return decoder_.layer(i).attention.borrows; };
  if (borrows(index)) return false;
  for (int i = index + 1; i < decoder_.layers; ++i)
    if (slides(i) == slides(index)) return borrows(i);
  return false;
}

void BlockDecoder::build_layer(DecoderLayer& own, int index) {
  const Layer& spec = decoder_.layer(index);
  const std::string name =
      std::string(form_.body) + "." + std::string(form_.layers) + "." + std::to_string(index);
  const std::string attention = name + "." + std::string(form_.attention);
  const Norm* norms[4] = {&spec.attention_norm, &spec.mlp_norm, &spec.attention_post_norm,
                          &spec.mlp_post_norm};
  own.module = intern(name);
  const bool attends = spec.mixer == MixerKind::attention;
  if (attends) own.attention.describe(*this, form_, spec.attention, attention);
  bool mixed = attends || spec.mixer == MixerKind::none;
  for (const char part : form_.order) {
    if (attends && own.attention.build(*this, form_, part, spec, attention, index)) continue;
    if (std::string_view("qkvofSLQK").find(part) != std::string_view::npos) {
      if (!std::exchange(mixed, true))
        own.state.build(*this, spec.mixer, spec.state, name + "." + std::string(form_.state), index);
      continue;
    }
    if (part == 'T') {
      own.token.build(*this, spec, norm_form(form_), name, index);
      continue;
    }
    if (part == 'm') {
      if (spec.mlp.kind == MlpKind::none) continue;
      own.mlp.build(*this, form_, spec.mlp, name + "." + std::string(form_.mlp), index);
      continue;
    }
    const auto place = static_cast<std::size_t>(part - '1');
    if (!norms[place]->present()) continue;
    own.norms[place].build(*this, name + "." + std::string(form_.norms[place]), *norms[place], index);
    own.norms[place].form = norm_form(form_);
  }
}

void BlockDecoder::build_rotary() {
  if (!makes_rotary()) return;
  two_rotaries_ = form_.two_rotaries && kinds_[0] && kinds_[1];
  std::int64_t turned[2] = {form_.alibi_in_mask ? decoder_.attention().head_dim : 0, 0};
  for (const LayerGroup& group : decoder_.groups) {
    const Attention& attention = group.layer.attention;
    std::int64_t& widest = turned[two_rotaries_ && attention.sliding_window > 0 ? 1 : 0];
    widest = std::max(widest, attention.rotary_dim);
  }
  const std::string name = std::string(form_.body) + ".rotary_emb";
  rotary_[0].build(*this, name, turned[0]);
  if (two_rotaries_) rotary_[1].build(*this, name, turned[1]);
}

std::int64_t BlockDecoder::window() const {
  std::int64_t out = 0;
  for (const LayerGroup& group : decoder_.groups) out = std::max(out, group.layer.attention.sliding_window);
  return out;
}

/// What the first layer reads; `embeddings` is what the body holds until its end.
Tensor BlockDecoder::embed_tokens(const ModelInput& input, Tensor& embeddings) {
  std::function<Tensor(Tensor)> scaled;
  if (form_.scale_buffer)
    scaled = [this](Tensor rows) { return mul(std::move(rows), to(scale_, embedding_.dtype())); };
  embeddings = embed(embedding_module_, embedding_, input.ids, scaled);
  if (form_.branches_scaled) embeddings = mul_scalar(std::move(embeddings));
  if (embedding_norm_.norm.present()) return embedding_norm_(embeddings);
  if (decoder_.embedding_scale != 1 && !form_.scale_buffer) return mul_scalar(embeddings);
  return embeddings;
}

BlockDecoder::Positions BlockDecoder::positions_for(bool sliding, const ModelInput& input,
                                                    const Tensor& positions, DType dtype) {
  Positions out;
  out.used = true;
  const std::int64_t columns =
      input.attention_mask.defined() ? input.attention_mask.size(1) : input.ids.size(1);
  const std::int64_t tokens = input.ids.size(1);
  std::int64_t held = 0;
  if (sliding && window() > 0 && columns - tokens >= window()) held = window() - 1 + tokens;
  MaskKind kind = form_.always_masked ? MaskKind::always : MaskKind::causal;
  // A mask of numbers joins the window's rule even where no sequence reaches it; FlashAttention takes the window itself.
  const bool flash = options_.attention == AttentionImplementation::flash ||
                     options_.attention == AttentionImplementation::flash_varlen;
  if (sliding && !flash && (columns >= window() || options_.attention == AttentionImplementation::eager))
    kind = MaskKind::sliding;
  out.mask = attention_mask(options_.attention, input, form_.unprobed_masks ? Tensor() : positions, dtype,
                            kind, held);
  return out;
}

Tensor BlockDecoder::hidden_states(const ModelInput& input) {
  const ModuleScope body(tape_, body_module_);
  Tensor embeddings;
  Tensor hidden = embed_tokens(input, embeddings);
  Tensor visible, alibi, token_inputs;
  if (token_inputs_.present()) token_inputs = token_inputs_(input.ids, embeddings);
  if (options_.token_ranks > 1) embeddings = hidden = scatter_tokens(std::move(hidden), options_.token_ranks);
  const auto shared_keys = std::make_shared<SharedKeys>();
  if (decoder_.position == PositionKind::alibi) {
    const Shape tokens{input.ids.size(0), input.ids.size(1)};
    visible = input.attention_mask.defined() ? input.attention_mask : fill(tape_, tokens, DType::int64);
    alibi = build_alibi(visible, decoder_.attention().heads, form_.alibi_in_mask ? DType::bf16 : DType::fp32,
                        embeddings.dtype());
  }
  Tensor positions =
      input.position_ids.defined() ? input.position_ids : make_position_ids(tape_, input.ids.size(1));
  Positions kinds[2];
  for (int kind : {0, 1})
    if (kinds_[kind]) kinds[kind] = positions_for(kind == 1, input, positions, embeddings.dtype());
  if (alibi.defined() && form_.alibi_in_mask)
    kinds[0].mask = alibi_mask(std::move(kinds[0].mask), alibi);
  else if (alibi.defined())
    kinds[0].cos = alibi;
  if (makes_rotary()) {
    const bool wide = form_.rotary == RotaryForm::halves_fp32;
    for (int kind : {0, 1}) {
      if (!kinds[kind].used || (kind == 1 && kinds[0].used && !two_rotaries_)) continue;
      if (form_.rotary == RotaryForm::complex) {
        kinds[kind].cos = rotary_[0].complex(positions);
        continue;
      }
      auto [cos, sin] = rotary_[two_rotaries_ ? kind : 0](positions, wide ? DType::fp32 : embeddings.dtype(),
                                                          form_.rotary == RotaryForm::half_tables);
      kinds[kind].cos = std::move(cos);
      kinds[kind].sin = std::move(sin);
    }
    if (kinds[0].used && kinds[1].used && !two_rotaries_) {
      kinds[1].cos = kinds[0].cos;
      kinds[1].sin = kinds[0].sin;
    }
  }
  for (int i = 0; i < decoder_.layers; ++i) {
    const DecoderLayer& layer = layers_[static_cast<std::size_t>(i)];
    const Positions& shared = kinds[slides(i) ? 1 : 0];
    KvCache* cache = input.cache;
    std::vector<Tensor> captured = {shared.sin, shared.cos, positions, shared.mask};
    if (token_inputs.defined()) captured.push_back(select(token_inputs, 2, i));
    // Layers that borrow hold what is shared until they are through their backward. A lender's graph is held by what it
    // lends, so it must not hold that.
    const bool borrows = decoder_.layer(i).attention.borrows;
    hidden = run_layer(
        i, hidden, std::move(captured),
        [this, &layer, i, cache, lends = lends(i), held = borrows ? shared_keys : nullptr,
         lent = std::weak_ptr(shared_keys)](const Tensor& in, std::span<const Tensor> kept) {
          SharedKeys nobodys;
          const auto shared_by = lent.lock();
          const LayerInput given{kept[1],       kept[0], kept[3], cache, i, in.size(1),
                                 shared_by ? shared_by.get() : &nobodys, lends};
          Tensor out = run(layer, in, given);
          if (layer.token.present()) out = layer.token(std::move(out), kept[4]);
          return out;
        });
  }
  token_inputs.reset();
  hidden = final_norm_(hidden);
  if (options_.token_ranks > 1) hidden = gather_tokens(std::move(hidden), options_.token_ranks);
  if (form_.early_positions)
    drop(positions, embeddings);
  else
    drop(embeddings, positions);
  drop(handed_out_, alibi, visible);
  for (Positions& kind : kinds) drop(kind.mask, kind.sin, kind.cos);
  return hidden;
}

/// residual + result, through the norm that stands behind the branch.
Tensor BlockDecoder::join(const Tensor& residual, Tensor& result, const NormLayer& norm) const {
  if (norm.norm.present()) result = norm(result);
  return form_.branches_scaled ? add(residual, mul_scalar(result)) : add(residual, result);
}

Tensor BlockDecoder::run(const DecoderLayer& layer, const Tensor& input, const LayerInput& shared) {
  const Layer& spec = decoder_.layer(shared.index);
  if (spec.residual == ResidualKind::parallel) return run_parallel(layer, input, shared);
  if (form_.named_branches) return run_named(layer, input, shared);
  if (spec.mixer == MixerKind::none || spec.mlp.kind == MlpKind::none)
    return run_single(layer, input, shared);
  const ModuleScope module(tape_, layer.module);
  // OLMo 2's norms stand on the branches, in the places of those before them.
  const bool behind = spec.residual == ResidualKind::post_norm;
  const NormLayer& attention_behind = layer.norms[behind ? 0 : 2];
  const NormLayer& mlp_behind = layer.norms[behind ? 1 : 3];
  Tensor weights;
  Tensor residual = input;
  // "layernorm": the modules called input_layernorm and post_attention_layernorm, which is the norm behind the
  // attention where there is one.
  const bool gemma = !behind && attention_behind.norm.present();
  const auto norm = [this, &layer, gemma](int which, const Tensor& in) {
    const auto run_norm = [&layer, which](const Tensor& x, std::span<const Tensor>) { return layer.norms[which](x); };
    return which == 1 && gemma ? run_norm(in, {}) : part("layernorm", in, {}, run_norm);
  };
  Tensor hidden = behind ? input : norm(0, input);
  if (recomputes("self_attn") && spec.mixer == MixerKind::attention)
    hidden = part("self_attn", hidden, {shared.cos, shared.sin, shared.mask},
                  [this, &layer, cache = shared.cache, index = shared.index, tokens = shared.tokens](
                      const Tensor& x, std::span<const Tensor> kept) {
                    Tensor unused;
                    return layer.attention(options_, x, {kept[0], kept[1], kept[2], cache, index, tokens}, unused);
                  });
  else
    hidden = spec.mixer == MixerKind::attention ? layer.attention(options_, hidden, shared, weights)
                                                : layer.state(hidden, shared);
  if (gemma && recomputes("layernorm")) {
    hidden = norm(2, hidden);
    hidden = add(residual, hidden);
  } else {
    hidden = join(residual, hidden, attention_behind);
  }
  residual = hidden;
  if (!behind) hidden = norm(1, hidden);
  hidden = part("mlp", hidden, {}, [&layer, decoding = shared.decoding()](const Tensor& x, std::span<const Tensor>) {
    return layer.mlp(x, decoding);
  });
  hidden = join(residual, hidden, mlp_behind);
  return hidden;
}

bool BlockDecoder::recomputes(std::string_view module) const {
  const Recompute& r = options_.recompute;
  return options_.training && r.kind == RecomputeKind::selective &&
         std::find(r.modules.begin(), r.modules.end(), module) != r.modules.end();
}

/// A module of a layer, under a checkpoint of its own where selective recomputation names it.
Tensor BlockDecoder::part(std::string_view module, const Tensor& in, std::vector<Tensor> captured,
                          const Region& region) {
  return recomputes(module) ? checkpoint(tape_, region, in, std::move(captured)) : region(in, captured);
}

/// Falcon's layers return their probabilities too, and the body's variable holds a layer's whole result.
void BlockDecoder::hand_out(Tensor& weights) {
  if (form_.always_masked && tape_.thread() == Thread::main) handed_out_ = std::move(weights);
}

/// A layer of one branch: a mixer or an MLP.
Tensor BlockDecoder::run_single(const DecoderLayer& layer, const Tensor& input, const LayerInput& shared) {
  const ModuleScope module(tape_, layer.module);
  const MixerKind mixer = decoder_.layer(shared.index).mixer;
  Tensor weights;
  Tensor hidden = layer.norms[mixer == MixerKind::none ? 1 : 0](input);
  if (mixer == MixerKind::none)
    hidden = layer.mlp(hidden, shared.decoding());
  else if (mixer == MixerKind::attention)
    hidden = layer.attention(options_, hidden, shared, weights);
  else
    hidden = layer.state(hidden, shared);
  return add(input, hidden);
}

/// Each branch's result keeps its own variable until the layer returns.
Tensor BlockDecoder::run_named(const DecoderLayer& layer, const Tensor& input, const LayerInput& shared) {
  const ModuleScope module(tape_, layer.module);
  Tensor weights;
  Tensor residual = input;
  Tensor hidden = layer.norms[0](input);
  Tensor attention = layer.attention(options_, hidden, shared, weights);
  residual = add(residual, attention);
  Tensor normed = layer.norms[1](residual);
  Tensor wide = layer.mlp(normed, shared.decoding());
  if (!form_.named_norms) normed.reset();
  Tensor out = add(residual, wide);
  hand_out(weights);
  drop(residual, hidden, attention, weights, normed, wide);
  return out;
}

/// Both branches read the layer's input, through one norm or one each.
Tensor BlockDecoder::run_parallel(const DecoderLayer& layer, const Tensor& input, const LayerInput& shared) {
  const ModuleScope module(tape_, layer.module);
  Tensor weights;
  Tensor hidden = layer.norms[0](input);
  Tensor own;
  if (layer.norms[1].norm.present()) own = layer.norms[1](input);
  Tensor attention = layer.attention(options_, hidden, shared, weights);
  Tensor wide = layer.mlp(own.defined() ? own : hidden, shared.decoding());
  if (form_.sum_in_place) wide = add_in_place_of(std::move(wide), attention);
  Tensor out;
  if (form_.sum_in_place)
    out = add(input, wide);
  else if (form_.residual_first)
    out = add(add(input, attention), wide);
  else
    out = add(add(attention, wide), input);
  hand_out(weights);
  drop(hidden, own, attention, wide);
  return out;
}

}  // namespace headroom::tape
