#pragma once

#include "simulator/tape/megatron/options.h"

namespace headroom::tape::megatron {

/// Collectives between the ranks that share a model part, without autograd. Sizes are this rank's.

/// [tokens / t, …] of each tensor rank to [tokens, …] on all: a new tensor. Without sequence parallelism the
/// tensor itself.
Tensor gather_tokens(const Context& context, const Tensor& mine);
/// The same into a tensor that exists.
void gather_into(const Context& context, const Tensor& mine, const Tensor& whole);
/// The sum over tensor ranks of [tokens, …]; each rank keeps its tokens (a new tensor, the whole one still
/// alive). Without sequence parallelism the sum is formed in place.
Tensor reduce_tokens(const Context& context, const Tensor& whole);
/// All-to-all among `ranks` to `rows` rows: a new tensor, or the same one among one rank.
Tensor exchange_rows(const Context& context, const Tensor& mine, std::int64_t rows, std::int64_t ranks);
/// All-gather of rows among `ranks` into a new tensor; the same one among one rank. And its reverse.
Tensor gather_rows(const Context& context, const Tensor& mine, std::int64_t ranks);
Tensor reduce_rows(const Context& context, const Tensor& whole, std::int64_t ranks);

/// The features that `ranks` ranks have of each token, on all of them: [tokens, n] to [tokens, n · ranks];
/// and its reverse. Queries of fewer key/value heads than ranks, and compressed ones, go this way.
Tensor gather_features(const Context& context, const Tensor& mine, std::int64_t, std::int64_t ranks);
Tensor keep_features(const Context& context, const Tensor& whole, std::int64_t, std::int64_t ranks);

}  // namespace headroom::tape::megatron
