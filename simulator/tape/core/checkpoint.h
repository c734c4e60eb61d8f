#pragma once

#include <functional>
#include <span>
#include <vector>

#include "simulator/tape/core/engine.h"

namespace headroom::tape {

/// What is run twice: the region's output from its input and captured tensors.
using Region = std::function<Tensor(const Tensor& input, std::span<const Tensor> captured)>;

/// torch.utils.checkpoint(use_reentrant=False). Forward, everything that nodes save inside the region becomes
/// a placeholder, so that intermediates die as without gradients; the input is kept by a node of its own
/// (under the hooks that surround the region) and `captured` (keyword arguments: cos, sin, position ids) by
/// the frame. The first placeholder asked for runs the region again, with gradients, until as many tensors
/// have been saved as the first time; each recomputed tensor then belongs to the node that asks for it, and what a
/// node saved that is no more (of an output that nobody kept) is counted and let go.
/// When the last placeholder goes, so does the frame: captured tensors in the order given, then the input.
/// `positional`: so many of the captured, the last ones, are positional arguments and kept like the input.
Tensor checkpoint(Tape& tape, Region region, const Tensor& input, std::vector<Tensor> captured,
                  std::size_t positional = 0);

/// use_reentrant=True: the region runs without gradients; its backward runs it again with gradients on a
/// detached input and backpropagates through that graph.
Tensor checkpoint_reentrant(Tape& tape, Engine& engine, Region region, const Tensor& input,
                            std::vector<Tensor> captured, std::size_t positional = 0);

/// torch.autograd.graph.save_on_cpu(pin_memory=True): saved tensors go to pinned memory and come back, row-
/// major, each time they are asked for. A tensor that is not row-major is copied on the device first.
class SaveOnCpu {
 public:
  /// `spares_weights`: parameters stay where they are.
  explicit SaveOnCpu(Tape& tape, bool spares_weights = false);
  ~SaveOnCpu();
  SaveOnCpu(const SaveOnCpu&) = delete;
  SaveOnCpu& operator=(const SaveOnCpu&) = delete;

 private:
  Tape& tape_;
};

}  // namespace headroom::tape
