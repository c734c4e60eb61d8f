#include "simulator/phases/sharded_role.h"

#include "simulator/tape/sharding/fsdp1.h"
#include "simulator/tape/sharding/fsdp2.h"

namespace headroom::phases {

Status ShardedRole::build() {
  HEADROOM_TRY(RoleProgram::build());
  const Sharding& sharding = role().sharding;
  tape::ShardingOptions options;
  options.ranks = context_.ranks;
  options.compute = role().precision.compute;
  options.reduce = role().precision.reduce;
  options.reshard_after_forward = sharding.reshard_after_forward;
  options.cpu_offload = sharding.cpu_offload;
  options.forward_prefetch = sharding.forward_prefetch;
  options.root_stays_gathered = sharding.root_stays_gathered;
  options.gather_stream = context_.first_stream;
  options.reduce_stream = static_cast<Stream>(context_.first_stream + 1);
  if (sharding.kind == ShardingKind::fsdp1)
    runtime_ = std::make_unique<tape::Fsdp1>(*model_, context_.engine, options);
  else
    runtime_ = std::make_unique<tape::Fsdp2>(*model_, context_.engine, options);
  model_->hooks = runtime_.get();
  return {};
}

std::vector<tape::Tensor> ShardedRole::trainable() {
  return runtime_->shards();
}

void ShardedRole::before_micro_batch(std::int64_t micro_batch, std::int64_t micro_batches) {
  if (role().sharding.defer_gradient_sync) runtime_->set_gradient_sync(micro_batch + 1 == micro_batches);
}

void ShardedRole::clip_gradients() {
  if (role().sharding.cpu_offload) return tape::clip_grad_norm_on_host(tape_, optimizer_->parameters());
  tape::clip_grad_norm(tape_, optimizer_->parameters(), {.ranks = context_.ranks, .dtensor = true});
}

void ShardedRole::move(unsigned parts, bool to_device, bool first_step) {
  RoleProgram::move(parts & ~static_cast<unsigned>(kWeights), to_device, first_step);
  if ((parts & kWeights) == 0) return;
  if (to_device)
    runtime_->load();
  else
    runtime_->offload(role().offload_pinned ? HostKind::pinned : HostKind::pageable);
}

}  // namespace headroom::phases
