#include "simulator/tape/operations/attention_work.h"

#include "simulator/tape/operations/work.h"

namespace headroom::tape {

AttentionSize full_attention(const Tensor& query, const Tensor& key, double products) {
  return {.sequences = query.size(0),
          .queries = query.size(2),
          .keys = key.size(2),
          .flops = 2.0 * products * static_cast<double>(query.elements()) * static_cast<double>(key.size(2))};
}

void attention_forward_work(std::uint16_t name, const Tensor& query, const Tensor& key, const Tensor& value,
                            const Tensor& workspace, const Tensor& result, const Tensor& logsumexp,
                            const AttentionSize& size) {
  Tape& tape = query.tape();
  if (!tape.wants_operations()) return;
  Work(tape, OperationKind::attention_forward, name)
      .in(query)
      .in(key)
      .in(value)
      .in(workspace)
      .out(result)
      .out(logsumexp)
      .sizes({size.sequences, size.queries, size.keys, query.size(1), key.size(1), query.size(3)})
      .flops(size.flops)
      .run();
}

void attention_backward_work(std::uint16_t name, const Tensor& gradient, const AttentionSaved& saved,
                             const Tensor& workspace, std::span<const Tensor> gradients,
                             const AttentionSize& size) {
  const Tensor &query = saved.query, &key = saved.key;
  Tape& tape = query.tape();
  if (!tape.wants_operations()) return;
  Work(tape, OperationKind::attention_backward, name)
      .in(gradient)
      .in(query)
      .in(key)
      .in(saved.value)
      .in(saved.result)
      .in(saved.logsumexp)
      .in(workspace)
      .out(gradients[0])
      .out(gradients[1])
      .out(gradients[2])
      .sizes({size.sequences, size.queries, size.keys, query.size(1), key.size(1), query.size(3)})
      .flops(size.flops)
      .run();
}

}  // namespace headroom::tape
