#pragma once

#include <utility>
#include <vector>

#include "simulator/tape/modules/decoder_form.h"
#include "simulator/tape/modules/model.h"

namespace headroom::tape {

/// Rotary position embedding: its frequency buffers, and cos/sin tables made anew in every forward.
struct RotaryEmbedding {
  Tensor frequencies, original_frequencies;  ///< fp32 [rotary_dim / 2]
  std::uint32_t module = 0;

  void build(Model& model, const std::string& name, std::int64_t rotary_dim);
  /// The weight initialiser, once the whole body stands: computes the frequencies once more to compare.
  Tensor initialise(Model& model) const;
  /// cos and sin [b,T,rotary_dim] in `dtype` for position ids [b,T]; `half`: [b,T,rotary_dim / 2].
  std::pair<Tensor, Tensor> operator()(const Tensor& position_ids, DType dtype, bool half = false) const;
  /// The same as complex numbers, fp32 [b,T,rotary_dim / 2,2].
  Tensor complex(const Tensor& position_ids) const;

 private:
  /// Every position times every frequency, [b,T,rotary_dim / 2]; `positions` is held beside it.
  Tensor angles(const Tensor& position_ids, Tensor& positions) const;
};

/// apply_rotary_pos_emb of one of q and k, [B,heads,T,d]: x * cos + rotate_half(x) * sin.
Tensor apply_rotary(const Tensor& x, const Tensor& cos, const Tensor& sin);

/// The same on the first `cos.size(-1)` columns of each head; the others pass. `query` and `key`
/// [B,heads,T,d] are replaced; cos and sin are [B or 1,T,r].
void apply_partial_rotary(Tensor& query, Tensor& key, const Tensor& cos, const Tensor& sin);

/// Queries and keys rotated as the family's code does: cos and sin are [B or 1,T,r] (complex: cos is what
/// RotaryEmbedding::complex makes, sin undefined); both are replaced.
/// `held` takes what the family's code keeps in variables until attention ends.
void rotate(RotaryForm form, Tensor& query, Tensor& key, const Tensor& cos, const Tensor& sin,
            std::vector<Tensor>& held);

}  // namespace headroom::tape
