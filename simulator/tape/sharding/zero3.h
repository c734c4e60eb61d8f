#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "simulator/tape/sharding/zero.h"
#include "simulator/tape/sharding/zero_coordinator.h"

namespace headroom::tape {

/// ZeRO stage 3: every parameter is spread over the ranks and gathered around the modules that use it
/// (ZeroCoordinator); gradients are reduced through one permanent bucket into a permanent partition; the
/// optimizer works on fp32 parts. Follows runtime/zero/stage3.py and parameter_offload.py of DeepSpeed 0.16.
///
/// Offload: masters, their gradients, Adam's states and the partition of gradients lie on the host, with
/// offloaded parameters also this rank's parts, which visit the device to be gathered.
///
/// Gathered parameters stay alive beyond their release where a graph holds views of them: PyTorch's own linears save a
/// transposed view of the weight (those of a model that was spread as it was built do not: `zero3_linear`).
class Zero3 : public ZeroEngine {
 public:
  Zero3(Model& model, Engine& engine, const ZeroOptions& options);

  void initialize() override;
  void backward(const Tensor& loss, bool last) override;
  void begin_joint_backward(bool last) override { last_ = last; }
  void end_joint_backward() override { reduce_bucket(); }
  void step(bool overflow) override;
  void create_states() override;
  void move_states(bool to_device) override;

 private:
  struct SubGroup {
    std::size_t group = 0;      ///< that it is a piece of
    std::int64_t in_group = 0;  ///< elements of the group before it
    std::int64_t elements = 0;  ///< of this rank's parts
    Tensor master, average, square_average, host_gradient;
  };
  /// Where a trained parameter's part lies: in which sub-group, and how many elements come before it there
  /// and among all parts.
  struct Place {
    std::size_t sub_group = 0;
    std::int64_t in_sub_group = 0, in_all = 0;
  };
  void partition_parameters();
  void partition(ZeroCoordinator::Parameter& parameter);
  void load_parameters();
  void group_parameters(Model& model);
  void begin_sub_group();
  void build_optimizer();
  void defragment();
  void move_parts_to_host();
  /// torch.distributed.barrier(): two numbers; the first barrier of a process keeps the second.
  void barrier();
  void offload_gradient(std::size_t parameter);
  void step_on_device();
  void make_states(SubGroup& group);
  void step_on_host();
  void sum_norms();
  void gradient_ready(std::size_t parameter);
  void reduce_bucket();
  void check_overflow();

  Tape& tape_;
  Model& model_;
  Engine& engine_;
  ZeroOptions options_;
  Stream reduce_stream_ = 0;
  ZeroCoordinator coordinator_;
  std::vector<std::size_t> trained_;       ///< parameters by group, as the optimizer has them
  std::vector<Place> places_;              ///< by parameter
  std::int64_t trained_parts_ = 0;         ///< elements of this rank's parts of them
  std::vector<std::int64_t> group_parts_;  ///< the same, group by group
  std::vector<SubGroup> sub_groups_;
  Tensor logged_loss_;                  ///< from backward to step
  Tensor overflow_buffer_;              ///< FusedAdam's flag
  Tensor barrier_number_;               ///< what the process's first barrier keeps
  Tensor global_norm_, reported_norm_;  ///< of the last step: the optimizer's and the engine's
  Tensor overflow_seen_;                ///< were infinities found?
  Tensor flat_parts_;                   ///< this rank's parts of all trained parameters
  std::vector<Tensor> host_parts_;      ///< the same with parameters on the host, one a group
  Tensor bucket_;
  ZeroTwins twins_;  ///< of what has slept
  Tensor gradient_parts_;             ///< gradients of this rank's parts
  std::vector<Tensor> norms_;         ///< offload: of each parameter's gradient, until the step's end
  std::vector<std::size_t> waiting_;  ///< parameters whose gradients lie in the bucket
  std::int64_t in_bucket_ = 0;
  bool last_ = true;  ///< the running backward completes gradients
};

}  // namespace headroom::tape
