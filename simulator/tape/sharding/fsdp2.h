#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "simulator/tape/sharding/runtime.h"

namespace headroom::tape {

/// PyTorch's FSDP2 (`fully_shard` on each decoder layer, on embeddings (and the head, `head_wrapped`) when the
/// head is not tied, then on the root): every parameter is cut along its first dimension, padded to equal parts. Gathers run on one stream,
/// reductions on another; blocks never cross streams and frees are immediate, so each model keeps pools of
/// its own for both.
///
/// With `expert_ranks` above 1 routed experts are dealt out over them before (NeMo Automodel's `apply_ep` and
/// `apply_fsdp`): a layer's local experts are a unit of their own over the ranks that have the same ones, cut along the
/// second dimension, without mixed precision; where no other rank has them, they are plain parameters.
///
/// Follows torch/distributed/fsdp/_fully_shard of PyTorch 2.11 allocation by allocation:
///   unshard   gather input (when shards are not of the compute dtype) and gather output, on the gather
///   stream wait      the full parameters, on the compute stream; the gather output goes at the next wait
///   (forward) or now reshard   the full parameters' storages are emptied, their tensors stay reduce reduce
///   input of all gradients of the group, reduce output of this rank's part
class Fsdp2 : public ShardingRuntime {
 public:
  Fsdp2(Model& model, Engine& engine, const ShardingOptions& options);

  void before_forward(int unit, Tensor& input) override;
  void after_forward(int unit, Tensor& output) override;
  void begin_pass() override;
  void end_pass() override;
  std::vector<Tensor> shards() override;
  void set_gradient_sync(bool sync) override { sync_ = sync; }
  /// model.to("cpu"): a unit's shards go when all of its modules have moved, so the root's after the buffers.
  void offload(HostKind kind) override;
  /// model.to(device): module by module.
  void load() override;
  /// Sends from wherever the shards are; nothing is made.
  std::vector<StateTensor> state_dict(bool to_host) override;

 private:
  struct Parameter {
    Tensor* slot = nullptr;  ///< the module's attribute
    Tensor shard;            ///< of this rank, padded
    Tensor full;             ///< gathered; its storage is empty while resharded
    Tensor accumulated;      ///< whole gradient in the reduce dtype, while gradients are not synchronised
    Shape whole;             ///< of all ranks together
    Bytes full_bytes = 0;    ///< of the padded, gathered parameter
    std::size_t order = 0;   ///< among the model's `parameters()`
  };
  struct Group {
    int unit = -1;
    std::int64_t ranks = 1;       ///< that share it
    DType compute = DType::bf16;  ///< of gathered parameters
    DType reduce = DType::fp32;   ///< of the gradient reduction
    bool plain = false;           ///< experts that no other rank has: not FSDP's, used as they lie
    std::vector<Parameter> parameters;
    std::int64_t elements = 0;  ///< of all shards together
    Tensor gathered;            ///< a gather whose result was not copied out yet
    bool gathering = false;     ///< unsharded but not yet waited for
    bool unsharded = false;
    bool in_backward = false;  ///< its pre-backward has run, its post-backward has not
    std::vector<std::size_t> forward_order;  ///< its places in `post_forward_order_`, the latest last
  };
  class PostBackward;

  void build_groups(Model& model);
  void describe_groups(Model& model);
  void shard_group(Group& group);
  Tensor shard_of(const Group& group, const Tensor& whole);
  /// The layer's routed experts, where they are dealt out; else null.
  Group* experts_of(const Group& group);
  bool is_experts(const Group& group) const {
    return &group >= experts_.data() && &group < experts_.data() + experts_.size();
  }
  void place();
  void settle(Group& group, std::vector<Tensor>& olds);
  void distribute();
  void receive();
  void fake_context();
  Group& group(int unit);
  bool is_tied_head(const Parameter& parameter) const;
  void tie();
  void unshard(Group& group);
  void wait(Group& group, bool forward);
  void copy_out(Group& group, bool forward);
  void widen_alone(Group& group);
  void reshard(Group& group);
  void reduce(Group& group);
  void before_backward(Group& group);
  void after_backward(Group& group);
  void finish_backward();
  void take_gradients(Group& group, const Tensor& reduced);
  void accumulate_whole(Group& group);
  Bytes copy_out_scratch(const Group& group) const;
  static Bytes copy_in_scratch(std::span<const std::int64_t> lengths, DType reduce);

  /// Parameters as the model's `parameters()` lists them, with their groups.
  std::vector<std::pair<Parameter*, Group*>> in_order();
  std::vector<Parameter*> ordered();
  void move_buffers(bool device, HostKind kind);

  Tape& tape_;
  Engine& engine_;
  Model& model_;
  ShardingOptions options_;
  std::vector<Group> groups_;   ///< in order of wrapping; the root last
  std::vector<Group> experts_;  ///< dealt-out experts by layer; empty: none are
  std::vector<std::size_t> post_forward_order_;
  Tensor kept_gather_;   ///< the previous forward gather's output, kept until the next one was copied
  Tensor reduce_input_;  ///< kept until the next reduction
  bool sync_ = true;
  bool callback_queued_ = false;
};

}  // namespace headroom::tape
