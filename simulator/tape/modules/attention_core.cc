#include "simulator/tape/modules/attention_core.h"

#include <algorithm>

#include "simulator/tape/operations/attention.h"
#include "simulator/tape/operations/flash_attention.h"
#include "simulator/tape/operations/views.h"
#include "simulator/tape/operations/work.h"

namespace headroom::tape {
namespace {

const std::uint16_t kExchange = operation_name("ulysses::all_to_all"),
                    kExchangeBackward = operation_name("SeqAllToAllBackward");

/// A tensor [B,heads,tokens,d], laid out token by token, from exchanged parts.
Tensor exchanged(Tape& tape, std::uint16_t name, const Shape& shape, const Tensor& from, std::int64_t ranks) {
  Tensor joined;
  {
    const ComponentScope component(tape, Component::communication);
    const Tensor parts = tape.empty({from.elements()}, from.dtype(), name);
    const Tensor received = tape.empty({shape.elements()}, from.dtype(), name);
    if (tape.wants_operations())
      Work(tape, OperationKind::all_to_all, name).in(parts).out(received).sizes({ranks}).run();
    joined = tape.empty({shape[0], shape[2], shape[1], shape[3]}, from.dtype(), name);
  }
  tape.relabel(joined, tape.label().component);
  const Shape turned = tape::transpose(joined.shape(), 1, 2);
  return tape.alias(joined, turned);
}

void exchange_backward(Node& node, std::span<Tensor> in, std::span<Tensor> out) {
  out[0] = exchanged(*node.tape, node.name, node.shape, in[0], node.numbers[0]);
}

Tensor exchange(Arg self, std::int64_t heads, std::int64_t tokens, std::int64_t ranks) {
  Tape& tape = self->tape();
  Node* node = nullptr;
  if (tape.records(self)) {
    node = tape.node(kExchangeBackward, exchange_backward, {&*self});
    node->shape = self->shape();
    node->numbers[0] = ranks;
  }
  Tensor out = exchanged(tape, kExchange, Shape{self->size(0), heads, tokens, self->size(3)}, *self, ranks);
  tape.attach(out, node);
  done(self);
  return out;
}

Tensor attend(const ModelOptions& options, Arg query, Arg key, Arg value) {
  if (options.attention == AttentionImplementation::flash_varlen)
    return flash_attention_varlen(query.pass(), key.pass(), value.pass(), options.packed_sequences);
  return scaled_dot_product_attention(query.pass(), key.pass(), value.pass());
}

}  // namespace

Tensor attention_core(const ModelOptions& options, Arg query, Arg key, Arg value) {
  const std::int64_t n = options.ulysses;
  if (n <= 1) return attend(options, query, key, value);
  const std::int64_t heads = query->size(1), tokens = query->size(2);
  const auto part = [n](std::int64_t all) { return std::max<std::int64_t>(1, all / n); };
  Tensor q = exchange(*query, part(heads), tokens * n, n);
  Tensor k = exchange(*key, part(key->size(1)), tokens * n, n);
  Tensor v = exchange(*value, part(value->size(1)), tokens * n, n);
  Tensor out = attend(options, q, k, v);
  out = exchange(std::move(out), heads, tokens, n);
  drop(q, k, v);
  done(query, key, value);
  return out;
}

}  // namespace headroom::tape
