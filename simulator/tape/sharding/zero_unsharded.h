#pragma once

#include <vector>

#include "simulator/tape/sharding/zero.h"

namespace headroom::tape {

/// Stage 0, and every engine that does not train below stage 3: nothing is spread over ranks but, in bf16,
/// the optimizer.
///
/// fp16, and bf16 since 0.17.6 (runtime/fp16/fused_optimizer.py): flat weights and flat fp32 masters a group;
/// Adam states from the start; a step widens all gradients while the narrow ones of later groups still live.
/// bf16 before (runtime/bf16_optimizer.py): a partition of masters and states as in stage 1; fp32 gradients
/// for good; the bf16 ones live until the next backward.
class ZeroUnsharded : public ZeroEngine {
 public:
  ZeroUnsharded(Model& model, Engine& engine, const ZeroOptions& options);

  void backward(const Tensor& loss, bool last) override;
  void step(bool overflow) override;
  void create_states() override;
  void move_states(bool to_device) override;

 private:
  struct Group {
    std::vector<ZeroParameter> parameters;
    std::int64_t elements = 0, partition = 0;
    Tensor flat, master, gradient, average, square_average;
  };
  bool whole_states() const { return options_.dtype == DType::fp16 || options_.whole_bf16_states; }
  void build_whole();
  void build_spread();
  void step_whole(bool overflow);
  void step_spread();
  void clip_wide();
  void reduce_all();
  void accumulate_wide();
  void reduce_wide();
  void make_states(Group& group);
  std::vector<Tensor> gradients_in_order() const;

  Model& model_;
  Tape& tape_;
  Engine& engine_;
  ZeroOptions options_;
  std::vector<Group> groups_;
  Tensor logged_loss_;  ///< from backward to step
  Tensor overflow_buffer_;
  // Spread states: kept from step to step.
  std::vector<Tensor> norms_;  ///< a number a parameter
  Tensor global_norm_;
};

}  // namespace headroom::tape
