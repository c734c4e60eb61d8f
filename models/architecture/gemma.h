#pragma once

#include "models/architecture/architecture.h"
#include "models/architecture/tensor_writer.h"

namespace headroom {

/// What all Gemmas share: norms that multiply by 1 + weight, embeddings scaled by the root of the hidden
/// size.
void apply_gemma(Decoder& decoder, Layer& layer);

/// A layer with norms before and after both branches (Gemma 2 and 3).
void write_gemma_layer(TensorWriter& out, const Layer& layer);

}  // namespace headroom
