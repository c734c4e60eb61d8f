#pragma once

#include <cstdint>
#include <vector>

#include "simulator/tape/modules/model.h"

namespace headroom::trl {

/// The variables of PPOTrainer's `train` that outlive its statements. Each holds its tensor until the
/// statement that assigns it again is over, or until the trainer deletes it; so scores of a whole batch of
/// completions outlive the update, and a micro-batch's logits the next one's forward. Shapes: N sequences an
/// update, n a chunk of rollouts, b a micro-batch; P prompt and R response tokens, T = P + R.
struct PpoVariables {
  using Tensor = tape::Tensor;

  // Of the rollouts.
  std::int64_t chunk = 0;                          ///< sequences that are through
  Tensor queries, query_mask;                      ///< [N,P] int64, as the data loader gave them
  Tensor sequences;                                ///< [N,T] int64
  Tensor scores;                                   ///< [N,R,V] fp32: generation's, never deleted
  Tensor next_sequences, next_scores;              ///< as `generate` returns them
  Tensor query, sequence, response;                ///< views of the last chunk
  Tensor logprob, ref_logprob, full_value, value;  ///< of the chunk: [n,R], [n,T]
  Tensor reward_input, lengths, reward;            ///< [n,T] int64, [n] int64, [n]
  Tensor ignored, ignored_score, ignored_logits;   ///< results that only an underscore holds
  std::vector<Tensor> responses, logprobs, ref_logprobs, length_parts, value_parts, reward_parts;
  // A forward that asks for everything: its inputs, and its output's parts.
  struct Outputs {
    Tensor mask, positions, ids;  ///< [b,T]: bool, int64, int64
    Tensor logits;                ///< [b,T,V]
    std::vector<Tensor> hidden;   ///< L + 1 times [b,T,h]
    tape::KvCache cache;
    void clear();
  };
  Outputs reference, body, policy;

  // Of the experience, all [N,R] or [N].
  Tensor all_responses, all_logprobs, all_ref_logprobs, all_values, advantages, returns;
  Tensor padding, padding_after;   ///< bool
  std::vector<Tensor> kept;        ///< what the update does not read, until its end
  std::vector<Tensor> carried;     ///< what lives until the next update's statement
  std::vector<Tensor> statistics;  ///< seven numbers a micro-batch

  // Of an update.
  std::int64_t micro_batches = 0;  ///< that are through, of this update
  Tensor micro_sequences, micro_responses, micro_logprobs, micro_advantages, micro_returns, micro_values;
  Tensor new_values, next_values;  ///< [b,T]: the last call's and the running one's
  Tensor logits;                   ///< [b,R,V], a view
  Tensor distribution, entropy;    ///< [b,R,V], [b,R]
  std::vector<Tensor> variables;   ///< [b,R] and scalars of the loss
  Tensor difference, ratio, loss;
  Tensor policy_losses, clipped_losses;
};

/// Log-probs of the chunk's responses from generation's scores.
void rollout_logprobs(PpoVariables& loop);
/// Rewards, advantages and returns of all sequences, out of the parts.
void make_ppo_experience(PpoVariables& loop, tape::Tape& tape);
/// The loss of policy and value function over a micro-batch, divided by the micro-batches of an optimizer
/// step.
void make_ppo_loss(PpoVariables& loop, std::int64_t prompt);
/// Clip fractions, the entropy of the whole distribution, and so on.
void make_ppo_statistics(PpoVariables& loop, tape::Tape& tape);

}  // namespace headroom::trl
