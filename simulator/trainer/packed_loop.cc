#include "simulator/trainer/packed_loop.h"

#include <algorithm>
#include <utility>

#include "simulator/tape/core/autocast.h"
#include "simulator/tape/operations/copy.h"
#include "simulator/tape/operations/losses.h"
#include "simulator/tape/operations/pointwise.h"
#include "simulator/tape/operations/reduce.h"
#include "simulator/tape/operations/token_losses.h"
#include "simulator/tape/operations/views.h"
#include "simulator/trainer/packed_loss.h"
#include "simulator/trainer/token_logprob.h"

namespace headroom::trainer {
namespace {

using tape::Tensor;

const std::uint16_t kInput = tape::operation_name("micro_batch"),
                    kMask = tape::operation_name("packed_sequence_mask");

}  // namespace

PackedLoop::PackedLoop(Store& store) : Loop(store) {
  model().options().ulysses = role().parallel.ulysses;
}

// --- Micro-batches

/// The running step's list for the acting role, or of the latest step before it.
const ListedBatches* PackedLoop::listed(Pass pass) const {
  const ListedBatches* found = nullptr;
  if (context_.listed == nullptr) return found;
  for (const ListedBatches& one : *context_.listed)
    if (one.role == acting().name && one.training == (pass == Pass::train) && one.step <= step_ &&
        (found == nullptr || one.step > found->step))
      found = &one;
  return found;
}

std::vector<PackedLoop::Piece> PackedLoop::forward_pieces() const {
  std::vector<Piece> out;
  if (const ListedBatches* known = listed(Pass::forward)) {
    for (const auto& lengths : known->micro_batches)
      out.push_back({listed_batch(acting(), Pass::forward, lengths)});
    return out;
  }
  const std::int64_t all = context_.packed_forward.count, runs = std::min<std::int64_t>(all, 2);
  for (std::int64_t i = 0; i < runs; ++i)
    out.push_back({context_.packed_forward, i == 0 ? 1 : static_cast<double>(all - 1)});
  return out;
}

std::vector<PackedLoop::MiniBatch> PackedLoop::train_pieces(std::int64_t batch) const {
  std::vector<MiniBatch> out;
  if (const ListedBatches* known = listed(Pass::train)) {
    std::int64_t left = 0;  // sequences that the running mini-batch still takes
    for (const auto& lengths : known->micro_batches) {
      if (left <= 0) {
        out.emplace_back();
        left = context_.mini_batch;
      }
      out.back().pieces.push_back({listed_batch(role(), Pass::train, lengths)});
      left -= static_cast<std::int64_t>(lengths.size());
    }
    return out;
  }
  const std::int64_t steps =
      std::max<std::int64_t>(1, context_.epochs * (batch / std::max<std::int64_t>(1, context_.mini_batch)));
  const std::int64_t all = std::max<std::int64_t>(1, context_.packed_train.count);
  // What is kept of every micro-batch grows with their number: all are run.
  const std::int64_t runs = role().loss.keeps_outputs ? all : std::min<std::int64_t>(all, 3);
  for (std::int64_t step = 0; step < std::min<std::int64_t>(steps, 2); ++step) {
    MiniBatch& mini_batch = out.emplace_back();
    mini_batch.times = step == 0 ? 1 : static_cast<double>(steps - 1);
    const double each = mini_batch.times;
    for (std::int64_t i = 0; i < runs; ++i)
      mini_batch.pieces.push_back(
          {context_.packed_train, i == 1 && runs == 3 && all > 3 ? each * static_cast<double>(all - 2) : each});
  }
  return out;
}

// --- One micro-batch

void PackedLoop::repeat(double times, double filled) {
  if (context_.repeat != nullptr) *context_.repeat = times;
  if (context_.filled != nullptr) *context_.filled = filled;
}

tape::ModelInput PackedLoop::packed_input(const MicroBatches& batch) {
  const tape::ComponentScope component(tape_, Component::temporaries);
  tape::ModelInput input;
  const std::int64_t rows = role().packed ? 1 : std::max<std::int64_t>(1, batch.sequences);
  input.ids = tape_.empty({rows, batch.tokens_per_rank / rows}, DType::int64, kInput);
  input.position_ids = tape_.empty({rows, batch.tokens_per_rank / rows}, DType::int64, kInput);
  tape_.memory().wait_event(tape_.memory().record_event(0));  // packing reads the lengths back to the host
  model().options().packed_sequences = std::max<std::int64_t>(1, batch.sequences);
  return input;
}

PackedLoop::Outputs PackedLoop::fused(const tape::ModelInput& input, const Tensor& labels) {
  Outputs out;
  out.logprobs = model().forward(input, [&](Tensor hidden) {
    Tensor rows = tape::view(std::move(hidden), {labels.size(0), -1});
    tape::FusedOutput both =
        tape::fused_linear_logprobs(std::move(rows), model().head_table(), labels, role().loss.chunk);
    out.entropy = std::move(both.entropy);
    return std::move(both.logprobs);
  });
  return out;
}

/// Log-probs of labels [N] from logits [N,V], which go at the end.
Tensor PackedLoop::token_logprobs(Tensor logits, const Tensor& labels, bool in_place) {
  if (acting().loss.token_logprob == TokenLogprob::flash_cross_entropy)
    return tape::neg(tape::flash_cross_entropy(std::move(logits), labels, in_place));
  if (acting().loss.token_logprob != TokenLogprob::selective_log_softmax) {
    const LossSpec& loss = acting().loss;
    Tensor table = loss.collects_chunks && loss.chunk > 0 && !tape_.grad_enabled()
                       ? collected_log_softmax(std::move(logits), loss.chunk)
                       : tape::log_softmax(std::move(logits));
    return tape::squeeze(tape::gather(std::move(table), tape::unsqueeze(labels, -1)), -1);
  }
  // Row by row: each row's log-probabilities stay for the backward.
  std::vector<Tensor> each;
  Tensor table;  // of the row before, until the next one exists
  const Tensor index = tape::unsqueeze(labels, -1);
  std::vector<Tensor> rows = tape::split(logits, 0, 1), chosen = tape::split(index, 0, 1);
  logits.reset();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    table = tape::log_softmax(tape::squeeze(rows[i], 0));
    each.push_back(tape::gather(table, tape::squeeze(chosen[i], 0)));
  }
  tape::drop(table);
  return tape::cat(each, 0);
}

