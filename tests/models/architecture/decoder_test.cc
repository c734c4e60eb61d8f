// The two views of a model agree: what the decoder's blocks say a layer holds is what the tensors hold.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "models/presets/presets.h"
#include "tests/models/support/models.h"
#include "tests/support/data.h"

namespace headroom {
namespace {

std::int64_t elements(const Norm& norm) {
  return norm.present() ? norm.size * ((norm.weight ? 1 : 0) + (norm.bias ? 1 : 0)) : 0;
}

std::int64_t linear(std::int64_t out, std::int64_t in, bool bias) {
  return out * in + (bias ? out : 0);
}

std::int64_t elements(const Attention& a, std::int64_t hidden) {
  std::int64_t sum = elements(a.query_norm) + elements(a.key_norm) + (a.sinks ? a.heads : 0);
  sum += linear(hidden, a.heads * a.value_head_dim, a.output_bias);
  const std::int64_t queries = a.heads * a.head_dim;
  if (a.kind == AttentionKind::latent) {
    sum += a.query_rank > 0 ? linear(a.query_rank, hidden, a.qkv_bias) + queries * a.query_rank
                            : queries * hidden;
    sum += linear(a.kv_rank + a.rope_dim, hidden, a.qkv_bias);
    return sum + a.heads * (a.nope_dim + a.value_head_dim) * a.kv_rank;
  }
  const std::int64_t projected = a.borrows ? 0 : a.key_is_value ? 1 : 2;  // of keys and values
  return sum + linear((a.gated ? 2 : 1) * queries + projected * a.kv_heads * a.head_dim, hidden, a.qkv_bias);
}

std::int64_t elements(const StateMixer& state, MixerKind kind, std::int64_t hidden) {
  const bool mamba = kind == MixerKind::mamba2;
  const std::int64_t taps = state.kernel + (state.convolution_bias ? 1 : 0);
  const std::int64_t projected = state.channels() + state.values() + (mamba ? 1 : 2) * state.heads;
  return linear(projected, hidden, state.projection_bias) + state.channels() * taps +
         (mamba ? 3 : 2) * state.heads + elements(state.norm) +
         linear(hidden, state.values(), state.projection_bias);
}

std::int64_t elements(const Mlp& mlp, std::int64_t hidden) {
  const auto dense = [&](std::int64_t width, std::int64_t inputs, bool bias) {
    return linear(inputs * width, hidden, bias) + linear(hidden, width, bias);
  };
  if (mlp.kind == MlpKind::none) return 0;
  if (mlp.kind == MlpKind::plain) return dense(mlp.hidden, 1, mlp.bias);
  if (mlp.kind == MlpKind::gated) return dense(mlp.hidden, 2, mlp.bias);
  const std::int64_t inputs = mlp.plain_experts ? 1 : 2, width = mlp.latent > 0 ? mlp.latent : hidden;
  const std::int64_t expert =
      linear(inputs * mlp.hidden, width, mlp.expert_bias) + linear(width, mlp.hidden, mlp.expert_bias);
  return mlp.experts * expert + linear(mlp.experts, hidden, mlp.router_bias) + 2 * mlp.latent * hidden +
         dense(mlp.shared_hidden, inputs, false) + (mlp.shared_gate ? hidden : 0);
}

std::int64_t elements(const Layer& layer, std::int64_t hidden) {
  const std::int64_t mixer = layer.mixer == MixerKind::attention ? elements(layer.attention, hidden)
                             : layer.mixer == MixerKind::none    ? 0
                                                                 : elements(layer.state, layer.mixer, hidden);
  return mixer + elements(layer.mlp, hidden) + elements(layer.attention_norm) + elements(layer.mlp_norm) +
         elements(layer.attention_post_norm) + elements(layer.mlp_post_norm) + 2 * layer.token_width * hidden +
         elements(layer.token_norm);
}

/// The table of embeddings for every layer, the projection beside it and its norm.
std::int64_t token_elements(const Decoder& decoder) {
  if (decoder.token_rows == 0) return 0;
  const std::int64_t width = decoder.layer(0).token_width;
  return (decoder.token_rows + decoder.hidden) * decoder.layers * width + width;
}

void expect_equal_views(const Architecture& model) {
  const Decoder& decoder = model.decoder;
  std::vector<std::int64_t> layers(static_cast<size_t>(decoder.layers), 0);
  std::int64_t outside = 0;
  for (const Tensor& tensor : model.tensors) {
    if (tensor.buffer || !tensor.tied_to.empty() || tensor.place == Place::vision) continue;
    (tensor.layer >= 0 ? layers.at(static_cast<size_t>(tensor.layer)) : outside) += tensor.count();
  }
  for (std::int64_t i = 0; i < decoder.layers; ++i)
    EXPECT_EQ(elements(decoder.layer(i), decoder.hidden), layers[static_cast<size_t>(i)])
        << model.family << " " << i;
  const bool projected = decoder.embedding_dim != decoder.hidden;
  const std::int64_t expected =
      decoder.vocabulary * decoder.embedding_dim * (decoder.tied_embeddings ? 1 : 2) +
      (decoder.head_bias ? decoder.vocabulary : 0) + decoder.position_rows * decoder.hidden +
      (projected ? 2 * decoder.embedding_dim * decoder.hidden : 0) + elements(decoder.embedding_norm) +
      elements(decoder.final_norm) + token_elements(decoder);
  EXPECT_EQ(outside, expected) << model.family;
}

TEST(Decoder, HoldsWhatTheTensorsHold) {
  for (const char* file : {"models/inventory.json", "models/published-totals.json"}) {
    const auto json = nlohmann::json::parse(std::ifstream(test::data(file)));
    for (const auto& recorded : json.contains("models") ? json["models"] : json)
      expect_equal_views(test::model_of(recorded["config"].dump()));
  }
  for (const char* config : test::kSmallModels) expect_equal_views(test::model_of(config));
  for (const char* name : {"google/gemma-4-E2B-it", "google/gemma-4-E4B-it"}) {
    const auto config = find_preset(name);
    ASSERT_TRUE(config) << name;
    const auto model = make_architecture(*config, name);
    ASSERT_TRUE(model) << model.error().text();
    expect_equal_views(*model);
  }
}

TEST(Decoder, FindsALayerInItsGroup) {
  const Decoder decoder = test::model_of(test::kSmallDeepseek).decoder;
  ASSERT_EQ(decoder.groups.size(), 2U);
  EXPECT_EQ(decoder.layer(1).mlp.kind, MlpKind::gated);
  EXPECT_EQ(decoder.layer(2).mlp.kind, MlpKind::experts);
  EXPECT_EQ(decoder.layer(7).mlp.kind, MlpKind::experts);
}

}  // namespace
}  // namespace headroom
