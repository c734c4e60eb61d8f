#include <gtest/gtest.h>

#include <algorithm>

#include "models/kv_cache/kv_cache.h"
#include "models/presets/presets.h"
#include "tests/models/support/models.h"

namespace headroom {
namespace {

Architecture preset(const std::string& name) {
  const auto config = find_preset(name);
  EXPECT_TRUE(config) << name;
  auto model = make_architecture(config.value(), name);
  EXPECT_TRUE(model) << (model ? "" : model.error().text());
  return std::move(model).value();
}

std::int64_t elements(const Architecture& model, std::string_view part) {
  std::int64_t sum = 0;
  for (const Tensor& tensor : model.tensors)
    if (!tensor.buffer && tensor.tied_to.empty() && tensor.name.find(part) != std::string::npos) sum += tensor.count();
  return sum;
}

// Its card: 2.3 billion effective parameters, 5.1 with embeddings; E4B 4.5 and 8.
TEST(Gemma4, HasAsManyParametersAsItsCardSays) {
  for (const auto& [name, effective, all] :
       {std::tuple{"google/gemma-4-E2B-it", 2.3e9, 5.1e9}, std::tuple{"google/gemma-4-E4B-it", 4.5e9, 8.0e9}}) {
    const Architecture model = preset(name);
    EXPECT_NEAR(static_cast<double>(model.parameters()) / all, 1, 0.01) << name;
    const std::int64_t others = elements(model, "audio") + elements(model, "vision") + elements(model, "tokens_per_layer");
    EXPECT_NEAR(static_cast<double>(model.parameters() - others) / effective, 1, 0.04) << name;
  }
}

TEST(Gemma4, LayersThatBorrowHaveNeitherKeysNorACache) {
  const Architecture model = preset("google/gemma-4-E2B-it");
  const Decoder& decoder = model.decoder;
  EXPECT_NE(model.find("model.language_model.layers.14.self_attn.k_proj.weight"), nullptr);
  EXPECT_EQ(model.find("model.language_model.layers.15.self_attn.k_proj.weight"), nullptr);
  // Twelve layers with windows of heads of 256, three of 512: keys and values, two bytes each.
  EXPECT_EQ(kv_bytes_per_token(decoder, {}), (12 * 256 + 3 * 512) * 2 * 2);
  EXPECT_EQ(decoder.layer(14).mlp.hidden, 6144);
  EXPECT_EQ(decoder.layer(15).mlp.hidden, 12288);
}

TEST(Gemma4, FullLayersHaveWiderHeads) {
  const Decoder decoder = preset("google/gemma-4-E2B-it").decoder;
  EXPECT_EQ(decoder.layer(3).attention.head_dim, 256);
  EXPECT_EQ(decoder.layer(4).attention.head_dim, 512);
  EXPECT_EQ(decoder.layer(4).attention.sliding_window, 0);
}

TEST(Gemma4, WhatIsNotModelledIsRefusedByName) {
  const std::string start =
      "{model_type: gemma4_text, vocab_size: 512, hidden_size: 64, intermediate_size: 96, num_attention_heads: 4, "
      "num_key_value_heads: 2, num_hidden_layers: 6, ";
  EXPECT_EQ(test::error_of(start + "enable_moe_block: true}").key, "enable_moe_block");
  // The only full layer borrows.
  EXPECT_EQ(test::error_of(start + "num_kv_shared_layers: 2}").key, "num_kv_shared_layers");
}

}  // namespace
}  // namespace headroom
