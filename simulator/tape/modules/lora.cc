#include "simulator/tape/modules/lora.h"

#include <algorithm>

#include "simulator/tape/modules/layers.h"

namespace headroom::tape {
namespace {

bool targeted(const LoraSpec& spec, const std::string& name) {
  const std::string leaf = name.substr(name.rfind('.') + 1);
  return std::any_of(spec.targets.begin(), spec.targets.end(), [&](const std::string& target) {
    return target == "all-linear" || target == leaf || target == name;
  });
}

void insert_slots(Model& model, const LinearLayer& layer, LoraPair& pair, const std::string& name,
                  int index) {
  std::vector<ParameterSlot>& slots = model.parameters();
  auto at = std::find_if(slots.begin(), slots.end(),
                         [&](const ParameterSlot& slot) { return slot.tensor == &layer.weight; });
  ++at;
  if (layer.bias.defined()) ++at;
  const ParameterSlot a{name + ".lora_A.default.weight", &pair.a, index};
  const ParameterSlot b{name + ".lora_B.default.weight", &pair.b, index};
  slots.insert(slots.insert(at, b), a);
}

}  // namespace

void add_lora(Model& model, const LoraSpec& spec) {
  Tape& tape = model.tape();
  for (const ParameterSlot& slot : model.parameters()) (*slot.tensor)->requires_grad = spec.rest_trains;
  std::vector<Tensor*> made;
  for (const NamedLinear& linear : model.linears()) {
    if (!targeted(spec, linear.name)) continue;
    LinearLayer& layer = *linear.layer;
    layer.weight->requires_grad = false;
    layer.lora = std::make_unique<LoraPair>();
    layer.lora->module = model.intern(linear.name + ".lora");
    layer.lora->dropout = spec.dropout;
    layer.lora->dtype = spec.dtype;
    const ModuleScope module(tape, layer.lora->module);
    const DType dtype = layer.weight.dtype();
    layer.lora->a = tape.parameter({spec.rank, layer.weight.size(layer.transposed ? 0 : 1)}, dtype, true);
    layer.lora->b = tape.parameter({layer.weight.size(layer.transposed ? 1 : 0), spec.rank}, dtype, true);
    insert_slots(model, layer, *layer.lora, linear.name, linear.layer_index);
    made.push_back(&layer.lora->a);
    made.push_back(&layer.lora->b);
  }
  for (Tensor* tensor : made) {
    if (tensor->dtype() == spec.dtype) continue;
    const ModuleScope module(tape, (*tensor)->storage->label.module);
    const Tensor wide = tape.parameter(tensor->shape(), spec.dtype, false);
    tape.set_data(*tensor, wide);
  }
}

}  // namespace headroom::tape
