#include "simulator/tape/megatron/collectives.h"

#include "simulator/tape/operations/work.h"

namespace headroom::tape::megatron {
namespace {

const std::uint16_t kGather = operation_name("nccl::all_gather"),
                    kReduceScatter = operation_name("nccl::reduce_scatter"),
                    kAllReduce = operation_name("nccl::all_reduce"),
                    kExchange = operation_name("nccl::all_to_all");

Shape with_rows(const Shape& shape, std::int64_t rows) {
  Shape out = Shape::contiguous(shape.sizes());
  out.size[0] = rows;
  set_contiguous(out);
  return out;
}

Tensor collective(const Context& context, OperationKind kind, std::uint16_t name, const Tensor& mine,
                  std::int64_t rows, std::int64_t ranks) {
  Tape& tape = context.tape;
  const ComponentScope component(tape, Component::communication);
  Tensor out = tape.empty(with_rows(mine.shape(), rows), mine.dtype(), name);
  if (tape.wants_operations()) Work(tape, kind, name).in(mine).out(out).sizes({ranks}).run();
  return out;
}

}  // namespace

Tensor gather_rows(const Context& context, const Tensor& mine, std::int64_t ranks) {
  if (ranks <= 1) return mine;
  return collective(context, OperationKind::all_gather, kGather, mine, mine.size(0) * ranks, ranks);
}

Tensor reduce_rows(const Context& context, const Tensor& whole, std::int64_t ranks) {
  if (ranks <= 1) return whole;
  return collective(context, OperationKind::reduce_scatter, kReduceScatter, whole, whole.size(0) / ranks,
                    ranks);
}

Tensor gather_tokens(const Context& context, const Tensor& mine) {
  return gather_rows(context, mine, context.token_split());
}

void gather_into(const Context& context, const Tensor& mine, const Tensor& whole) {
  if (context.tape.wants_operations())
    Work(context.tape, OperationKind::all_gather, kGather)
        .in(mine)
        .out(whole)
        .sizes({context.tensor()})
        .run();
}

Tensor reduce_tokens(const Context& context, const Tensor& whole) {
  if (context.sequence_parallel()) return reduce_rows(context, whole, context.tensor());
  Tape& tape = context.tape;
  if (context.tensor() > 1 && tape.wants_operations())
    Work(tape, OperationKind::all_reduce, kAllReduce).in(whole).out(whole).sizes({context.tensor()}).run();
  return whole;
}

Tensor exchange_rows(const Context& context, const Tensor& mine, std::int64_t rows, std::int64_t ranks) {
  if (ranks <= 1) return mine;
  return collective(context, OperationKind::all_to_all, kExchange, mine, rows, ranks);
}

Tensor gather_features(const Context& context, const Tensor& mine, std::int64_t, std::int64_t ranks) {
  Tensor out = context.tape.empty({mine.size(0), mine.size(1) * ranks}, mine.dtype(), kGather);
  if (context.tape.wants_operations())
    Work(context.tape, OperationKind::all_gather, kGather).in(mine).out(out).sizes({ranks}).run();
  return out;
}

Tensor keep_features(const Context& context, const Tensor& whole, std::int64_t, std::int64_t ranks) {
  return context.tape.empty({whole.size(0), whole.size(1) / ranks}, whole.dtype(), kGather);
}

}  // namespace headroom::tape::megatron
