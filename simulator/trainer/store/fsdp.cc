#include "simulator/trainer/store/fsdp.h"

#include <algorithm>
#include <utility>

#include "simulator/tape/sharding/fsdp1.h"
#include "simulator/tape/sharding/fsdp2.h"

namespace headroom::trainer {
using tape::Tensor;

Status FsdpStore::build() {
  const Role& r = role();
  tape_.set_meta_parameters(r.built_on_host);
  const Status built = build_model();
  tape_.set_meta_parameters(false);
  HEADROOM_TRY(built);
  tape::ShardingOptions options;
  options.ranks = std::max<std::int64_t>(context_.ranks, 1);
  options.expert_ranks = r.parallel.expert;
  options.compute = r.precision.compute;
  options.reduce = r.precision.reduce;
  options.reshard_after_forward = r.sharding.reshard_after_forward;
  options.cpu_offload = r.sharding.cpu_offload;
  options.forward_prefetch = r.sharding.forward_prefetch;
  options.root_stays_gathered = r.sharding.root_stays_gathered;
  options.gathers_whole_forward = r.sharding.gathers_whole_forward;
  options.ties_after_sharding = r.sharding.ties_after_sharding;
  options.embedding_wrapped = r.sharding.embedding_wrapped;
  options.layers_wrapped = r.sharding.layers_wrapped;
  options.leaves_wrapped = r.sharding.trainable_leaves_wrapped;
  options.built_on_host = r.built_on_host;
  options.first_rank = context_.rank == 0;
  options.meta = r.built_on_host && (r.sharding.meta == MetaRanks::all ||
                                     (r.sharding.meta == MetaRanks::others && context_.rank != 0));
  options.loads_into_meta = r.built_on_host && r.sharding.meta == MetaRanks::all;
  options.head_wrapped = r.sharding.head_wrapped;
  // FSDP1 prepares gathers on a stream between the two.
  options.gather_stream = context_.first_stream;
  options.reduce_stream = static_cast<Stream>(context_.first_stream + 2);
  if (r.sharding.kind == ShardingKind::fsdp1)
    runtime_ = std::make_unique<tape::Fsdp1>(*model_, context_.engine, options);
  else
    runtime_ = std::make_unique<tape::Fsdp2>(*model_, context_.engine, options);
  return {};
}

std::vector<Tensor> FsdpStore::trainable() {
  return runtime_->shards();
}

void FsdpStore::begin_micro_batch(bool last) {
  if (role().sharding.defer_gradient_sync) runtime_->set_gradient_sync(last);
}

void FsdpStore::clip_gradients() {
  if (role().sharding.cpu_offload) return tape::clip_grad_norm_on_host(tape_, optimizer_->parameters());
  tape::clip_grad_norm(tape_, optimizer_->parameters(),
                       {.ranks = context_.ranks, .dtensor = role().sharding.kind == ShardingKind::fsdp2});
  if (context_.reads_norm) tape_.memory().synchronize();
}

void FsdpStore::move_weights(bool to_device) {
  if (to_device)
    runtime_->load();
  else
    runtime_->offload(role().offload_pinned ? HostKind::pinned : HostKind::pageable);
}

void FsdpStore::begin_pass() {
  runtime_->begin_pass();
}

void FsdpStore::end_pass() {
  runtime_->end_pass();
}

void FsdpStore::export_weights() {
  if (role().sharding.kind == ShardingKind::fsdp1) state_ = runtime_->state_dict(false);
}

void FsdpStore::sync_weights(const WeightSync& sync) {
  const tape::Sending how{.ranks = context_.ranks, .bucket = sync.bucket, .cast = sync.dtype};
  if (sync.adapters_only) {
    // Adapters are taken out and go to the host before the bucket exists.
    runtime_->summon_adapters(sync.kind == WeightExport::layers);
    state_.clear();
  } else if (state_.empty()) {
    state_ = runtime_->state_dict(false);
  }
  tape::send(tape_, std::exchange(state_, {}), how);
}

/// FSDP1 gathers units for the state dict as `export_weights` does. The sharded states are written from host
/// memory.
void FsdpStore::save(unsigned parts, bool gathered) {
  const bool weights = (parts & kWeights) != 0;
  if (role().sharding.kind == ShardingKind::fsdp1 && (weights || gathered)) static_cast<void>(runtime_->state_dict(true));
  const int copies = (weights ? 1 : 0) + (optimizer_ && (parts & kOptimizer) != 0 ? 2 : 0);  // two moments
  std::vector<Tensor> written;
  const tape::ComponentScope component(tape_, Component::staging);
  for (const Tensor& shard : runtime_->shards())
    for (int copy = 0; copy < copies; ++copy)
      written.push_back(tape_.empty_host(shard.shape(), shard.dtype(), HostKind::pageable));
}

}  // namespace headroom::trainer
