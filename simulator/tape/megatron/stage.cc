#include "simulator/tape/megatron/stage.h"

#include <fmt/format.h>

#include <algorithm>

#include "simulator/tape/core/checkpoint.h"
#include "simulator/tape/megatron/adapter.h"
#include "simulator/tape/megatron/collectives.h"
#include "simulator/tape/megatron/elementary.h"
#include "simulator/tape/megatron/own_linear.h"
#include "simulator/tape/operations/copy.h"
#include "simulator/tape/operations/embedding.h"
#include "simulator/tape/operations/pointwise.h"

namespace headroom::tape::megatron {
namespace {

const std::uint16_t kMask = operation_name("megatron::input_mask"),
                    kMasked = operation_name("megatron::masked_input"),
                    kAngles = operation_name("megatron::rotary_angles");

/// Whole tokens to this rank's; without sequence parallelism the sum is formed in place.
Tensor scatter(const Context& c, const Tensor& from, std::int64_t, std::int64_t) {
  return reduce_tokens(c, from);
}
Tensor gather(const Context& c, const Tensor& from, std::int64_t, std::int64_t) {
  return gather_tokens(c, from);
}

}  // namespace

Result<std::unique_ptr<Stage>> Stage::make(const Architecture& model, const std::string& name,
                                           const Context& context) {
  const Options& o = context.options;
  std::unique_ptr<Stage> stage(new Stage(model, context));
  HEADROOM_ASSIGN(const auto layouts, pipeline_stages(model.decoder.layers, o.parallel));
  HEADROOM_ASSIGN(const MegatronStage weights, megatron_stage(model, o.parallel, o.vocabulary, o.stage,
                                                              o.switches.layers, o.switches.grouped_experts,
                                                              o.switches.mtp_layers));
  for (const LayerGroup& group : model.decoder.groups) {
    const StateMixer& state = group.layer.state;
    const std::int64_t ranks = o.parallel.tensor * o.parallel.context;
    if (state.heads > 0 && o.switches.layers == MegatronLayers::local)
      return fail(
          Error{.message = "no tensor program for layers that keep a state with Megatron's own layers",
                .file = {},
                .key = "layers"});
    if (state.heads > 0 && (state.heads % ranks != 0 || state.groups % ranks != 0))
      return fail(Error{.message = fmt::format(
                            "expected {} heads with a state and {} groups of keys to divide over {} tensor "
                            "and {} context ranks, which deal heads out",
                            state.heads, state.groups, o.parallel.tensor, o.parallel.context),
                        .file = {},
                        .key = "context"});
    if (group.layer.attention.gated && o.switches.layers == MegatronLayers::local)
      return fail(Error{.message = "no tensor program for gated attention with Megatron's own layers",
                        .file = {},
                        .key = "layers"});
  }
  if (o.switches.context_all_to_all)
    for (const LayerGroup& group : model.decoder.groups)
      if (group.layer.attention.kv_heads % (o.parallel.tensor * o.parallel.context) != 0)
        return fail(Error{
            .message = fmt::format("expected {} key/value heads to divide over {} tensor and {} "
                                   "context ranks, whose all-to-all deals heads out",
                                   group.layer.attention.kv_heads, o.parallel.tensor, o.parallel.context),
            .file = {},
            .key = "context"});
  stage->layout_ = layouts[static_cast<std::size_t>(o.stage)];
  stage->create(weights, name);
  return stage;
}

void Stage::create(const MegatronStage& weights, const std::string& name) {
  Tape& tape = context_.tape;
  layers_.resize(static_cast<std::size_t>(model_.decoder.layers));
  for (std::size_t i = 0; i < layers_.size(); ++i)
    layer_names_.push_back(tape.modules().intern(fmt::format("{}.decoder.layers.{}", name, i)));
  for (const MegatronWeight& weight : weights.weights) {
    std::vector<std::int64_t> sizes = weight.shape;
    if (weight.copies > 1) sizes.insert(sizes.begin(), weight.copies);
    const ModuleScope module(tape, tape.modules().intern(name + "." + weight.name));
    Tensor tensor = tape.parameter(Shape::contiguous(sizes), dtype_of(weight),
                                   context_.options.trainable && !context_.options.lora);
    if (weight.depth >= 0) {
      put_depth(weight, tensor);
    } else if (weight.layer >= 0) {
      const std::string prefix = fmt::format("decoder.layers.{}.", weight.layer);
      layers_[static_cast<std::size_t>(weight.layer)].put(weight.name.substr(prefix.size()), tensor);
    } else {
      ends_.put(weight.name, tensor);
    }
    parameters_.push_back({weight, tensor});
    if (context_.options.lora) add_adapter(weight, tensor, name);
  }
  embedding_ = ends_("embedding.word_embeddings.weight");
  positions_ = ends_("embedding.position_embeddings.weight");
  head_ = ends_("output_layer.weight");
  // A last stage that predicts ahead takes its copy of tied embeddings for both ends.
  if (layout_.head && embedding_.defined() && (!head_.defined() || model_.decoder.tied_embeddings)) head_ = embedding_;
}

/// TransformerEngine's modules keep their matrices in FP8 where asked to; the head is Megatron's own.
DType Stage::dtype_of(const MegatronWeight& weight) const {
  const bool eight = context_.options.switches.fp8_parameters && !context_.local() && weight.matrix &&
                     weight.name != "output_layer.weight";
  return eight ? DType::fp8 : context_.options.dtype;
}

void Stage::put_depth(const MegatronWeight& weight, const Tensor& tensor) {
  if (depths_.size() <= static_cast<std::size_t>(weight.depth)) depths_.emplace_back();
  PredictionDepth& depth = depths_[static_cast<std::size_t>(weight.depth)];
  const std::string name = weight.name.substr(fmt::format("mtp.layers.{}.", weight.depth).size());
  constexpr std::string_view kLayer = "transformer_layer.";
  if (name.starts_with(kLayer))
    depth.layer.put(name.substr(kLayer.size()), tensor);
  else
    depth.ends.put(name, tensor);
}

void Stage::add_adapter(const MegatronWeight& weight, const Tensor& frozen, const std::string& name) {
  const auto shapes = adapter_shapes(weight, *context_.options.lora, context_.tensor());
  if (!shapes) return;
  Tape& tape = context_.tape;
  const std::string module = weight.name.substr(0, weight.name.rfind('.'));
  AdapterWeights made;
  for (const bool first : {true, false}) {
    const Shape& shape = first ? shapes->in : shapes->out;
    MegatronWeight part = weight;
    part.name = module + (first ? ".adapter.linear_in.weight" : ".adapter.linear_out.weight");
    part.shape = {shape[0], shape[1]};
    part.copies = 1;
    const ModuleScope scope(tape, tape.modules().intern(name + "." + part.name));
    Tensor tensor = tape.parameter(shape, context_.options.dtype, context_.options.trainable);
    (first ? made.in : made.out) = tensor;
    parameters_.push_back({part, std::move(tensor)});
  }
  context_.adapters.emplace(frozen.record(), std::move(made));
}

Tensor Stage::embed(Arg ids) {
  Tape& tape = context_.tape;
  Tensor whole;
  if (context_.tensor() > 1) {
    // Tokens of other ranks' rows are masked, and their embeddings zeroed.
    const Tensor mask = tape.empty(ids->shape(), DType::boolean, kMask);
    Tensor masked = tape.empty(ids->shape(), DType::int64, kMasked);
    whole = embedding(embedding_, std::move(masked));
  } else {
    whole = embedding(embedding_, *ids);
  }
  if (context_.tensor() > 1) {
    const std::int64_t rows = whole.size(0) / context_.token_split();
    whole = row_function(context_, std::move(whole), rows, context_.tensor(), scatter, gather);
  }
  if (positions_.defined()) {
    Tensor places = tape.empty({whole.size(0)}, DType::int64, kMasked);
    Tensor added = embedding(positions_, std::move(places));
    whole = add(std::move(whole), std::move(added));
  }
  done(ids);
  // What is recomputed needs a gradient to be asked for, also where the embedding is frozen.
  if (context_.options.lora && tape.grad_enabled() && !whole.requires_grad()) whole->requires_grad = true;
  return whole;
}

Tensor Stage::run(const LayerRange& range, const Tensor& hidden) {
  Tensor out = hidden;
  for (std::int64_t i = range.first; i < range.first + range.count; ++i) {
    const auto index = static_cast<std::size_t>(i);
    const ModuleScope module(context_.tape, layer_names_[index]);
    out = decoder_layer(context_, model_.decoder.layer(i), layers_[index], out);
  }
  return out;
}

void Stage::keep_angles(std::size_t chunk, std::int64_t tokens) {
  const std::int64_t width = model_.decoder.attention().rotary_dim;
  if (width == 0 || context_.tape.stopped()) return;
  const std::int64_t positions = ceil_div(tokens, context_.sequences);
  Tensor& kept = angles_[{chunk, positions}];
  if (kept.defined()) return;
  const ComponentScope component(context_.tape, Component::other);
  kept = context_.tape.empty({positions, width}, DType::fp32, kAngles);
}

Tensor Stage::layers(std::size_t chunk, Tensor hidden) {
  const LayerRange all = layout_.chunks[chunk];
  keep_angles(chunk, hidden.size(0) * context_.token_split());
  const Recompute& r = context_.options.recompute;
  if (r.kind != RecomputeKind::full) return run(all, hidden);
  const bool block = r.layers > 0;
  const std::int64_t again = block ? std::min(r.layers, all.count) : all.count;
  const std::int64_t unit = block ? 1 : std::max<std::int64_t>(1, r.every);
  for (std::int64_t i = 0; i < again; i += unit) {
    const LayerRange part{all.first + i, std::min(unit, again - i)};
    const Region region = [this, part](const Tensor& input, std::span<const Tensor>) {
      return run(part, input);
    };
    hidden = checkpoint_reentrant(context_.tape, context_.engine, region, hidden, {});
  }
  return run({all.first + again, all.count - again}, hidden);
}

Tensor Stage::final_norm(Arg hidden) {
  return norm(context_, hidden, ends_.norm("decoder.final_layernorm.", model_.decoder.final_norm));
}

Tensor Stage::predict_ahead(Arg normed, const Tensor& ids) {
  std::vector<Tensor> all = {*normed};
  done(normed);
  const Decoder& decoder = model_.decoder;
  Tensor next = ids;
  for (const PredictionDepth& depth : depths_) {
    next = clone(next);  // the ids of one token further
    const Region region = [&](const Tensor& hidden, std::span<const Tensor> embedded) {
      return predict_depth(context_, decoder.layer(decoder.layers - 1), decoder.final_norm, depth, hidden, embedded[0]);
    };
    Tensor embedded = embed(next);
    const bool again = context_.options.recompute.kind == RecomputeKind::full && context_.training;
    all.push_back(again ? checkpoint_reentrant(context_.tape, context_.engine, region, all.back(), {embedded}, 1)
                        : region(all.back(), {&embedded, 1}));
  }
  return cat(all, 0);
}

Tensor Stage::whole_tokens(Arg hidden) {
  if (!context_.sequence_parallel()) return *hidden;
  const std::int64_t rows = hidden->size(0) * context_.tensor();
  return row_function(context_, hidden, rows, context_.tensor(), gather, scatter);
}

Tensor Stage::logits(Arg hidden) {
  return output_layer(context_, hidden, head_);
}

Tensor Stage::values(Arg hidden) {
  Tensor narrow = linear(context_, hidden, head_, ends_("output_layer.bias"), Cut::duplicated);
  Tensor wide = to(std::move(narrow), DType::fp32);
  return whole_tokens(std::move(wide));
}

}  // namespace headroom::tape::megatron
