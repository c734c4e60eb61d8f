#include "simulator/tape/modules/token_inputs.h"

#include "simulator/tape/operations/copy.h"
#include "simulator/tape/operations/embedding.h"
#include "simulator/tape/operations/pointwise.h"
#include "simulator/tape/operations/views.h"

namespace headroom::tape {
namespace {

const std::uint16_t kScale = operation_name("embed_scale");

}  // namespace

void TokenInputs::build(Model& model, const std::string& body) {
  const Decoder& decoder = model.decoder();
  if (decoder.token_rows == 0) return;
  width_ = decoder.layer(0).token_width;
  layers_ = decoder.layers;
  const std::string table = body + ".embed_tokens_per_layer";
  module_ = model.intern(table);
  register_parameter(model, table + ".weight", table_, {decoder.token_rows, layers_ * width_}, -1);
  scale_ = model.tape().empty({}, model.options().dtype, kScale);
  model.register_buffer(scale_);
  projection_.build(model, body + ".per_layer_model_projection", layers_ * width_, decoder.hidden, false, -1);
  Norm norm = decoder.layer(0).token_norm;
  norm.size = width_;
  norm_.build(model, body + ".per_layer_projection_norm", norm, -1);
  norm_.form = NormForm::late_cast;
}

Tensor TokenInputs::operator()(const Tensor& ids, const Tensor& embeddings) const {
  const std::int64_t batch = ids.size(0), tokens = ids.size(1);
  Tensor rows;
  {
    const ModuleScope scope(ids.tape(), module_);
    rows = mul(embedding(table_, ids), to(scale_, table_.dtype()));
  }
  rows = reshape(std::move(rows), {batch, tokens, layers_, width_});
  Tensor projected = mul_scalar(projection_(embeddings));
  projected = norm_(reshape(std::move(projected), {batch, tokens, layers_, width_}));
  Tensor sum = add(projected, rows);
  Tensor out = mul_scalar(std::move(sum));
  drop(rows, projected);
  return out;
}

void LayerTokenInput::build(Model& model, const Layer& layer, NormForm form, const std::string& name, int index) {
  present_ = layer.token_width > 0;
  if (!present_) return;
  activation_ = layer.mlp.activation;
  const std::int64_t hidden = model.decoder().hidden;
  gate_.build(model, name + ".per_layer_input_gate", layer.token_width, hidden, false, index);
  projection_.build(model, name + ".per_layer_projection", hidden, layer.token_width, false, index);
  norm_.build(model, name + ".post_per_layer_input_norm", layer.token_norm, index);
  norm_.form = form;
}

Tensor LayerTokenInput::operator()(Tensor hidden, const Tensor& input) const {
  const Tensor residual = hidden;
  Tensor narrow = gate_(hidden);
  narrow = activation(activation_, std::move(narrow));
  narrow = mul(narrow, input);
  hidden = projection_(narrow);
  narrow.reset();
  hidden = norm_(hidden);
  return add(residual, hidden);
}

}  // namespace headroom::tape
