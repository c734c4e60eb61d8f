#include "models/sharding/tensor_slice.h"

#include <fmt/format.h>

#include <algorithm>

#include "models/base/bytes.h"
#include "models/sharding/tensor_parallel.h"

namespace headroom {
namespace {

Status cut(std::int64_t& size, std::int64_t ranks, const char* what) {
  if (size % ranks != 0)
    return fail(Error{.message = fmt::format("expected {} {} to divide over {} ranks", size, what, ranks),
                      .file = {},
                      .key = "tensor_parallel"});
  size /= ranks;
  return {};
}

/// A norm over a whole projection is cut with it; one over each head is not.
void cut_norm(Norm& norm, std::int64_t before, std::int64_t after) {
  if (norm.size == before) norm.size = after;
}

Status cut_attention(Attention& a, std::int64_t ranks) {
  const std::int64_t queries = a.heads * a.head_dim, keys = a.kv_heads * a.head_dim;
  HEADROOM_TRY(cut(a.heads, ranks, "attention heads"));
  a.kv_heads = a.kv_heads % ranks == 0 ? a.kv_heads / ranks : 1;
  cut_norm(a.query_norm, queries, a.heads * a.head_dim);
  cut_norm(a.key_norm, keys, a.kv_heads * a.head_dim);
  return {};
}

/// Groups of keys are cut with the heads that read them.
Status cut_state(StateMixer& state, std::int64_t ranks) {
  const std::int64_t values = state.values();
  HEADROOM_TRY(cut(state.heads, ranks, "heads with a state"));
  HEADROOM_TRY(cut(state.groups, ranks, "groups of keys"));
  cut_norm(state.norm, values, state.values());
  return {};
}

}  // namespace

Result<Architecture> tensor_slice(const Architecture& model, std::int64_t ranks) {
  Architecture out = model;
  if (ranks <= 1) return out;
  out.decoder.vocabulary = ceil_div(out.decoder.vocabulary, ranks);
  for (LayerGroup& group : out.decoder.groups) {
    if (group.layer.mixer == MixerKind::attention) HEADROOM_TRY(cut_attention(group.layer.attention, ranks));
    if (group.layer.state.heads > 0) HEADROOM_TRY(cut_state(group.layer.state, ranks));
    Mlp& mlp = group.layer.mlp;
    HEADROOM_TRY(cut(mlp.hidden, ranks, "elements of the MLP"));
    if (mlp.shared_hidden > 0) HEADROOM_TRY(cut(mlp.shared_hidden, ranks, "elements of the shared expert"));
  }
  TensorCut pieces;
  pieces.tensor = ranks;
  pieces.expert_tensor = ranks;
  pieces.vocabulary.multiple = ranks;
  for (Tensor& tensor : out.tensors) {
    HEADROOM_ASSIGN(const LocalTensor local, local_tensor(model, tensor, pieces));
    tensor.shape = local.shape;
  }
  return out;
}

}  // namespace headroom
