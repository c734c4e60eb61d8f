#pragma once

#include "simulator/tape/core/tape.h"

namespace headroom::tape {

/// What executors that compute are told of attention, whichever kernel it is. query [B,H,T,d], key and value
/// [B,K,L,d], or all sequences packed in one batch.

struct AttentionSize {
  std::int64_t sequences = 0;
  std::int64_t queries = 0, keys = 0;  ///< of one sequence
  double flops = 0;
};

/// Every query with every key: `products` matrix products of one attention's size.
AttentionSize full_attention(const Tensor& query, const Tensor& key, double products);

/// Undefined tensors (no workspace, no log-sum-exp) are left out.
void attention_forward_work(std::uint16_t name, const Tensor& query, const Tensor& key, const Tensor& value,
                            const Tensor& workspace, const Tensor& result, const Tensor& logsumexp,
                            const AttentionSize& size);

struct AttentionSaved {
  const Tensor &query, &key, &value, &result, &logsumexp;
};
/// `gradients`: of query, key and value.
void attention_backward_work(std::uint16_t name, const Tensor& gradient, const AttentionSaved& saved,
                             const Tensor& workspace, std::span<const Tensor> gradients,
                             const AttentionSize& size);

}  // namespace headroom::tape