PackedLoop::Outputs PackedLoop::run(const MicroBatches& batch, Entropy entropy) {
  const LossSpec& loss = acting().loss;
  const tape::Autocast autocast(tape_, role().precision.autocast, role().precision.compute);
  tape::ModelInput input = packed_input(batch);
  const Tensor labels = tape::view(input.ids, {-1});
  if (loss.token_logprob == TokenLogprob::fused_linear) return fused(input, labels);
  // Sequences that share rows of tokens are told apart by a mask, which checkpoints keep for the backward.
  if (role().packed && role().attention == AttentionImplementation::sdpa && batch.sequences > 1)
    mask_ = tape_.empty({1, 1, input.ids.size(1), input.ids.size(1)}, DType::boolean, kMask);
  Outputs out;
  out.logits = model().forward(input);
  if (!tape_.grad_enabled()) mask_.reset();
  const tape::ComponentScope component(tape_, Component::logits);
  if (loss.logits_fp32) out.logits = tape::to(std::move(out.logits), DType::fp32);  // the caller's; the model's go
  Tensor rows = tape::view(out.logits, {labels.size(0), -1});
  Tensor scaled = !loss.divides_logits   ? rows
                  : loss.temperature_copy ? tape::mul_scalar(rows)
                                          : tape::div_scalar_in_place(rows);
  rows.reset();
  if (entropy != Entropy::none) {
    // Of the undivided logits themselves, whose gradients are then summed beside both, or of the divided rows.
    const bool of_logits = !loss.divides_logits;
    const bool graph = entropy == Entropy::backward || loss.keeps_unused_graph;
    const tape::GradMode mode(tape_, tape_.grad_enabled() && graph);
    out.entropy = packed_entropy(of_logits ? tape::view(out.logits, {labels.size(0), -1}) : scaled, loss, model().engine);
  }
  // Written over the logits in the backward, unless the entropy or the caller still needs them.
  const bool in_place =
      loss.overwrites_logits && entropy == Entropy::none && !(loss.logits_fp32 && loss.keeps_logits);
  if (role().packed || !loss.temperature_copy) {
    out.logprobs = token_logprobs(std::move(scaled), labels, in_place);
    return out;
  }
  // Trainers that divide out of place also join the rows without padding in a copy, beside the rectangle.
  const Tensor valid = tape::take_rows(scaled, batch.valid);
  const Tensor targets = tape_.empty({batch.valid}, DType::int64, kInput);
  out.logprobs = token_logprobs(valid, targets, in_place);
  return out;
}

