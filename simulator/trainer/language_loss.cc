#include "simulator/trainer/language_loss.h"

#include "simulator/tape/operations/copy.h"
#include "simulator/tape/operations/losses.h"
#include "simulator/tape/operations/reduce.h"
#include "simulator/tape/operations/views.h"

namespace headroom::trainer {
namespace {

using tape::Tensor;

const std::uint16_t kLabels = tape::operation_name("labels");

Tensor cross_entropy(Tensor rows, const Tensor& targets) {
  Tensor table = tape::log_softmax(std::move(rows));
  return tape::mean(tape::nll_loss(std::move(table), targets));
}

}  // namespace

Tensor causal_lm_loss(tape::Arg logits, const Tensor& ids) {
  const tape::ComponentScope component(ids.tape(), Component::logits);
  const std::int64_t vocabulary = logits->size(-1);
  Tensor wide = tape::to(*logits, DType::fp32);
  tape::done(logits);
  Tensor padded = ids.tape().empty({ids.size(0), ids.size(1) + 1}, DType::int64, kLabels);
  Tensor labels = tape::contiguous(tape::slice(std::move(padded), 1, 1, ids.size(1)));
  Tensor rows = tape::reshape(std::move(wide), {-1, vocabulary});
  const Tensor targets = tape::reshape(std::move(labels), {-1});
  return cross_entropy(std::move(rows), targets);
}

Tensor shifted_lm_loss(tape::Arg logits, const Tensor& ids) {
  const tape::ComponentScope component(ids.tape(), Component::logits);
  const std::int64_t predicted = ids.size(1) - 1, vocabulary = logits->size(-1);
  Tensor shifted = tape::contiguous(tape::slice(*logits, 1, 0, predicted));
  tape::done(logits);
  Tensor labels = tape::contiguous(tape::slice(ids, 1, 1, predicted));
  Tensor rows = tape::reshape(std::move(shifted), {-1, vocabulary});
  const Tensor targets = tape::reshape(std::move(labels), {-1});
  return cross_entropy(std::move(rows), targets);
}

}  // namespace headroom::trainer
