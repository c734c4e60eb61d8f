#pragma once

#include "models/base/result.h"
#include "simulator/engine/sizes.h"

namespace headroom::engine {

/// Weights of `engine` on one GPU of `stage`, as its library counts them after loading: the tensors of the
/// stage's layers, cut over its ranks, in the served type with their scales; LoRA slots; and buffers that are
/// no parameters: the table of rotary angles (positions × rotated dimensions) and, with latent attention, the
/// absorbed projections that are kept beside the projection they are made of.
///
/// Narrow types: linear layers and experts alone; embeddings, norms and the head stay in 16 bits. Four bits
/// carry a 16-bit scale for each 128 elements (nf4: bitsandbytes nested, GPTQ and AWQ) or one byte for each
/// 16 (fp4: NVFP4). GPT-OSS's fp4 is MXFP4: experts alone, a byte for each 32, in whole tiles.
/// Errors: a dimension that does not divide by the ranks.
Result<Bytes> stage_weights(const Engine& engine, const Stage& stage);

}  // namespace headroom::engine
