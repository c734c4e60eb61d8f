#pragma once

#include <cstdint>
#include <vector>

#include "simulator/job/role.h"
#include "simulator/tape/core/engine.h"
#include "simulator/tape/modules/model.h"
#include "simulator/tape/sharding/state_dict.h"

namespace headroom::tape {

/// What a sharding runtime is told.
struct ShardingOptions {
  std::int64_t ranks = 1;       ///< of the shard group
  std::int64_t expert_ranks = 1;  ///< FSDP2: over which routed experts are dealt out before
  DType compute = DType::bf16;  ///< of gathered parameters
  DType reduce = DType::fp32;   ///< of the gradient reduction
  bool reshard_after_forward = true;
  bool cpu_offload = false;  ///< shards, their gradients and optimizer live in pinned host memory
  bool forward_prefetch = false;  ///< the next unit is gathered before a unit runs; not the root
  bool root_stays_gathered = false;  ///< FSDP1: beyond a pass without backward; FSDP2: beyond each forward
  bool gathers_whole_forward = false;  ///< FSDP2: `begin_pass` gathers every unit
  bool ties_after_sharding = false;    ///< FSDP2: the head's shard becomes the embedding's once shards move
  bool embedding_wrapped = true;       ///< FSDP2: embeddings are units where the head is not tied to them
  bool layers_wrapped = true;        ///< each decoder layer is a unit; false: the whole model is one
  bool leaves_wrapped = false;       ///< FSDP1: each trainable parameter is a flat parameter of its own
  bool built_on_host = false;        ///< parameters have no device memory yet: units come as they are sharded
  bool first_rank = true;            ///< whose values the others are given
  bool meta = false;                 ///< built on the host: this rank has shapes only until units are sharded
  /// FSDP2: no rank has more than shapes; shards are cut out of what the first rank's host sends, tensor by tensor.
  bool loads_into_meta = false;
  bool head_wrapped = false;         ///< FSDP2: a head that is not tied is a unit
  Stream gather_stream = 1, reduce_stream = 2;
};

/// Spreads a model's parameters over ranks and gathers them around the work that needs them. Made once the
/// whole model exists (on the device, or with `built_on_host` elsewhere); takes its parameters over and hooks
/// itself into its forward. The optimizer works on `shards()`.
class ShardingRuntime : public UnitHooks {
 public:
  /// Trainable leaves of this rank, in the order of `parameters()`.
  virtual std::vector<Tensor> shards() = 0;
  /// False: backwards until the next true keep gradients whole (gradient accumulation without communication).
  virtual void set_gradient_sync(bool sync) = 0;
  /// Moves the shards to host memory or back to the device (offloading between phases); gradients must be
  /// gone.
  virtual void offload(HostKind kind) = 0;
  virtual void load() = 0;
  /// A pass without gradients begins.
  virtual void begin_pass() {}
  /// A pass without gradients is over, its results taken.
  virtual void end_pass() {}
  /// The sharded state dict in its order, a tied head once more at the end. What is made for it lives as long
  /// as the tensors do. `to_host`: each tensor goes there as soon as it stands.
  virtual std::vector<StateTensor> state_dict(bool to_host) = 0;
  /// Adapters are taken out and go to the host. FSDP1 gathers every parameter in its stored dtype for it, or
  /// one layer after the other, and makes the layers' state dict within.
  virtual void summon_adapters(bool /*layer_by_layer*/) {}
};

}  // namespace headroom::tape
