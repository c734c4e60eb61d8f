#include "simulator/tape/modules/model.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "simulator/tape/modules/block_decoder.h"
#include "simulator/tape/modules/gpt2_decoder.h"
#include "simulator/tape/modules/layers.h"
#include "simulator/tape/modules/module_hooks.h"
#include "simulator/tape/modules/neox_decoder.h"
#include "simulator/tape/modules/opt_decoder.h"
#include "simulator/tape/operations/copy.h"
#include "simulator/tape/operations/embedding.h"
#include "simulator/tape/operations/linear.h"
#include "simulator/tape/operations/pointwise.h"
#include "simulator/tape/operations/views.h"
#include "simulator/tape/operations/work.h"

namespace headroom::tape {
namespace {

const std::uint16_t kCat = operation_name("aten::cat");

/// Layers of one token that the memory may leave out when they repeat each other. The first token makes the caches.
bool repeats_layers(const Tape& tape, const Decoder& decoder, const ModelInput& input) {
  return !tape.grad_enabled() && input.cache != nullptr && !input.cache->layers.empty() && input.ids.size(1) == 1 &&
         decoder.groups.size() == 1 && decoder.groups.front().layer.attention.sliding_window == 0 &&
         tape.stream() == 0;
}

}  // namespace

KvCache::LayerCache& KvCache::started(Tape& tape, std::size_t layer, DType dtype, bool sliding) {
  if (layers.size() <= layer) layers.resize(layer + 1);
  LayerCache& own = layers[layer];
  if (own.keys.defined()) return own;
  own.keys = tape.empty({0}, dtype, 0);
  own.values = tape.empty({0}, dtype, 0);
  if (sliding) own.window = tape.empty({}, DType::int64, kCat);
  return own;
}

void KvCache::update(Tape& tape, std::size_t layer, const Tensor& keys, const Tensor& values) {
  const ComponentScope component(tape, Component::kv_cache);
  LayerCache& own = started(tape, layer, keys.dtype(), false);
  Repetition* repetition = tape.memory().repetition();
  if (repetition != nullptr) repetition->pause();
  own.keys = cat(own.keys, keys, -2);
  own.values = cat(own.values, values, -2);
  if (repetition != nullptr) repetition->resume();
}

void KvCache::slide(Tape& tape, std::size_t layer, Tensor& keys, Tensor& values, std::int64_t window) {
  const ComponentScope component(tape, Component::kv_cache);
  LayerCache& own = started(tape, layer, keys.dtype(), true);
  own.seen += keys.size(2);
  Tensor all_keys = cat(own.keys, keys, -2);
  Tensor all_values = cat(own.values, values, -2);
  const std::int64_t columns = all_keys.size(2), kept = std::min(columns, window - 1);
  own.keys = slice(all_keys, 2, columns - kept, kept);
  own.values = slice(all_values, 2, columns - kept, kept);
  keys = std::move(all_keys);
  values = std::move(all_values);
}

void KvCache::grow(Tape& tape, std::size_t layer, std::int64_t tokens) {
  const ComponentScope component(tape, Component::kv_cache);
  LayerCache& own = layers[layer];
  const bool slides = own.window.defined();
  // A layer whose window is full lets go of as many as come.
  const bool full = slides && own.keys.defined() && own.keys.size(2) < own.seen;
  if (slides) own.seen += tokens;
  if (full) return;
  for (Tensor* tensor : {&own.keys, &own.values}) {
    if (!tensor->defined()) continue;  // a state stays as large as it is
    Shape shape = tensor->shape();
    shape.size[static_cast<std::size_t>(shape.rank - 2)] += tokens;
    set_contiguous(shape);
    Tensor grown = tape.empty(shape, tensor->dtype(), kCat);
    if (tape.wants_operations()) Work(tape, OperationKind::copy, kCat).in(*tensor).out(grown).run();
    *tensor = std::move(grown);
  }
}

bool KvCache::keeps_all() const {
  return std::none_of(layers.begin(), layers.end(),
                      [](const LayerCache& layer) { return layer.window.defined(); });
}

void KvCache::clear() {
  while (!layers.empty()) {
    LayerCache& last = layers.back();
    drop(last.keys, last.values, last.window, last.convolution, last.recurrence);
    layers.pop_back();
  }
  length = 0;
}

Model::Model(Tape& tape, const Architecture& architecture, std::string path, const ModelOptions& options)
    : tape_(tape),
      architecture_(architecture),
      decoder_(architecture_.decoder),
      path_(std::move(path)),
      options_(options) {
  if (!path_.empty()) path_ += '.';
}

void register_parameter(Model& model, const std::string& name, Tensor& slot, const Shape& shape, int layer,
                        std::optional<DType> dtype) {
  const ModuleScope module(model.tape_, model.intern(name));
  slot = model.tape_.parameter(shape, dtype.value_or(model.options_.dtype), model.options_.trainable);
  const bool tokens = name.ends_with("embed_tokens.weight") || name.ends_with("wte.weight") ||
                      name.ends_with("embed_in.weight") || name.ends_with("word_embeddings.weight") ||
                      name.ends_with(".embeddings.weight");
  const bool positions = name.ends_with("embed_positions.weight") || name.ends_with("wpe.weight");
  model.parameters_.push_back({name, &slot, layer, tokens ? kEmbeddingUnit : positions ? kPositionUnit : 0});
  std::replace(model.after_buffers_.begin(), model.after_buffers_.end(), static_cast<const Tensor*>(nullptr),
               static_cast<const Tensor*>(&slot));
}

void Model::register_buffer(Tensor& buffer) {
  buffers_.push_back(&buffer);
  after_buffers_.push_back(nullptr);
}

void Model::in_module_order(const std::function<void(const Tensor&)>& visit) const {
  const auto buffers_before = [&](const Tensor* parameter) {
    for (std::size_t i = 0; i < buffers_.size(); ++i)
      if (after_buffers_[i] == parameter && buffers_[i]->defined()) visit(*buffers_[i]);
  };
  for (const ParameterSlot& slot : parameters_) {
    buffers_before(slot.tensor);
    visit(*slot.tensor);
  }
  buffers_before(nullptr);
}

void Model::build_head(const Tensor& embedding, const std::string& name) {
  if (options_.head == HeadKind::language_model) {
    head_module_ = intern(name);
    const std::int64_t width = decoder_.embedding_dim > 0 ? decoder_.embedding_dim : decoder_.hidden;
    if (decoder_.tied_embeddings) {
      // Allocated like any other, then replaced by the embedding; tying makes a bias anew.
      const ModuleScope module(tape_, head_module_);
      Tensor unused = tape_.parameter({decoder_.vocabulary, width}, options_.dtype, false);
      tied_ = &embedding;
      if (!decoder_.head_bias) return;
      const Tensor first = tape_.parameter({decoder_.vocabulary}, options_.dtype, false);
      unused.reset();
      return register_parameter(*this, name + ".bias", head_bias_, {decoder_.vocabulary}, -1);
    }
    register_parameter(*this, name + ".weight", head_weight_, {decoder_.vocabulary, width}, -1);
    parameters_.back().table = kHeadUnit;
    if (!decoder_.head_bias) return;
    register_parameter(*this, name + ".bias", head_bias_, {decoder_.vocabulary}, -1);
    parameters_.back().table = kHeadUnit;
  } else {
    const std::int64_t width = decoder_.embedding_dim > 0 ? decoder_.embedding_dim : decoder_.hidden;
    scalar_head_ = std::make_shared<LinearLayer>();
    scalar_head_->build(*this, "v_head", 1, width, options_.head == HeadKind::token_classification, -1);
  }
}

const Tensor& Model::head_table() const {
  if (scalar_head_) return scalar_head_->weight;
  return tied_ != nullptr ? *tied_ : head_weight_;
}

/// hidden_states(), with the states that the caller asked for.
Tensor Model::body(const ModelInput& input) {
  kept_hidden_ = input.hidden;
  Tensor out = hidden_states(input);
  if (kept_hidden_ != nullptr) kept_hidden_->push_back(out);
  kept_hidden_ = nullptr;
  return out;
}

Tensor Model::forward(const ModelInput& input) {
  if (hooks != nullptr) {
    Tensor none;
    hooks->before_forward(-1, none);
  }
  const bool repeats = hooks == nullptr && repeats_layers(tape_, decoder_, input);
  repeats_.start(tape_, repeats ? tape_.memory().repetition() : nullptr, input.cache,
                 static_cast<int>(decoder_.layers));
  Tensor hidden = body(input);
  repeats_.stop();
  Tensor out;
  if (options_.head == HeadKind::language_model) {
    Tensor rows = hidden;
    if (input.last_logits > 0) rows = slice(hidden, 1, hidden.size(1) - input.last_logits, input.last_logits);
    const ModuleScope module(tape_, head_module_);
    const ComponentScope component(tape_, Component::logits);
    if (hooks != nullptr) hooks->before_forward(kHeadUnit, rows);
    out = between_hooks(module_hooks(*this), head_module_, rows, [&](const Tensor& x) {
      return linear(x, tied_ != nullptr ? *tied_ : head_weight_, head_bias_);
    });
    rows.reset();
    if (hooks != nullptr) hooks->after_forward(kHeadUnit, out);
    // Gemma 2's cap, Granite's and Cohere's factor.
    if (decoder_.logits_softcap > 0) out = mul_scalar(tanh(div_scalar(std::move(out))));
    if (logits_scaled_) out = mul_scalar(std::move(out));
  } else {
    out = (*scalar_head_)(hidden);
    hidden.reset();
    out = squeeze(std::move(out), -1);
  }
  hidden.reset();
  if (hooks != nullptr) hooks->after_forward(-1, out);
  divide_gradient_of(out);
  return out;
}

void Model::divide_gradient_of(const Tensor& out) {
  if (!options_.divides_output_gradients || !tape_.grad_enabled() || !out.requires_grad() ||
      out->producer == nullptr)
    return;
  Tape::hooks(*out->producer).before.push_back([this](std::span<Tensor> incoming) {
    const GradMode no_grad(tape_, false);
    const ComponentScope component(tape_, Component::temporaries);
    if (incoming[0].defined()) incoming[0] = div_scalar(incoming[0]);
  });
}

Tensor Model::forward(const ModelInput& input, const std::function<Tensor(Tensor hidden)>& top) {
  Tensor none;
  if (hooks != nullptr) hooks->before_forward(-1, none);
  Tensor out = top(body(input));
  if (hooks != nullptr) hooks->after_forward(-1, out);
  return out;
}

Tensor Model::embed(std::uint32_t module, const Tensor& table, const Tensor& ids,
                    const std::function<Tensor(Tensor)>& scaled) {
  Tensor none;
  if (hooks != nullptr) hooks->before_forward(kEmbeddingUnit, none);
  Tensor out;
  {
    const ModuleScope scope(tape_, module);
    out = between_hooks(module_hooks(*this), module, none,
                        [&](const Tensor&) { return embedding(table, ids); });
  }
  if (scaled) out = scaled(std::move(out));
  // Without gradients too: autocast takes what a linear reads of it for a weight and keeps it.
  if (embeddings_require_grad && !out.requires_grad()) out->requires_grad = true;
  if (hooks != nullptr) hooks->after_forward(kEmbeddingUnit, out);
  return out;
}

Tensor Model::embed_positions(std::uint32_t module, const Tensor& table, const std::function<Tensor()>& rows,
                              Tensor mask) {
  const ModuleScope scope(tape_, module);
  if (hooks != nullptr) hooks->before_forward(kPositionUnit, mask);
  const Tensor none;
  Tensor out = between_hooks(module_hooks(*this), module, none,
                             [&](const Tensor&) { return embedding(table, rows()); });
  if (hooks != nullptr) hooks->after_forward(kPositionUnit, out);
  return out;
}

Tensor Model::run_layer(int index, const Tensor& hidden, std::vector<Tensor> captured, const Region& region,
                        std::size_t positional) {
  if (kept_hidden_ != nullptr) kept_hidden_->push_back(hidden);
  const Recompute& recompute = options_.recompute;
  const bool checkpointed =
      options_.training && recompute.kind == RecomputeKind::full && index % recompute.every == 0;
  // A reentrant checkpoint recomputes through the layer's hooks, the other form beneath them.
  const bool reentrant = checkpointed && recompute.reentrant && engine != nullptr;
  const auto called = [this, index, region, reentrant](const Tensor& input, std::span<const Tensor> kept) {
    const bool hooked = hooks != nullptr && (reentrant || tape_.thread() == Thread::main);
    Tensor in = input;
    if (hooked) hooks->before_forward(index, in);
    Tensor out = region(in, kept);
    if (hooked) hooks->after_forward(index, out);
    return out;
  };
  // The last layer's backward comes first: what it saves stays.
  std::optional<SaveOnCpu> offloaded;
  if (recompute.offload_inputs && options_.training && index + 1 < decoder_.layers && tape_.grad_enabled())
    offloaded.emplace(tape_, true);
  if (repeats_.active()) return repeats_.layer(index, hidden, [&] { return called(hidden, captured); });
  if (!checkpointed) return called(hidden, captured);
  if (reentrant) return checkpoint_reentrant(tape_, *engine, called, hidden, std::move(captured), positional);
  return checkpoint(tape_, called, hidden, std::move(captured), positional);
}

namespace {

template <typename Program>
std::unique_ptr<Model> make(Tape& tape, const Architecture& architecture, const std::string& path,
                            const ModelOptions& options) {
  return std::make_unique<Program>(tape, architecture, path, options);
}

struct Entry {
  std::string_view family;  ///< model_type
  std::unique_ptr<Model> (*make)(Tape&, const Architecture&, const std::string&, const ModelOptions&);
};

/// Families with a program of their own; the others are put together from blocks.
constexpr Entry kPrograms[] = {
    {"opt", make<OptDecoder>},
    {"gpt2", make<Gpt2Decoder>},
    {"gpt_neox", make<NeoxDecoder>},
};

std::string unsupported(const Architecture& architecture, const std::string& what) {
  return "no tensor program for this model of type \"" + architecture.family + "\" (" + architecture.source +
         "): " + what;
}

const Entry* program_of(const Architecture& architecture) {
  const auto* at = std::find_if(std::begin(kPrograms), std::end(kPrograms),
                                [&](const Entry& entry) { return entry.family == architecture.family; });
  return at == std::end(kPrograms) ? nullptr : at;
}

}  // namespace

Status check_program(const Architecture& architecture, AttentionImplementation attention) {
  if (program_of(architecture) != nullptr) return {};
  const DecoderForm* form = find_decoder_form(architecture);
  if (form == nullptr)
    return fail(unsupported(
        architecture, "expected a family with one, and rotary positions where its ALiBi form has none"));
  const bool flash = attention == AttentionImplementation::flash || attention == AttentionImplementation::flash_varlen;
  if (form->eager_only && attention != AttentionImplementation::eager && !(flash && form->flash_drops_sinks))
    return fail(Error{
        .message = unsupported(architecture, "its attention has no fused form; expected eager attention"),
        .file = {},
        .key = "attention"});
  return {};
}

Result<std::unique_ptr<Model>> make_model(Tape& tape, const Architecture& architecture,
                                          const std::string& path, const ModelOptions& options) {
  HEADROOM_TRY(check_program(architecture, options.attention));
  if (const Entry* entry = program_of(architecture)) return entry->make(tape, architecture, path, options);
  const DecoderForm& form = *find_decoder_form(architecture);
  return std::unique_ptr<Model>(std::make_unique<BlockDecoder>(tape, architecture, form, path, options));
}

}  // namespace headroom::tape
