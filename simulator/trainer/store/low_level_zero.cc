#include "simulator/trainer/store/low_level_zero.h"

#include "simulator/tape/sharding/zero.h"
#include "simulator/trainer/store/residence.h"

namespace headroom::trainer {

Status LowLevelZeroStore::build() {
  tape_.set_stopped(true);
  const Status built = build_model();
  tape_.set_stopped(false);
  HEADROOM_TRY(built);
  tape::zero_to_device(*model_);
  if (context_.communicator_made) context_.communicator_made();
  return {};
}

void LowLevelZeroStore::build_optimizer() {
  if (!role().trained || optimizer_) return;
  const Sharding& sharding = role().sharding;
  tape::LowLevelZeroOptions options;
  options.stage = sharding.kind == ShardingKind::low_level_zero1 ? 1 : 2;
  options.ranks = context_.ranks;
  options.dtype = role().precision.weights;
  options.loss_scaling = role().precision.gradient_scaler;
  options.offload = sharding.offload_optimizer;
  options.bucket = sharding.reduce_bucket;
  options.clones_parts = sharding.joins_lists;
  options.reduce_stream = context_.first_stream;
  optimizer_ = std::make_unique<tape::LowLevelZero>(*model_, context_.engine, options);
}

void LowLevelZeroStore::step() {
  optimizer_->step(updates_++ < role().precision.skipped_steps);
}

void LowLevelZeroStore::move(unsigned parts, bool to_device) {
  if ((parts & kWeights) == 0) return;
  model_->in_module_order([&](const tape::Tensor& tensor) {
    to_device ? move_to_device(tape_, tensor) : move_to_host(tape_, tensor, HostKind::pageable);
  });
}

/// The weights are copied to the host tensor by tensor; each rank writes its own states.
void LowLevelZeroStore::save(unsigned /*parts*/, bool /*gathered*/) {
  const tape::ComponentScope component(tape_, Component::staging);
  const tape::Tensor weights = tape_.empty_host({extent().whole}, DType::uint8, HostKind::pageable);
}

}  // namespace headroom::trainer
