#include "planner/frameworks/trl/trainer_loop.h"

#include <algorithm>
#include <utility>

#include "simulator/tape/core/autocast.h"
#include "simulator/tape/modules/layers.h"
#include "simulator/tape/operations/copy.h"
#include "simulator/tape/operations/losses.h"
#include "simulator/tape/operations/pointwise.h"
#include "simulator/tape/operations/reduce.h"
#include "simulator/tape/operations/views.h"

namespace headroom::trl {
namespace {

using tape::Tensor;

const std::uint16_t kTrainingLoss = tape::operation_name("training_loss"),
                    kMetric = tape::operation_name("metric"), kNorm = tape::operation_name("grad_norm"),
                    kGathered = tape::operation_name("GatheredParameters");

/// Rows that TRL forms entropies of at once.
constexpr std::int64_t kEntropyRows = 128;

}  // namespace

WithoutCheckpoints::WithoutCheckpoints(tape::Model& model)
    : model_(model), before_(std::exchange(model.options().recompute, {})) {}

WithoutAdapters::WithoutAdapters(tape::Model& model) : model_(model) {
  for (const tape::NamedLinear& linear : model.linears()) pairs_.push_back(std::move(linear.layer->lora));
}

WithoutAdapters::~WithoutAdapters() {
  std::size_t i = 0;
  for (const tape::NamedLinear& linear : model_.linears()) linear.layer->lora = std::move(pairs_[i++]);
}

GatheredWeights::GatheredWeights(tape::Model& model, const Role& role) : model_(model) {
  if (role.sharding.kind != ShardingKind::zero3 || !role.sharding.gathers_to_generate) return;
  const tape::ComponentScope component(model.tape(), Component::weights);
  Bytes missing = 0;
  for (const tape::ParameterSlot& slot : model.parameters())
    if ((*slot.tensor)->storage->bytes == 0)
      missing += bytes_of(slot.tensor->dtype(), slot.tensor->elements());
  all_ = model.tape().empty({missing}, DType::uint8, kGathered);
  hooks_ = std::exchange(model.hooks, nullptr);
}

Tensor entropies(const Tensor& logits) {
  Tensor flat = tape::reshape(logits, {-1, logits.size(-1)});
  std::vector<Tensor> chunks;
  for (std::int64_t i = 0; i == 0 || i < flat.size(0); i += kEntropyRows) {  // of no rows one chunk, too
    Tensor rows = tape::slice(flat, 0, i, std::min(kEntropyRows, flat.size(0) - i));
    Tensor logs = tape::log_softmax(rows);
    Tensor weighted = tape::mul(tape::exp(logs), logs);
    Tensor sums = tape::sum(std::move(weighted), 2u, false);
    chunks.push_back(tape::neg(std::move(sums)));
  }
  Tensor joined = tape::cat(chunks, 0);
  return tape::view(std::move(joined), {logits.size(0), logits.size(1)});
}

Tensor TrainerLoop::widened(Tensor output) const {
  if (!role().precision.autocast) return output;
  const tape::ComponentScope component(tape_, Component::logits);
  return tape::to(std::move(output), DType::fp32);
}

Tensor TrainerLoop::call(const tape::ModelInput& input) {
  Tensor output;
  {
    const tape::Autocast autocast(tape_, role().precision.autocast, role().precision.compute);
    output = model().forward(input);
  }
  return widened(std::move(output));
}

void TrainerLoop::small_tensors(int count) {
  for (int i = 0; i < count; ++i) tape_.empty({}, DType::fp32, kMetric).reset();
}

std::int64_t TrainerLoop::together() const {
  return std::max<std::int64_t>(context_.mini_batch / context_.micro_batch, 1);
}

void TrainerLoop::add_up_loss(Experience&) {
  if (!loss_.defined() && training_loss_.defined()) return;
  if (loss_.defined()) last_loss_ = std::move(loss_);
  training_loss_ = tape_.empty({}, DType::fp32, kTrainingLoss);
}

void TrainerLoop::backward(Experience&) {
  store_.begin_micro_batch(++backwards_ % together() == 0);
  store_.backward(tape::div_scalar(loss_));
  empty_after_micro_batch();
}

void TrainerLoop::detach_loss(Experience&) {
  loss_ = tape::detach(loss_);
}

void TrainerLoop::clip(Experience&) {
  const tape::GradMode no_grad(tape_, false);
  store_.clip();
  norm_ = tape_.empty({}, DType::fp32, kNorm);
}

void TrainerLoop::step(Experience&) {
  store_.update();
}

void TrainerLoop::begin_equals(Experience&) {
  const std::int64_t equals = std::max<std::int64_t>(together() - 2, 1);
  backwards_ += equals - 1;
  if (context_.repeat != nullptr) *context_.repeat = static_cast<double>(equals);
}

void TrainerLoop::end_equals(Experience&) {
  if (context_.repeat != nullptr) *context_.repeat = 1;
}

}  // namespace headroom::trl
