#pragma once

#include <vector>

#include "simulator/tape/sharding/zero.h"

namespace headroom::tape {

/// ZeRO stages 1 and 2: whole weights in one flat buffer a group, this rank's part of it once more in fp32
/// with its Adam states, gradients reduced bucket by bucket while the backward runs. bf16 alike, without loss
/// scaling. Follows runtime/zero/stage_1_and_2.py of DeepSpeed 0.16, with what ZeroOptions says of newer releases:
///
///   backward   one bucket (two when communication overlaps) of `reduce_bucket` elements; a finished gradient
///              is copied into it and goes at once; a full bucket is reduced on the reduction stream: runs of
///              gradients with one owner are joined, and what this rank owns is copied to one buffer for all
///              its gradients (which holds parameters that cross a border whole)
///              stage 1 without overlap does so once the backward is over, group by group
///              without contiguous gradients there are no buckets: gradients that fill one are joined to be
///              reduced; others' go with the next reduction, own ones stay where autograd made them
///   step       group by group: the gradients joined, in fp32, the update in place; states are made in the
///              first step that is not skipped
///   offload    masters, their gradients and states on the host; a gradient leaves when its bucket is reduced; the
///              updated part visits the device in fp32, or (0.17.0) is narrowed on the host first
class ZeroPartitioned : public ZeroEngine {
 public:
  ZeroPartitioned(Model& model, Engine& engine, const ZeroOptions& options);

  void backward(const Tensor& loss, bool last) override;
  void begin_joint_backward(bool last) override { last_ = last; }
  void end_joint_backward() override { finish_backward(); }
  void step(bool overflow) override;
  void create_states() override;
  void move_states(bool to_device) override;

 private:
  struct Group {
    std::vector<ZeroParameter> parameters;
    std::int64_t elements = 0, partition = 0;  ///< padded to equal parts; one part
    Tensor flat, master, average, square_average, host_gradient, host_narrow;
  };
  struct Place {
    std::size_t group = 0, index = 0;
  };
  /// A range of elements that one rank owns.
  struct Run {
    std::int64_t owner = 0, elements = 0;
  };

  void take_over(Model& model);
  void build_group(Group& group);
  void make_buckets();
  void gradient_ready(Place place);
  void take_gradient(Place place);
  void reduce_bucket();
  void join_runs(const std::vector<Run>& runs, std::int64_t most);
  std::vector<Run> bucket_runs() const;
  std::vector<Run> separate_runs() const;
  void drop_reduced();
  void keep_gradient(Group& group, const ZeroParameter& parameter);
  void offload_gradient(Group& group, const ZeroParameter& parameter);
  void finish_backward();
  void average_group(std::size_t group);
  void check_overflow();
  void step_group(Group& group, std::vector<Tensor>& gradients);
  void make_states(Group& group);
  void step_on_host();
  /// 0.17.0 brought it, and 0.17.1 what options tell of.
  bool narrows_on_host() const { return options_.checks_bf16; }
  bool owned(const Group& group, const ZeroParameter& p) const { return slice(group, p).elements > 0; }
  /// This rank's part of a parameter: where it begins in it and how long it is.
  struct Slice {
    std::int64_t start = 0;  ///< in the parameter
    std::int64_t place = 0;  ///< in this rank's partition
    std::int64_t elements = 0;
  };
  Slice slice(const Group& group, const ZeroParameter& p) const;
  Tensor slice_of(const Group& group, const ZeroParameter& p, const Tensor& gradient) const;

  Tape& tape_;
  Engine& engine_;
  ZeroOptions options_;
  Stream reduce_stream_ = 0;
  std::vector<Group> groups_;
  ZeroTwins twins_;  ///< of what has slept
  Tensor logged_loss_;                  ///< from backward to step
  Tensor overflow_buffer_;              ///< FusedAdam's flag
  Tensor staging_, host_staging_;       ///< offload: room for the largest parameter, between the two
  Tensor global_norm_, reported_norm_;  ///< of the last step: the optimizer's and the engine's
  // While a backward runs.
  bool last_ = true;   ///< it completes gradients
  bool ready_ = false;  ///< for gradients: buckets were made
  std::vector<Tensor> buckets_;
  std::size_t bucket_ = 0;
  std::int64_t in_bucket_ = 0;
  std::vector<Place> waiting_;  ///< gradients in the bucket
  std::vector<Place> reduced_;  ///< without buckets: others' gradients, until the next reduction
  Tensor own_gradients_;        ///< all that this rank owns, one buffer
  std::int64_t own_filled_ = 0;
  std::vector<std::vector<Tensor>> averaged_;  ///< by group: this rank's parts, from backward to step
  std::vector<std::vector<Tensor>> leaked_;    ///< those of the first skipped step: links keep them for good
  std::vector<Tensor> norms_;                  ///< offload: from reduction to step
};

}  // namespace headroom::tape
