#include "models/kv_cache/kv_cache.h"

#include <algorithm>

namespace headroom {

Bytes kv_bytes_per_token(const Attention& attention, const KvCache& cache) {
  if (attention.heads == 0 || attention.borrows) return 0;
  if (attention.kind == AttentionKind::latent)
    return bytes_of(cache.dtype, attention.kv_rank + attention.rope_dim);
  const std::int64_t heads = std::max<std::int64_t>(1, attention.kv_heads / cache.tensor);
  const Bytes scales = cache.head_scales ? heads * 2 * element_size(DType::fp32) : 0;
  return bytes_of(cache.dtype, heads * (attention.head_dim + attention.value_head_dim)) + scales;
}

Bytes kv_bytes_per_token(const Decoder& decoder, const KvCache& cache) {
  Bytes sum = 0;
  for (const LayerGroup& group : decoder.groups)
    sum += group.count * kv_bytes_per_token(group.layer.attention, cache);
  return sum;
}

std::int64_t kv_tokens(const Attention& attention, std::int64_t tokens, const KvCache& cache) {
  const std::int64_t kept = attention.sliding_window - 1 + cache.step_tokens;
  if (attention.sliding_window == 0 || kept >= tokens) return round_up(tokens, cache.block);
  return cache.block == 1 ? kept : round_up(kept, cache.block) + cache.block;
}

Bytes kv_bytes(const Decoder& decoder, std::int64_t tokens, const KvCache& cache) {
  Bytes sum = 0;
  for (const LayerGroup& group : decoder.groups)
    sum += group.count * kv_tokens(group.layer.attention, tokens, cache) *
           kv_bytes_per_token(group.layer.attention, cache);
  return sum;
}

Bytes state_bytes(const StateMixer& state, const StateCache& cache) {
  if (state.heads == 0) return 0;
  const std::int64_t heads = ceil_div(state.heads, cache.tensor);
  const std::int64_t groups = std::max<std::int64_t>(1, state.groups / cache.tensor);
  const std::int64_t channels = 2 * groups * state.key_dim + heads * state.value_dim;
  return bytes_of(cache.convolution, channels * (state.kernel - 1)) +
         bytes_of(cache.recurrence.value_or(state.cached), heads * state.key_dim * state.value_dim);
}

Bytes state_bytes(const Decoder& decoder, const StateCache& cache) {
  Bytes sum = 0;
  for (const LayerGroup& group : decoder.groups) sum += group.count * state_bytes(group.layer.state, cache);
  return sum;
}

}  // namespace headroom
