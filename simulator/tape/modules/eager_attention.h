#pragma once

#include "simulator/tape/modules/model.h"

namespace headroom::tape {

/// The mask that a body makes for its layers, of [B,1,T,columns] in `dtype`: only eager attention needs one
/// when nothing is padded. Other implementations look at the given mask (or at the position ids) and pass
/// none: the result is undefined.
Tensor attention_mask(AttentionImplementation implementation, const ModelInput& input,
                      const Tensor& position_ids, DType dtype);

/// Attention of [B,heads,T,d] views; the result is [B,T,heads,d]. Eager attention also hands out its
/// probabilities, which the layer's caller holds until the layer returns: scores, scaled, masked, softmax in
/// fp32, one copy of values that do not lie in order.
Tensor attend_heads(AttentionImplementation implementation, const Tensor& query, const Tensor& key,
                    const Tensor& value, const Tensor& mask, Tensor& weights);

}  // namespace headroom::tape
