#pragma once

#include "models/base/bytes.h"
#include "simulator/job/engine.h"

namespace headroom {

/// The one block that the kernels of DeepSpeed's hybrid engine take from the driver: keys and values, scores and
/// hidden states of `max_sequences` rows of `max_length` tokens over all `tensor` ranks. Bytes of one GPU. PyTorch's
/// allocator neither counts it nor can give it back. 0 for engines of other kinds.
/// Source: csrc/transformer/inference/includes/inference_context.h of DeepSpeed 0.16.
Bytes hybrid_workspace(const Engine& engine);

/// Whether the hybrid engine has kernels for layers of a family; of others it generates as Transformers does.
/// Source: the containers in deepspeed/module_inject of the same release.
bool has_hybrid_kernels(const Architecture& model);

}  // namespace headroom
