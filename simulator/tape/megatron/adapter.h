#pragma once

#include <string>

#include "models/sharding/megatron.h"
#include "simulator/tape/megatron/linear.h"

namespace headroom::tape::megatron {

/// Low-rank adapters as Megatron-Bridge makes them beside frozen linear layers, in the model's dtype. Beside
/// a column-parallel layer the first matrix is cut by its rank and what it makes gathered, the second by its
/// outputs; beside a row-parallel one the first is cut by its inputs, the second by its outputs, which are
/// gathered. The adapter of routed experts is one for all of a rank's. Source: Megatron-Bridge's
/// peft/lora.py and utils.py (ParallelLinearAdapter); unrecorded.

/// Shapes [out, in] of the adapter beside `weight`, which is this rank's; none where `lora` leaves it out.
/// `lora`'s targets are Megatron's names (linear_qkv, linear_proj, linear_fc1, linear_fc2) or the
/// checkpoint's (q_proj, o_proj, gate_proj, down_proj …).
struct AdapterShapes {
  Shape in, out;
};
std::optional<AdapterShapes> adapter_shapes(const MegatronWeight& weight, const LoraSpec& lora,
                                            std::int64_t tensor);

/// What the adapter beside `weight` adds to its product of `input` [tokens, in]; undefined without one.
/// `input` are all tokens of a column-parallel layer.
Tensor adapter_output(Context& context, const Tensor& input, const Tensor& weight, Cut cut);

bool has_adapter(const Context& context, const Tensor& weight);

}  // namespace headroom::tape::megatron
