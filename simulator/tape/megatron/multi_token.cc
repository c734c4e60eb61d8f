#include "simulator/tape/megatron/multi_token.h"

#include "simulator/tape/megatron/collectives.h"
#include "simulator/tape/megatron/elementary.h"
#include "simulator/tape/operations/copy.h"
#include "simulator/tape/operations/work.h"

namespace headroom::tape::megatron {
namespace {

const std::uint16_t kScatter = operation_name("megatron::scatter_to_sequence"),
                    kScaler = operation_name("MTPLossAutoScalerBackward"), kOnes = operation_name("aten::ones_like");

Tensor own_tokens(const Context& c, const Tensor& whole, std::int64_t rows, std::int64_t) {
  Tensor out = c.tape.empty({rows, whole.size(1)}, whole.dtype(), kScatter);
  if (c.tape.wants_operations()) Work(c.tape, OperationKind::copy, kScatter).out(out).run();
  return out;
}
Tensor tokens_of_all(const Context& c, const Tensor& mine, std::int64_t, std::int64_t) {
  return gather_tokens(c, mine);
}

void loss_gradient(Node& node, std::span<Tensor> in, std::span<Tensor> out) {
  const Tensor loss = node.unpack(0);
  out[0] = in[0];
  if (!node.wants(1)) return;
  const Tensor ones = node.tape->empty(loss.shape(), loss.dtype(), kOnes);
  out[1] = node.tape->empty(loss.shape(), loss.dtype(), kOnes);  // scaled
}

}  // namespace

Tensor predict_depth(Context& c, const Layer& layer, const Norm& norm_spec, const PredictionDepth& depth,
                     const Tensor& hidden, const Tensor& embedded) {
  Tensor next = norm(c, embedded, depth.ends.norm("enorm.", norm_spec));
  Tensor before = norm(c, hidden, depth.ends.norm("hnorm.", norm_spec));
  Tensor joined = cat(next, before, 1);
  drop(next, before);
  Tensor x = linear(c, std::move(joined), depth.ends("eh_proj.weight"), {}, Cut::column);
  if (c.tensor() > 1) {
    const std::int64_t rows = x.size(0);
    x = row_function(c, std::move(x), rows, c.tensor(), gather_features, keep_features);
  }
  if (c.sequence_parallel()) {
    const std::int64_t rows = x.size(0) / c.tensor();
    x = row_function(c, std::move(x), rows, c.tensor(), own_tokens, tokens_of_all);
  }
  Tensor out = decoder_layer(c, layer, depth.layer, x);
  x.reset();
  return norm(c, std::move(out), depth.ends.norm("final_layernorm.", norm_spec));
}

Tensor with_loss(Context& c, Arg hidden, const Tensor& loss) {
  Tape& tape = c.tape;
  Node* node = nullptr;
  if (tape.grad_enabled() && (hidden->requires_grad() || loss.requires_grad())) {
    node = tape.node(kScaler, loss_gradient, {&*hidden, &loss});
    tape.save(node, loss);
  }
  Tensor out = tape.alias(*hidden, hidden->shape(), 0, false);
  tape.attach(out, node);
  done(hidden);
  return out;
}

}  // namespace headroom::tape::megatron
