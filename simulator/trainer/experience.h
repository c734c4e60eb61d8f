#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "simulator/tape/core/tape.h"

namespace headroom::trainer {

struct PpoLoop;

/// What one rank holds of a step between its phases. Shapes: B sequences of T = P + R tokens.
struct Experience {
  std::int64_t batch = 0, prompt = 0, response = 0;  ///< of this rank
  tape::Tensor prompts;                              ///< [B,P] int64
  tape::Tensor sequences;                            ///< [B,T] int64
  tape::Tensor mask;                                 ///< [B,T] int64, when the job passes one
  tape::Tensor old_logprobs, ref_logprobs;           ///< [B,T-1]
  tape::Tensor values;                               ///< [B,T]
  tape::Tensor advantages;                           ///< [B,T-1] fp32
  tape::Tensor rewards;                              ///< [B] fp32
  // Of trainers that keep more.
  tape::Tensor prompt_mask;                       ///< [B,P] int64
  tape::Tensor returns;                           ///< as `advantages`
  tape::Tensor logits;                            ///< of the last update's forward
  tape::Tensor actor_logits, ref_logits;          ///< [B,T,V], of scoring forwards
  std::vector<tape::Tensor> outputs;              ///< of generation and scoring, until log-probs are gathered
  std::vector<tape::Tensor> locals;               ///< of the code that updates models, until it returns
  std::vector<tape::Tensor> losses, last_losses;  ///< of this step's updates and of the last one's
  std::vector<tape::Tensor> previous;             ///< the last step's experience, until the new one stands
  std::shared_ptr<PpoLoop> ppo;                   ///< TRL's PPOTrainer: its loop's variables
};

}  // namespace headroom::trainer
