#pragma once

#include "simulator/tape/modules/model.h"

namespace headroom::tape {

/// Which positions a layer's queries see, as far as masks differ.
enum class MaskKind {
  causal,   ///< all before; fused attention needs no mask when nothing is padded
  sliding,  ///< those within the window, which the columns have reached
  always,   ///< as causal, but a mask is made in any case (Falcon)
};

/// The mask that a body makes for its layers, [B,1,T,columns]: eager attention always needs one, as numbers
/// in `dtype`; other implementations look at the given mask (or at the position ids, unless undefined) and
/// pass none when nothing is padded (the result is undefined), else a boolean one. `columns`: keys that a
/// layer holds, where a sliding cache keeps fewer than there are tokens; 0: all.
Tensor attention_mask(AttentionImplementation implementation, const ModelInput& input,
                      const Tensor& position_ids, DType dtype, MaskKind kind = MaskKind::causal,
                      std::int64_t columns = 0);

/// Keys or values [B,kv heads,T,d] copied for each of `heads` query heads; themselves when there are as many.
Tensor repeat_heads(const Tensor& grouped, std::int64_t heads);

/// How a family's eager attention departs from the usual.
struct EagerForm {
  bool scaled = true;    ///< scores are multiplied by a number (Bloom: inside the product)
  bool fp32 = false;     ///< queries and keys are widened first (GPT-J)
  bool softcap = false;  ///< scores go through tanh (Gemma 2)
  bool own_dtype =
      false;  ///< the softmax runs in the scores' dtype, its result is cast in a statement of its own
  bool divided_in_place = false;  ///< scores are divided in place and held until probabilities are (Falcon)
  bool dropout = false;           ///< of the probabilities
  const Tensor* sinks = nullptr;  ///< GPT-OSS: a logit of each head beside the scores
};
Tensor attend_eagerly(const EagerForm& form, const Tensor& query, const Tensor& key, const Tensor& value,
                      const Tensor& mask, Tensor& weights);

/// Attention of [B,heads,T,d] views; the result is [B,T,heads,d]. Eager attention also hands out its
/// probabilities, which the layer's caller holds until the layer returns: scores, scaled, masked, softmax in
/// fp32, one copy of values that do not lie in order.
Tensor attend_heads(AttentionImplementation implementation, const Tensor& query, const Tensor& key,
                    const Tensor& value, const Tensor& mask, Tensor& weights, const EagerForm& form = {});

}  // namespace headroom::tape
