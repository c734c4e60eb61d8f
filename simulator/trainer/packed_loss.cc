#include "simulator/trainer/packed_loss.h"

#include "simulator/tape/operations/pointwise.h"
#include "simulator/tape/operations/reduce.h"
#include "simulator/tape/operations/token_losses.h"

namespace headroom::trainer {
namespace {

using tape::Tensor;

const std::uint16_t kInput = tape::operation_name("micro_batch");

}  // namespace

Tensor packed_entropy(const Tensor& logits, const LossSpec& loss, tape::Engine* engine) {
  const auto once = [&loss](const Tensor& rows, std::span<const Tensor>) {
    if (loss.entropy_chunk > 0 && loss.entropy_compiled)
      return tape::compiled_chunked_entropy(rows, loss.entropy_chunk);
    if (loss.entropy_chunk > 0) return tape::chunked_entropy(rows, loss.entropy_chunk);
    return loss.entropy_compiled ? tape::compiled_entropy(rows) : tape::eager_entropy(rows);
  };
  tape::Tape& tape = logits.tape();
  if (!loss.entropy_recomputed || !tape.grad_enabled()) return once(logits, {});
  return engine != nullptr ? tape::checkpoint_reentrant(tape, *engine, once, logits, {})
                           : tape::checkpoint(tape, once, logits, {});
}

Tensor packed_policy_loss(tape::Tape& tape, const LossSpec& loss, const Tensor& logprobs,
                          const Tensor& entropy) {
  const std::int64_t tokens = logprobs.size(0);
  const auto given = [&] { return tape.empty({tokens}, DType::fp32, kInput); };
  Tensor ratio;
  {
    Tensor old = given();
    Tensor gap = tape::sub(logprobs, std::move(old));
    ratio = tape::exp(std::move(gap));
  }
  const Tensor advantages = given();
  Tensor plain, clipped;
  {
    Tensor negative = tape::neg(advantages);
    plain = tape::mul(negative, ratio);
    Tensor bounded = tape::clamp(ratio);
    clipped = tape::mul(std::move(negative), std::move(bounded));
  }
  Tensor larger = tape::maximum(std::move(plain), std::move(clipped));
  Tensor total = tape::mean(std::move(larger));
  if (entropy.defined()) {
    Tensor bonus = tape::mul_scalar(tape::mean(entropy));
    total = tape::add(std::move(total), std::move(bonus));
  }
  if (loss.kl) {
    Tensor reference = given();
    Tensor gap = tape::sub(logprobs, std::move(reference));
    Tensor grown = tape::exp(gap);
    Tensor divergence = tape::sub(std::move(grown), std::move(gap));
    Tensor penalty = tape::mul_scalar(tape::mean(std::move(divergence)));
    total = tape::add(std::move(total), std::move(penalty));
  }
  ratio.reset();
  return total;
}

}  // namespace headroom::trainer
