#include "models/sharding/fsdp.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "models/base/bytes.h"

namespace headroom {
namespace {

std::string_view module_of(std::string_view name) {
  return name.substr(0, name.rfind('.'));
}

/// `model.layers.3` of `model.layers.3.mlp.up_proj.weight`: up to the index.
std::string_view layer_module(std::string_view name, std::int32_t index) {
  const std::string part = "." + std::to_string(index) + ".";
  const size_t at = name.find(part);
  return at == std::string_view::npos ? name : name.substr(0, at + part.size() - 1);
}

/// The unit that holds a tensor, by name; the root is the empty name.
std::string_view unit_name(const Architecture& model, const Tensor& tensor, const FsdpPolicy& policy) {
  if (policy.trainable_leaves && tensor.trainable) return module_of(tensor.name);
  if (policy.untied_embeddings && !model.decoder.tied_embeddings && tensor.role == TensorRole::embedding)
    return module_of(tensor.name);
  if (policy.layers && tensor.layer >= 0) return layer_module(tensor.name, tensor.layer);
  return {};
}

}  // namespace

std::vector<FsdpUnit> fsdp_units(const Architecture& model, const FsdpPolicy& policy) {
  std::vector<FsdpUnit> units(1);
  units.front().place = Place::head;
  std::map<std::string_view, size_t> known = {{std::string_view{}, 0}};
  for (size_t i = 0; i < model.tensors.size(); ++i) {
    const Tensor& tensor = model.tensors[i];
    if (tensor.buffer || !tensor.tied_to.empty()) continue;
    const std::string_view name = unit_name(model, tensor, policy);
    const auto [at, fresh] = known.try_emplace(name, units.size());
    if (fresh)
      units.push_back(
          {.name = std::string(name), .place = tensor.place, .layer = tensor.layer, .tensors = {}});
    FsdpUnit& unit = units[at->second];
    unit.tensors.push_back(static_cast<std::int32_t>(i));
    unit.elements += tensor.count();
  }
  return units;
}

FlatShard flat_shard(const Architecture& model, const FsdpUnit& unit, std::int64_t ranks,
                     std::int64_t align_bytes, DType dtype) {
  const std::int64_t align = std::max<std::int64_t>(1, align_bytes / element_size(dtype));
  FlatShard flat;
  for (std::int32_t index : unit.tensors)
    flat.elements = round_up(flat.elements, align) + model.tensors[static_cast<size_t>(index)].count();
  flat.elements = round_up(flat.elements, align);
  flat.local = ceil_div(flat.elements, ranks);
  flat.padding = flat.local * ranks - flat.elements;
  return flat;
}

std::vector<std::int64_t> row_shard_shape(const std::vector<std::int64_t>& shape, std::int64_t rank,
                                          std::int64_t ranks) {
  std::vector<std::int64_t> local = shape;
  if (local.empty()) return local;
  const std::int64_t chunk = ceil_div(shape[0], ranks);
  local[0] = std::clamp<std::int64_t>(shape[0] - rank * chunk, 0, chunk);
  return local;
}

std::int64_t row_shard_elements(const std::vector<std::int64_t>& shape, std::int64_t ranks) {
  std::int64_t elements = shape.empty() ? 1 : ceil_div(shape[0], ranks);
  for (size_t i = 1; i < shape.size(); ++i) elements *= shape[i];
  return elements;
}

std::int64_t row_shard_elements(const Architecture& model, const FsdpUnit& unit, std::int64_t ranks) {
  std::int64_t sum = 0;
  for (std::int32_t index : unit.tensors)
    sum += row_shard_elements(model.tensors[static_cast<size_t>(index)].shape, ranks);
  return sum;
}

}  // namespace headroom
