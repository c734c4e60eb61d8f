#pragma once

#include <cstdint>

#include "simulator/engine/account.h"
#include "simulator/engine/sizes.h"

namespace headroom::engine {

/// Peaks of an engine's passes beyond its weights. 16 bits an element unless the engine serves fp32.

/// A forward over `tokens`: the widest moment of a layer, when gate and up, their product and
/// `hidden_copies` tensors of the hidden size are alive; with shared experts those. Dynamic quantisation of
/// activations to 8 bits adds the quantised product. A stage of a pipeline also holds what it receives and
/// sends: hidden state and residual. The experts' own workspace is `expert_workspace`.
Bytes forward_peak(const Engine& engine, const ModelSizes& sizes, std::int64_t tokens);

/// Sampling `rows` requests: fp32 [rows, vocabulary] copies by the engine's factor, logits being gathered to
/// the whole vocabulary on each GPU, and scratch rows of the kernel that picks the top. The hidden states of
/// the `tokens` that the forward ran, and of the rows, are alive.
Bytes sampler_peak(const Engine& engine, const ModelSizes& sizes, const Host& host, std::int64_t tokens,
                   std::int64_t rows);

/// Buffers between a mixture's products, for so many tokens: [tokens × experts a token] of the wider of
/// intermediate and hidden size, and of the wider of gate and up together and hidden size. 0: dense, or
/// MXFP4's kernels, which need none.
Bytes expert_workspace(const Engine& engine, const ModelSizes& sizes, std::int64_t tokens);

/// What of an `activation_peak` over `tokens` stays in the allocator afterwards: cuBLAS's workspace, and the
/// experts' where it is kept.
Bytes kept_workspaces(const Engine& engine, const ModelSizes& sizes, const Host& host, std::int64_t tokens);

/// The highest of a vision tower, forward and sampling (they follow each other), with what is alive through both: cuBLAS's
/// workspace, profiled images, and a workspace that is kept. Only the last stage of a pipeline samples.
Bytes activation_peak(const Engine& engine, const ModelSizes& sizes, const Host& host, std::int64_t tokens,
                      std::int64_t rows);

}  // namespace headroom::engine
