#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <vector>

#include "simulator/tape/core/tape.h"
#include "simulator/tape/megatron/schedule.h"

namespace headroom::phases {

/// Megatron-Core's interleaved schedule of one pipeline rank with virtual stages, and what its function names while it
/// runs: inputs and gradients received ahead, outputs and input gradients sent until the next of their kind. Tensors that
/// cross stages are in use on NCCL's streams too, so the allocator gets them back only when those have passed.
/// In the steady state sends and receives overlap with the other direction's work; warm-up and cool-down wait for them.
/// Source: forward_backward_pipelining_with_interleaving and P2PCommunicator of Megatron-Core 0.20; recorded.
class InterleavedSchedule {
 public:
  struct Piece {
    tape::Tensor batch;   ///< ids and positions, until the backward
    tape::Tensor output;  ///< hidden states, or the loss
  };
  /// What the schedule has done; tensors are undefined where a stage has none.
  struct Work {
    std::function<Piece(std::int64_t chunk, const tape::Tensor& input)> forward;
    /// The input's gradient.
    std::function<tape::Tensor(std::int64_t chunk, const tape::Tensor& input, const tape::Tensor& output,
                               const tape::Tensor& gradient)>
        backward;
    /// Memory for what another stage sends: hidden states, or their gradient.
    std::function<tape::Tensor(bool gradient)> receive;
  };
  struct Place {
    std::int64_t stages = 1, chunks = 1, stage = 0;
    Stream sends = 1, receives = 2;  ///< NCCL's
    bool drops_outputs = false;      ///< an output's memory goes once it was sent
  };

  InterleavedSchedule(tape::Tape& tape, const Place& place, Work work);

  /// All micro-batches, whose number whole groups of `stages` make up.
  void train(std::int64_t micro_batches) { run(micro_batches, true); }
  void forward(std::int64_t micro_batches) { run(micro_batches, false); }

 private:
  using Queues = std::vector<std::deque<tape::Tensor>>;
  struct Source {
    bool receives = false;
    std::int64_t chunk = 0;  ///< that works on what is received
  };

  void run(std::int64_t micro_batches, bool trains);
  void warm_up(std::int64_t steps, bool trains);
  void steady(std::int64_t steps, std::int64_t warmup);
  void cool_down(std::int64_t from);
  tape::Tensor forward_step(std::int64_t step, bool trains);
  tape::Tensor backward_step(std::int64_t step);
  std::int64_t chunk_of(std::int64_t step, bool forward) const;
  /// Whether another stage sends what is worked on after `step`, and for which chunk.
  Source source(std::int64_t step, bool forward) const;
  void send(const tape::Tensor& tensor);
  tape::Tensor receive(bool gradient);
  void drop_output();
  bool first(std::int64_t chunk) const { return place_.stage == 0 && chunk == 0; }
  bool last(std::int64_t chunk) const {
    return place_.stage + 1 == place_.stages && chunk + 1 == place_.chunks;
  }

  tape::Tape& tape_;
  Place place_;
  Work work_;
  std::int64_t all_ = 0;  ///< micro-batches times chunks
  Queues inputs_, gradients_;
  std::vector<std::deque<Piece>> pieces_;  ///< between forward and backward, by chunk
  // Names of the function, until they are given anew or it returns:
  tape::Tensor input_, output_, input_gradient_, output_gradient_, gradient_buffer_;
};

}  // namespace headroom::phases