Tensor PackedLoop::forward(Experience&, Output output) {
  const tape::GradMode no_grad(tape_, false);
  const tape::ComponentScope component(tape_, Component::activations);
  const bool training = std::exchange(model().options().training, role().training_mode_forward);
  std::vector<Tensor> results;
  store_.begin_pass();
  for (const Piece& piece : forward_pieces()) {
    repeat(piece.times, piece.batch.filled);
    if (output == Output::logprobs) {
      Outputs outputs = run(piece.batch, acting().loss.logprob_entropy);
      outputs.logits.reset();
      results.push_back(std::move(outputs.logprobs));
      if (outputs.entropy.defined()) results.push_back(std::move(outputs.entropy));
    } else {
      const tape::Autocast autocast(tape_, role().precision.autocast, role().precision.compute);
      results.push_back(model().forward(packed_input(piece.batch)));
    }
    empty_after_micro_batch();
  }
  repeat(1);
  store_.end_pass();
  model().options().training = training;
  return {};  // results go to the host with the batch
}

void PackedLoop::score_micro_batch() {
  const tape::GradMode no_grad(tape_, false);
  const tape::ComponentScope component(tape_, Component::activations);
  const bool training = std::exchange(model().options().training, role().training_mode_forward);
  store_.begin_pass();
  scores_ = run(context_.packed_forward, Entropy::none).logprobs;
  store_.end_pass();
  model().options().training = training;
}

// --- Training

Tensor PackedLoop::value_loss(const MicroBatches& batch) {
  Tensor values;
  {
    const tape::Autocast autocast(tape_, role().precision.autocast, role().precision.compute);
    values = model().forward(packed_input(batch));
  }
  Tensor wide = tape::to(std::move(values), DType::fp32);
  Tensor targets = tape_.empty(wide.shape(), DType::fp32, kInput);
  return tape::mse_loss(std::move(wide), std::move(targets));
}

Tensor PackedLoop::packed_loss(const MicroBatches& batch) {
  if (role().head != HeadKind::language_model) return value_loss(batch);
  Outputs outputs = run(batch, role().loss.train_entropy);
  const LossSpec& loss = role().loss;
  if (loss.keeps_logits) kept_logits_ = outputs.logits;
  if (!loss.reference.empty()) {
    outputs.logits.reset();
    context_.score(loss.reference);
  }
  // A fused function gives both at once, so that its backward is that of both.
  const bool bonus = loss.train_entropy == Entropy::backward ||
                     (loss.token_logprob == TokenLogprob::fused_linear && !loss.keeps_unused_graph);
  // An entropy that the loss does not use keeps its graph, which no backward frees.
  if (loss.keeps_unused_graph) kept_entropy_ = outputs.entropy;
  if (loss.keeps_outputs) {
    outputs.logits.reset();
    kept_outputs_.push_back(outputs);
  }
  return packed_policy_loss(tape_, loss, outputs.logprobs, bonus ? outputs.entropy : Tensor());
}

void PackedLoop::run_micro_batch(const MicroBatches& batch, bool last) {
  store_.begin_micro_batch(last);
  Tensor scaled;
  {
    const tape::ComponentScope component(tape_, Component::activations);
    scaled = tape::div_scalar(packed_loss(batch));
  }
  last_loss_ = std::move(scaled);
  store_.backward(last_loss_);
  mask_.reset();
  if (role().loss.logits_end == LogitsEnd::backward || (role().loss.logits_end == LogitsEnd::step && !last))
    tape::drop(kept_logits_, kept_entropy_);
  empty_after_micro_batch();
}

void PackedLoop::train(Experience& experience) {
  for (const MiniBatch& mini_batch : train_pieces(experience.batch)) {
    const std::vector<Piece>& pieces = mini_batch.pieces;
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      repeat(pieces[i].times, pieces[i].batch.filled);
      run_micro_batch(pieces[i].batch, i + 1 == pieces.size());
    }
    last_loss_.reset();
    repeat(mini_batch.times);
    store_.step();
    if (role().loss.logits_end == LogitsEnd::step) tape::drop(kept_logits_, kept_entropy_);
    kept_outputs_.clear();
  }
  repeat(1);
}

}  // namespace headroom::trainer
