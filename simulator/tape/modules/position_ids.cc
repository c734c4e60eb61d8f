#include "simulator/tape/modules/position_ids.h"

#include "simulator/tape/operations/copy.h"
#include "simulator/tape/operations/pointwise.h"
#include "simulator/tape/operations/reduce.h"
#include "simulator/tape/operations/scan.h"

namespace headroom::tape {
namespace {

const std::uint16_t kArange = operation_name("aten::arange"), kAdd = operation_name("aten::add");
const std::uint16_t kProbe = operation_name("find_packed_sequence_indices"),
                    kPadding = operation_name("_ignore_causal_mask_sdpa");

/// Differences of neighbouring position ids, counted up, compared with the last: are these packed sequences?
void probe_packed(const Tensor& position_ids, std::int64_t batch) {
  Tape& tape = position_ids.tape();
  const std::int64_t tokens = position_ids.size(-1);
  Tensor before = tape.empty({batch, 1}, DType::int64, kProbe);
  Tensor joined = tape.empty({batch, tokens + 1}, DType::int64, kProbe);
  Tensor steps = tape.empty({batch, tokens}, DType::int64, kProbe);
  joined.reset();
  Tensor breaks = tape.empty({batch, tokens}, DType::boolean, kProbe);
  Tensor counted = cumsum(breaks);
  breaks.reset();
  Tensor equal = tape.empty({batch, 1}, DType::boolean, kProbe);
  Tensor all = tape.empty({}, DType::boolean, kProbe);
  drop(equal, all, before, steps, counted);
}

}  // namespace

Tensor make_position_ids(Tape& tape, std::int64_t tokens) {
  Tensor range = tape.empty({tokens}, DType::int64, kArange);
  Tensor shifted = plain(kAdd, DType::int64, std::move(range));
  return tape.alias(shifted, Shape{1, tokens});
}

void probe_padding(const Tensor& flags) {
  Tape& tape = flags.tape();
  Tensor total = tape.empty({}, DType::int64, kPadding);
  {
    const Tensor wide = to(flags, DType::int64);
    const SplitReduction split = split_reduction(tape.traits(), wide.shape(), (1u << wide.rank()) - 1u, 8);
    const Tensor buffer = tape.empty({split.buffer}, DType::uint8, kPadding);
    const Tensor semaphores = tape.empty({split.semaphores}, DType::uint8, kPadding);
  }
  Tensor equal = tape.empty({}, DType::boolean, kPadding);
  drop(total, equal);
}

void probe_mask(const Tensor& position_ids, const Tensor& attention_mask, std::int64_t batch) {
  if (!attention_mask.defined()) {
    probe_packed(position_ids, batch);
    return;
  }
  const Tensor flags = to(attention_mask, DType::boolean);
  probe_padding(flags);
}

}  // namespace headroom::tape
