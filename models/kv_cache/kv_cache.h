#pragma once

#include <cstdint>
#include <optional>

#include "models/architecture/architecture.h"
#include "models/base/bytes.h"

namespace headroom {

/// How an engine keeps keys and values.
struct KvCache {
  DType dtype = DType::bf16;
  std::int64_t tensor = 1;  ///< tensor-parallel ranks
  std::int64_t block = 16;  ///< tokens a block; 1: no blocks
  std::int64_t step_tokens =
      1;  ///< tokens computed at once (vLLM's max_num_batched_tokens): kept beside a window
  bool head_scales = false;  ///< fp8 with a scale for each token and head: 4 bytes for K and for V
  bool operator==(const KvCache&) const = default;
};

/// How an engine keeps the states of layers that have one instead of keys and values.
struct StateCache {
  DType convolution = DType::bf16;    ///< the last tokens' channels
  std::optional<DType> recurrence{};  ///< none: as the model's configuration asks
  std::int64_t tensor = 1;  ///< tensor-parallel ranks: heads are cut, groups of keys as far as they reach
};

/// Bytes that one layer keeps for one sequence on one rank, however long: the channels of the last `kernel` -
/// 1 tokens and a state [key_dim, value_dim] a head. 0 for layers without a state.
Bytes state_bytes(const StateMixer& state, const StateCache& cache);
Bytes state_bytes(const Decoder& decoder, const StateCache& cache);  ///< over all layers

/// Bytes that one layer keeps for one token on one rank (0 for layers without attention): keys and values of
/// the rank's heads, at least one (heads are repeated beyond their number); or the latent and the rotary key,
/// which every rank keeps whole.
Bytes kv_bytes_per_token(const Attention& attention, const KvCache& cache);

/// The same over all layers of `decoder`, windows left out: what a short sequence grows by.
Bytes kv_bytes_per_token(const Decoder& decoder, const KvCache& cache);

/// Tokens that a layer keeps of a sequence of `tokens`, in whole blocks: all of them, or at most the window
/// before the tokens being computed and those; then with one block more, as a window need not start at a
/// block's edge.
std::int64_t kv_tokens(const Attention& attention, std::int64_t tokens, const KvCache& cache);

/// Bytes of one sequence of `tokens` over all layers on one rank.
Bytes kv_bytes(const Decoder& decoder, std::int64_t tokens, const KvCache& cache);

}  // namespace headroom
