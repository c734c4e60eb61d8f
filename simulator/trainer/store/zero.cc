#include "simulator/trainer/store/zero.h"

#include <algorithm>

namespace headroom::trainer {
namespace {

int stage_of(ShardingKind kind) {
  switch (kind) {
    case ShardingKind::zero1:
      return 1;
    case ShardingKind::zero2:
      return 2;
    case ShardingKind::zero3:
      return 3;
    default:
      return 0;
  }
}

}  // namespace

Status ZeroStore::build() {
  const bool sharded_as_built = role().sharding.kind == ShardingKind::zero3 && role().sharding.sharded_as_built;
  if (sharded_as_built) tape_.set_zero3_linears(true);  // for good, and for every model
  tape_.set_stopped(true);
  const Status built = build_model();
  tape_.set_stopped(false);
  HEADROOM_TRY(built);
  // A scalar head's module comes before the body that it is put on.
  std::vector<tape::ParameterSlot>& slots = model_->parameters();
  if (role().head == HeadKind::scalar) std::rotate(slots.begin(), slots.end() - 1, slots.end());
  const Sharding& sharding = role().sharding;
  tape::ZeroOptions options;
  options.stage = stage_of(sharding.kind);
  options.ranks = context_.ranks;
  options.trained = role().trained;
  options.first_of_process = context_.first_stream == 1;
  if (options.first_of_process) options.communicator_made = context_.communicator_made;
  options.dtype = role().precision.weights;
  options.loss_scaling = role().precision.gradient_scaler;
  options.overlap_communication = sharding.overlap_communication;
  options.contiguous_gradients = sharding.contiguous_gradients;
  options.offload_optimizer = sharding.offload_optimizer;
  options.offload_parameters = sharding.offload_parameters;
  options.pin_memory = sharding.pin_memory;
  options.sharded_as_built = sharding.sharded_as_built;
  // Only DeepSpeed-Chat's own adapters leave the rest trained, and they are a group of its optimizer.
  options.adapters_apart = role().lora && role().lora->rest_trains;
  options.whole_bf16_states = sharding.whole_bf16_states;
  options.late_buckets = sharding.late_buckets;
  options.checks_bf16 = sharding.checks_bf16;
  options.flattens_on_device = sharding.flattens_on_device;
  options.gathers_in_place = sharding.gathers_in_place;
  options.reduce_bucket = sharding.reduce_bucket;
  options.prefetch_bucket = sharding.prefetch_bucket;
  options.persistence_threshold = sharding.persistence_threshold;
  options.max_live_parameters = sharding.max_live_parameters;
  options.max_reuse_distance = sharding.max_reuse_distance;
  options.gather_stream = context_.first_stream;
  options.reduce_stream = static_cast<Stream>(context_.first_stream + 1);
  engine_ = tape::make_zero_engine(*model_, context_.engine, options);
  model_->options().divides_output_gradients = role().trained && sharding.divides_output_gradients;
  waits_ = sharded_as_built && role().trained;
  return {};
}

void ZeroStore::build_optimizer() {
  if (waits_) engine_->initialize();
  waits_ = false;
}

void ZeroStore::step() {
  engine_->step(updates_++ < role().precision.skipped_steps);
}

/// Stage 3 gathers one weight after the other; states are written from host copies of this rank's parts.
void ZeroStore::save(unsigned parts, bool /*gathered*/) {
  constexpr Bytes kStates = 3 * 4;  // master and two moments in fp32
  const Bytes stored = element_size(role().precision.weights);
  const tape::ComponentScope component(tape_, Component::staging);
  const Bytes part = extent().whole / context_.ranks;
  const tape::Tensor weights = tape_.empty_host({extent().whole}, DType::uint8, HostKind::pageable);
  if (!role().trained || (parts & kOptimizer) == 0) return;
  const tape::Tensor states = tape_.empty_host({part / stored * kStates}, DType::uint8, HostKind::pageable);
}

}  // namespace headroom::trainer
