#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "simulator/job/batching.h"
#include "simulator/job/job.h"
#include "simulator/tape/core/engine.h"
#include "simulator/tape/megatron/process_buffers.h"

namespace headroom::trainer {

/// What a role's program is made for: its share of the job on one rank.
struct RoleContext {
  tape::Tape& tape;
  tape::Engine& engine;
  const Role& role;
  std::int64_t ranks = 1;          ///< of its shard group
  std::int64_t micro_batch = 1;    ///< sequences a training forward
  std::int64_t forward_batch = 1;  ///< sequences a forward without gradients
  std::int64_t mini_batch = 1;     ///< sequences an optimizer step, of this rank
  std::int64_t epochs = 1;
  Stream first_stream = 1;                             ///< streams of its own from here on
  bool padded = true;                                  ///< micro-batches are rectangles; false: packed tokens
  MicroBatches packed_train, packed_forward;           ///< when not padded
  const std::vector<ListedBatches>* listed = nullptr;  ///< ... where the job knows them one by one
  Algorithm algorithm = Algorithm::ppo;                ///< decides the loss
  double* repeat = nullptr;          ///< how many equal pieces of work the running one stands for
  double* filled = nullptr;          ///< share of its tokens that the device works on
  std::int64_t world = 1, rank = 0;  ///< of the pool that the role is spread over
  tape::megatron::ProcessBuffers* process = nullptr;  ///< of this process, whatever role
  std::function<Bytes()> unused;                      ///< what the process has reserved and not allocated
  const Engine* generator = nullptr;                  ///< inside the process, of this role's weights
  bool reads_norm = false;                            ///< the host reads each gradient norm before it goes on
  std::function<void()>
      communicator_made;  ///< to be called where one is made that others' memory lies around
  std::function<void(const std::string& role)> score;  ///< has that role's loop score a micro-batch
};

}  // namespace headroom::trainer
