#include "planner/frameworks/deepspeed_chat/hybrid_generation.h"

#include <algorithm>
#include <numeric>

#include "models/base/bytes.h"
#include "simulator/tape/operations/work.h"

namespace headroom::deepspeed_chat {
namespace {

using tape::Tensor;

const std::uint16_t kGather = tape::operation_name("hybrid_gather"), kSlice = tape::operation_name("hybrid_slice"),
                    kFuse = tape::operation_name("fuse_lora"), kLayer = tape::operation_name("hybrid_layer"),
                    kEmbedding = tape::operation_name("aten::embedding"), kNorm = tape::operation_name("aten::layer_norm"),
                    kHead = tape::operation_name("lm_head");

}  // namespace

std::int64_t HybridGeneration::Unit::all() const {
  return std::accumulate(elements.begin(), elements.end(), std::int64_t{0});
}

HybridGeneration::HybridGeneration(trainer::Store& store, const Engine& engine)
    : store_(store), engine_(engine), tape_(store.context().tape) {
  spread_ = store.role().sharding.kind == ShardingKind::zero3;
  list_units();
  if (spread_ && engine.tensor > 1) {
    gather_parts();
  } else if (spread_ && engine.sync.kind == WeightExport::full_parameters) {
    gather(outside_);
    for (Unit& layer : layers_) gather(layer);
  }
  if (store.role().lora) add_adapters();
}

void HybridGeneration::list_units() {
  layers_.resize(static_cast<std::size_t>(store_.role().model->decoder.layers));
  for (const headroom::Tensor& tensor : store_.role().model->tensors) {
    if (tensor.buffer || !tensor.tied_to.empty()) continue;
    Unit& unit = tensor.layer < 0 ? outside_ : layers_[static_cast<std::size_t>(tensor.layer)];
    unit.elements.push_back(tensor.count());
  }
  if (spread_) return;
  for (const tape::ParameterSlot& slot : store_.model().parameters())
    (slot.layer < 0 ? outside_ : layers_[static_cast<std::size_t>(slot.layer)]).weights.push_back(*slot.tensor);
}

void HybridGeneration::gather(Unit& unit) {
  const std::int64_t ranks = store_.context().ranks;
  for (const std::int64_t elements : unit.elements)
    unit.weights.push_back(
        tape_.empty({ceil_div(elements, ranks) * ranks}, store_.role().precision.weights, kGather));
}

/// As many layers as the buffer holds are gathered whole, cut, and given back; then what is in no layer.
void HybridGeneration::gather_parts() {
  const Bytes layer = layers_.front().all() * element_size(store_.role().precision.weights);
  const auto together = static_cast<std::size_t>(std::max<std::int64_t>(1, engine_.sync.bucket / std::max<Bytes>(layer, 1)));
  for (std::size_t first = 0; first < layers_.size(); first += together) {
    const std::size_t end = std::min(layers_.size(), first + together);
    for (std::size_t i = first; i < end; ++i) gather(layers_[i]);
    for (std::size_t i = first; i < end; ++i) {
      std::vector<Tensor> parts;
      for (const std::int64_t elements : layers_[i].elements)
        parts.push_back(tape_.empty({ceil_div(elements, engine_.tensor)}, store_.role().precision.weights, kSlice));
      layers_[i].weights.insert(layers_[i].weights.end(), parts.begin(), parts.end());
    }
    for (std::size_t i = first; i < end; ++i) {
      std::vector<Tensor>& weights = layers_[i].weights;
      weights.erase(weights.begin(), weights.begin() + static_cast<std::ptrdiff_t>(layers_[i].elements.size()));
    }
  }
  gather(outside_);
}

/// A product of two adapters is as large as the weight that it is added to.
void HybridGeneration::add_adapters() {
  for (const headroom::Tensor& tensor : store_.role().model->tensors)
    if (tensor.layer >= 0 && tensor.shape.size() == 2 && !tensor.buffer)
      tape_.empty({tensor.count()}, store_.role().precision.weights, kFuse).reset();
}

/// The kernels read each weight once.
void HybridGeneration::read(const Unit& unit, const Tensor& into) {
  if (!tape_.wants_operations()) return;
  for (const Tensor& weight : unit.weights) tape::Work(tape_, OperationKind::reduce, kLayer).in(weight).out(into).run();
}

Tensor HybridGeneration::forward(const tape::ModelInput& input) {
  const Decoder& decoder = store_.role().model->decoder;
  const DType dtype = store_.role().precision.weights;
  const std::int64_t rows = input.ids.size(0), tokens = input.ids.size(1);
  const bool by_layer = spread_ && engine_.tensor == 1 && engine_.sync.kind == WeightExport::layers;
  if (by_layer) gather(outside_);
  Tensor hidden = tape_.empty({rows, tokens, decoder.hidden}, dtype, kEmbedding);
  for (Unit& layer : layers_) {
    if (by_layer) gather(layer);
    read(layer, hidden);
    if (by_layer) layer.weights.clear();
  }
  Tensor normed = tape_.empty({rows, tokens, decoder.hidden}, dtype, kNorm);
  hidden.reset();
  const std::int64_t last = input.last_logits > 0 ? std::min(input.last_logits, tokens) : tokens;
  Tensor logits = tape_.empty({rows, last, decoder.vocabulary}, dtype, kHead);
  read(outside_, logits);
  if (by_layer) outside_.weights.clear();
  return logits;
}

}  // namespace headroom::deepspeed_chat
