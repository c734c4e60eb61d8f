#pragma once

#include <optional>
#include <span>
#include <vector>

#include "simulator/job/role.h"
#include "simulator/tape/core/tape.h"

namespace headroom::tape {

/// torch.optim.AdamW over leaves with gradients, or bitsandbytes' AdamW8bit. States come to exist in the
/// first step. 8-bit states (parameters of 4,096 elements and more; smaller ones keep fp32): one byte an
/// element, an fp32 maximum for each block of 256, two code books of 256 fp32 numbers for the whole
/// optimizer; the update works in place. Source: bitsandbytes' optim/optimizer.py (Optimizer2State); no
/// recording. TransformerEngine's FusedAdam has moments of a dtype of their own and what is missing of a
/// master copy among its states. torch.optim.SGD without momentum is the same without states: weight decay
/// adds the parameters to copies of the gradients, all at once (foreach), and the update works in place.
class AdamW {
 public:
  struct Form {
    OptimizerKind kind = OptimizerKind::adamw;
    OptimizerImplementation implementation = OptimizerImplementation::foreach_;
    std::optional<DType> moments;   ///< none: of the parameters
    std::int64_t master_bytes = 0;  ///< an element
  };
  AdamW(Tape& tape, std::vector<Tensor> parameters, const Form& form);

  void step();
  /// zero_grad(set_to_none=True): gradients go in the order of parameters.
  void zero_grad();
  std::vector<Tensor>& parameters() { return parameters_; }

  struct State {
    Tensor step, average, square_average;
    Tensor average_maxima, square_average_maxima;  ///< of 8-bit states
    Tensor master;                                 ///< FusedAdam's
  };
  /// By parameter; empty tensors before the first step.
  std::vector<State>& states() { return states_; }
  /// Makes the states now (a resumed run).
  void create_states();

 private:
  void make_states(bool only_with_gradients);
  void descend();
  void make_8bit_state(const Tensor& parameter, State& state);
  /// Memory where the parameter lies.
  Tensor beside(const Tensor& parameter, const Shape& shape, DType dtype);

  Tape& tape_;
  std::vector<Tensor> parameters_;
  OptimizerKind kind_;
  OptimizerImplementation implementation_;
  std::optional<DType> moments_;
  std::int64_t master_bytes_;
  std::vector<State> states_;
  Tensor code_, unsigned_code_;  ///< of 8-bit states
};

/// Whose parts a rank's gradients are: `ranks` of one group, as DTensors (FSDP2) or flat (FSDP1). Norms are
/// summed over them.
struct GradientShards {
  std::int64_t ranks = 1;
  bool dtensor = false;
};

/// torch.nn.utils.clip_grad_norm_, foreach: partial norms, one norm a tensor, their joint norm, a factor.
void clip_grad_norm(Tape& tape, std::span<const Tensor> parameters, const GradientShards& shards = {});

/// The same of gradients on the host, which takes nothing of the device; the norms themselves are not
/// counted.
void clip_grad_norm_on_host(Tape& tape, std::span<const Tensor> parameters);

}  // namespace headroom::tape
