#pragma once

#include <initializer_list>
#include <memory>
#include <utility>

#include "simulator/tape/megatron/options.h"

namespace headroom::tape::megatron {

/// The three matrix products of a linear layer, and what its autograd function is made of. Weights are
/// [.., out, in].

/// Whose product it is decides whose workspace the first one takes.
enum class Multiplier { transformer_engine, torch };

/// [rows, in] x weight -> [rows, out].
Tensor product(Context& context, Multiplier by, std::uint16_t name, const Tensor& input,
               const Tensor& weight);
/// [rows, out] x weight -> [rows, in].
Tensor input_gradient(Context& context, Multiplier by, std::uint16_t name, const Tensor& gradient,
                      const Tensor& weight);
/// What autograd gets for the weight. With gradient accumulation fusion a tensor that nobody writes: a
/// placeholder that TransformerEngine keeps for the whole process, or, with Megatron's own layers, one made
/// each time. Else a gradient of its own.
Tensor weight_gradient(Context& context, const Tensor& gradient, const Tensor& input, const Tensor& weight);
Tensor small_gradient(Context& context, const Tensor& parameter);

/// An operand in FP8: by rows for the forward product, and by columns, where a backward comes, for the
/// gradient's.
struct Quantised {
  Tensor rows, columns;
};
Quantised quantised(Context& context, const Tensor& operand);

/// The node of a product or norm of the first of `inputs` with the parameters behind it, which saves `kept`
/// (which may be undefined: a frozen weight's gradient needs no input); null where neither it nor the first
/// parameter wants gradients.
template <typename Function, typename... Arguments>
Node* recorded_with(Context& c, const Tensor& kept, std::uint16_t name,
                    std::initializer_list<const Tensor*> inputs, Arguments&&... arguments) {
  Tape& tape = c.tape;
  const Tensor& input = *inputs.begin()[0];
  if (!tape.grad_enabled() || !(input.requires_grad() || inputs.begin()[1]->requires_grad())) return nullptr;
  Node* node = tape.node(name, nullptr, inputs);
  node->function = std::make_unique<Function>(c, std::forward<Arguments>(arguments)...);
  tape.save(node, kept);
  return node;
}

/// The same where the input itself is kept.
template <typename Function, typename... Arguments>
Node* recorded(Context& c, std::uint16_t name, std::initializer_list<const Tensor*> inputs,
               Arguments&&... arguments) {
  return recorded_with<Function>(c, *inputs.begin()[0], name, inputs, std::forward<Arguments>(arguments)...);
}

}  // namespace headroom::tape::megatron
