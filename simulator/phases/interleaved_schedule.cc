#include "simulator/phases/interleaved_schedule.h"

#include <algorithm>
#include <utility>

namespace headroom::phases {

using tape::Tensor;

InterleavedSchedule::InterleavedSchedule(tape::Tape& tape, const Place& place, Work work)
    : tape_(tape),
      place_(place),
      work_(std::move(work)),
      inputs_(static_cast<std::size_t>(place.chunks)),
      gradients_(inputs_.size()),
      pieces_(inputs_.size()) {
  tape_.memory().wait_for_peers(place_.sends);
  tape_.memory().wait_for_peers(place_.receives);
}

std::int64_t InterleavedSchedule::chunk_of(std::int64_t step, bool forward) const {
  // Groups of `stages` micro-batches go through one chunk after the other.
  const std::int64_t chunk = step % all_ % (place_.stages * place_.chunks) / place_.stages;
  return forward ? chunk : place_.chunks - 1 - chunk;
}

InterleavedSchedule::Source InterleavedSchedule::source(std::int64_t step, bool forward) const {
  // The rank that leads works on what the trailing one finished `stages` - 1 steps earlier, one chunk before.
  const bool leads = forward ? place_.stage == 0 : place_.stage + 1 == place_.stages;
  if (!leads) return {true, chunk_of(step + 1, forward)};
  const std::int64_t ahead = place_.stages - 1;
  const std::int64_t from = chunk_of(step < ahead ? step + 1 : step - ahead, forward);
  const bool has_next = from != (forward ? place_.chunks - 1 : 0);
  return {step >= ahead && has_next, forward ? from + 1 : from - 1};
}

void InterleavedSchedule::send(const Tensor& tensor) {
  if (!tensor.defined()) return;
  tape_.memory().record_stream(tensor->storage->block, place_.sends);
}

Tensor InterleavedSchedule::receive(bool gradient) {
  Tensor out = work_.receive(gradient);
  tape_.memory().record_stream(out->storage->block, place_.receives);
  return out;
}

/// The output that was sent keeps its graph, without its memory; one that is an input too keeps both.
void InterleavedSchedule::drop_output() {
  if (!place_.drops_outputs || !output_.defined() || output_->storage->block == kNoBlock) return;
  const auto is_output = [this](const Tensor& input) {
    return input.defined() && input->storage == output_->storage;
  };
  for (const auto& queue : inputs_)
    if (std::any_of(queue.begin(), queue.end(), is_output)) return;
  tape_.shrink_storage(output_);
}

Tensor InterleavedSchedule::forward_step(std::int64_t step, bool trains) {
  const std::int64_t chunk = chunk_of(step, true);
  auto& inputs = inputs_[static_cast<std::size_t>(chunk)];
  auto& pieces = pieces_[static_cast<std::size_t>(chunk)];
  if (first(chunk)) inputs.emplace_back();
  Piece piece = work_.forward(chunk, inputs[pieces.size()]);
  Tensor output = piece.output;
  if (trains)
    pieces.push_back(std::move(piece));
  else
    inputs.pop_front();
  return last(chunk) ? Tensor() : output;  // the last one has nothing to send
}

Tensor InterleavedSchedule::backward_step(std::int64_t step) {
  const std::int64_t chunk = chunk_of(step, false);
  const auto take = [](auto& queue) {
    auto front = std::move(queue.front());
    queue.pop_front();
    return front;
  };
  const auto at = static_cast<std::size_t>(chunk);
  const Tensor input = take(inputs_[at]);
  const Piece piece = take(pieces_[at]);
  const Tensor gradient = last(chunk) ? Tensor() : take(gradients_[at]);
  Tensor of_input = work_.backward(chunk, input, piece.output, gradient);
  return first(chunk) ? Tensor() : of_input;
}

void InterleavedSchedule::run(std::int64_t micro_batches, bool trains) {
  all_ = micro_batches * place_.chunks;
  const std::int64_t ahead = 2 * (place_.stages - place_.stage - 1) + (place_.chunks - 1) * place_.stages;
  const std::int64_t warmup = trains ? std::min(ahead, all_) : all_;
  if (!first(0)) inputs_.front().push_back(receive(false));
  warm_up(warmup, trains);
  steady(all_ - warmup, warmup);
  drop_output();
  if (!trains) return;
  if (warmup == all_ && !last(place_.chunks - 1)) gradients_.back().push_back(receive(true));
  cool_down(all_ - warmup);
}

void InterleavedSchedule::warm_up(std::int64_t steps, bool trains) {
  for (std::int64_t k = 0; k < steps; ++k) {
    output_ = forward_step(k, trains);
    Source next = source(k, true);
    if (k + 1 == all_) next.receives = false;
    send(output_);
    input_ = next.receives ? receive(false) : Tensor();
    if (next.receives) inputs_[static_cast<std::size_t>(next.chunk)].push_back(input_);
    drop_output();
    if (!trains || k + 1 != steps || steps == all_) continue;
    if (place_.stage + 1 == place_.stages) continue;
    gradient_buffer_ = receive(true);
    gradients_.back().push_back(gradient_buffer_);
  }
}

void InterleavedSchedule::steady(std::int64_t steps, std::int64_t warmup) {
  for (std::int64_t k = 0; k < steps; ++k) {
    drop_output();
    Tensor output = forward_step(k + warmup, true);
    send(output);
    const Source forward = source(k + warmup, true);
    if (forward.receives && k + 1 < steps)
      inputs_[static_cast<std::size_t>(forward.chunk)].push_back(receive(false));
    Tensor gradient = backward_step(k);
    const Source backward = source(k, false);
    send(gradient);
    gradient_buffer_.reset();
    if (backward.receives) gradients_[static_cast<std::size_t>(backward.chunk)].push_back(receive(true));
    output_ = std::move(output);
    input_gradient_ = std::move(gradient);
  }
}

void InterleavedSchedule::cool_down(std::int64_t from) {
  for (std::int64_t k = from; k < all_; ++k) {
    Source next = source(k, false);
    if (k + 1 == all_) next.receives = false;
    input_gradient_ = backward_step(k);
    send(input_gradient_);
    output_gradient_ = next.receives ? receive(true) : Tensor();
    if (next.receives) gradients_[static_cast<std::size_t>(next.chunk)].push_back(output_gradient_);
  }
}

}  // namespace headroom::phases
