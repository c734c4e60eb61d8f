#include "simulator/trainer/token_logprob.h"

#include <algorithm>

#include "simulator/tape/core/autocast.h"
#include "simulator/tape/operations/copy.h"
#include "simulator/tape/operations/losses.h"
#include "simulator/tape/operations/pointwise.h"
#include "simulator/tape/operations/token_losses.h"
#include "simulator/tape/operations/views.h"

namespace headroom::trainer {
namespace {

using tape::Tensor;

/// log_softmax(logits).gather(tokens): the whole table of log-probabilities exists.
Tensor by_log_softmax(const Tensor& logits, const Tensor& tokens) {
  Tensor table = tape::log_softmax(logits);
  Tensor index = tape::unsqueeze(tokens, -1);
  return tape::squeeze(tape::gather(std::move(table), std::move(index)), -1);
}

/// -cross_entropy(reduction="none") over rows.
Tensor by_cross_entropy(const Tensor& logits, const Tensor& tokens) {
  Tensor rows = tape::reshape(logits, {-1, logits.size(-1)});
  Tensor targets = tape::reshape(tokens, {-1});
  Tensor loss;
  {
    // Autocast widens the log-probabilities, not the logits.
    Tensor table;
    {
      const tape::Autocast off(rows.tape(), false);
      table = tape::log_softmax(rows);
    }
    Tensor wide = tape::autocast_fp32(table, rows.tape());
    loss = tape::nll_loss(std::move(wide), targets);
  }
  tape::drop(rows, targets);
  Tensor shaped = tape::view(std::move(loss), {tokens.size(0), tokens.size(1)});
  return tape::neg(std::move(shaped));
}

/// The token's logit minus logsumexp.
Tensor by_logsumexp(const Tensor& logits, const Tensor& tokens) {
  Tensor chosen;
  {
    Tensor index = tape::unsqueeze(tokens, -1);
    chosen = tape::squeeze(tape::gather(logits, std::move(index)), -1);
  }
  Tensor normaliser = tape::logsumexp(logits);
  return tape::sub(std::move(chosen), std::move(normaliser));
}

}  // namespace

Tensor selective_log_softmax(const Tensor& logits, const Tensor& tokens) {
  const tape::ComponentScope component(logits.tape(), Component::logits);
  Tensor index = tape::unsqueeze(tokens, -1);
  std::vector<Tensor> each;
  const auto stacked = [&] {
    std::vector<Tensor> columns;
    for (Tensor& row : each) columns.push_back(tape::unsqueeze(std::move(row), 0));
    return tape::cat(columns, 0);
  };
  if (logits.dtype() != DType::fp32) {
    Tensor table;  // of the row before, until the next one exists
    std::vector<Tensor> scores = tape::split(logits, 0, 1), chosen = tape::split(index, 0, 1);
    for (std::size_t i = 0; i < scores.size(); ++i) {
      table = tape::log_softmax(tape::squeeze(scores[i], 0));
      each.push_back(tape::gather(table, tape::squeeze(chosen[i], 0)));
    }
    return tape::squeeze(stacked(), -1);
  }
  Tensor chosen = tape::gather(logits, index);
  for (Tensor& row : tape::split(logits, 0, 1)) each.push_back(tape::logsumexp(tape::squeeze(row, 0)));
  Tensor normalisers = tape::unsqueeze(stacked(), -1);
  Tensor out = tape::sub(std::move(chosen), std::move(normalisers));
  return tape::squeeze(std::move(out), -1);
}

Tensor token_logprobs(tape::Arg logits, const Tensor& ids, const LossSpec& loss) {
  const tape::ComponentScope component(logits->tape(), Component::logits);
  const std::int64_t predicted = logits->size(1) - 1;
  Tensor rows = tape::slice(*logits, 1, 0, predicted);
  Tensor tokens = tape::slice(ids, 1, 1, predicted);
  if (loss.logits_fp32) rows = tape::to(std::move(rows), DType::fp32);
  Tensor out;
  switch (loss.token_logprob) {
    case TokenLogprob::cross_entropy:
    case TokenLogprob::flash_cross_entropy:
      out = by_cross_entropy(rows, tokens);
      break;
    case TokenLogprob::selective_log_softmax:
      out = selective_log_softmax(rows, tokens);
      break;
    case TokenLogprob::logsumexp:
      out = by_logsumexp(rows, tokens);
      break;
    case TokenLogprob::log_softmax:
    case TokenLogprob::fused_linear:  // of logits that exist all the same
      out = by_log_softmax(rows, tokens);
      break;
  }
  logits.release();
  tape::drop(rows, tokens);
  return out;
}

Tensor collected_log_softmax(Tensor rows, std::int64_t chunk) {
  std::vector<Tensor> parts;
  for (std::int64_t i = 0; i < rows.size(0); i += chunk)
    parts.push_back(tape::log_softmax(tape::slice(rows, 0, i, std::min(chunk, rows.size(0) - i))));
  return tape::cat(parts, 0);
}

Tensor token_entropies(const Tensor& logits, const LossSpec& loss) {
  const tape::ComponentScope component(logits.tape(), Component::logits);
  Tensor rows = tape::slice(logits, 1, 0, logits.size(1) - 1);
  Tensor out;
  if (loss.entropy_chunk > 0) {
    rows = tape::reshape(rows, {-1, rows.size(-1)});
    out = tape::chunked_entropy(rows, loss.entropy_chunk);
  } else {
    if (loss.logits_fp32) rows = tape::to(rows, DType::fp32);
    out = tape::eager_entropy(rows);
  }
  return out;
}

}  // namespace headroom::trainer
