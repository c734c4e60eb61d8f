#include "models/kv_cache/kv_cache.h"

#include <algorithm>

namespace headroom {

Bytes kv_bytes_per_token(const Attention& attention, const KvCache& cache) {
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

}  // namespace headroom
