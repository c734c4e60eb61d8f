#include <gtest/gtest.h>

#include <map>

#include "models/architecture/family.h"
#include "models/architecture/read.h"
#include "models/document/document.h"
#include "simulator/memory/counting_memory.h"
#include "simulator/tape/core/engine.h"
#include "simulator/tape/modules/model.h"
#include "simulator/tape/operations/reduce.h"

namespace headroom::tape {
namespace {

/// Every model family as a program: properties that hold for all of them.

constexpr std::int64_t kBatch = 2, kTokens = 64;

/// Small sizes under every name that a family may use for them.
constexpr const char* kSizes = R"("vocab_size": 512, "hidden_size": 128, "n_embd": 128, "n_embed": 128,
    "word_embed_proj_dim": 128, "intermediate_size": 256, "ffn_dim": 256, "moe_intermediate_size": 64,
    "shared_expert_intermediate_size": 96, "num_hidden_layers": 4, "n_layer": 4, "num_attention_heads": 4,
    "n_head": 4, "num_key_value_heads": 2, "head_dim": 32, "max_position_embeddings": 256, "n_positions": 256,
    "num_experts": 8, "num_local_experts": 8, "n_routed_experts": 8, "num_experts_per_tok": 2,
    "q_lora_rank": 48, "kv_lora_rank": 32, "qk_nope_head_dim": 32, "qk_rope_head_dim": 16, "v_head_dim": 32,
    "first_k_dense_replace": 1, "rotary_dim": 16, "use_qk_norm": true, "sliding_window": 128,
    "decoder_sparse_step": 1, "n_group": 4, "topk_group": 2,
    "topk_method": "group_limited_greedy", "norm_topk_prob": true,
    "linear_num_value_heads": 8, "linear_num_key_heads": 4, "linear_key_head_dim": 16,
    "linear_value_head_dim": 32, "mamba_num_heads": 8, "mamba_head_dim": 16, "n_groups": 2,
    "ssm_state_size": 32, "moe_shared_expert_intermediate_size": 96)";

Document config_of(const std::string& entries) {
  auto read = parse_document("{" + entries + "}", "config");
  EXPECT_TRUE(read) << (read ? "" : read.error().text());
  return read ? std::move(*read) : Document::map();
}

/// `more`: entries in place of those sizes.
Architecture small(const std::string& family, const std::string& more = "") {
  Document sizes = config_of(kSizes);
  const Document instead = config_of(more);
  for (const auto& [key, value] : instead.entries()) sizes.set(key, value);
  Document config = std::move(sizes);
  if (family.starts_with("gemma4")) {
    // Windows and full sight by turns; the last two layers borrow.
    const std::int64_t layers = config.find("num_hidden_layers")->as_int().value_or(0);
    Document types = Document::list();
    for (std::int64_t i = 0; i < layers; ++i)
      types.append(Document::scalar(i % 2 == 0 ? "sliding_attention" : "full_attention"));
    config.set("layer_types", types);
    config.set("num_kv_shared_layers", Document::scalar("2"));
    config.set("global_head_dim", Document::scalar("64"));
    config.set("vocab_size_per_layer_input", Document::scalar("512"));
    if (config.find("hidden_size_per_layer_input") == nullptr)
      config.set("hidden_size_per_layer_input", Document::scalar("32"));
  }
  if (family == "gemma3" || family == "gemma4") {
    const Document text = std::move(config);
    config = config_of(R"("vision_config": {"hidden_size": 64, "num_hidden_layers": 2,
                          "num_attention_heads": 2, "intermediate_size": 128},
                          "audio_config": {"hidden_size": 64, "num_hidden_layers": 2,
                          "num_attention_heads": 2, "output_proj_dims": 96})");
    config.set("text_config", text);
  }
  const bool sees = family.starts_with("qwen3_vl") || family == "glm4v" || family == "mistral3" ||
                    (family.starts_with("qwen3_5") && !family.ends_with("_text"));
  if (sees) {
    const Document text = std::move(config);
    config = config_of(R"("vision_config": {"hidden_size": 64, "depth": 2, "num_heads": 2,
                          "intermediate_size": 128, "out_hidden_size": 128})");
    config.set("text_config", text);
  }
  if (family == "nemotron_h") {
    // Its layers are as many as the pattern has letters.
    const std::int64_t layers = config.find("num_hidden_layers")->as_int().value_or(0);
    std::string pattern;
    for (std::int64_t i = 0; i < layers; ++i) pattern += "ME*-"[i % 4];
    config.set("hybrid_override_pattern", Document::scalar(pattern));
  }
  config.set("model_type", Document::scalar(family));
  const auto read = make_architecture(config, "config");
  EXPECT_TRUE(read) << family << ": " << (read ? "" : read.error().text());
  return *read;
}

struct Program {
  Program(const Architecture& architecture, ModelOptions options) {
    auto made = make_model(tape, architecture, "actor", options);
    if (!made) {
      options.attention = AttentionImplementation::eager;
      made = make_model(tape, architecture, "actor", options);
    }
    if (made) model = std::move(*made);
  }
  Tensor forward(std::int64_t tokens = kTokens) {
    ModelInput input;
    input.ids = tape.empty({kBatch, tokens}, DType::int64, 0);
    return model->forward(input);
  }
  Bytes kept(std::int64_t tokens = kTokens) {
    forward(tokens);  // library workspaces stay from the first one
    const Bytes before = memory.live();
    const Tensor out = forward(tokens);
    return memory.live() - before;
  }
  CountingMemory memory;
  Tape tape{memory};
  Engine engine{tape};
  std::unique_ptr<Model> model;
};

class EveryFamily : public testing::TestWithParam<std::string> {};

TEST_P(EveryFamily, OwnsTheInventorysParametersInItsOrder) {
  const Architecture architecture = small(GetParam());
  const Program program(architecture, {});
  ASSERT_NE(program.model, nullptr);
  std::vector<std::string> inventory, owned;
  std::map<std::string, std::int64_t> elements;
  for (const headroom::Tensor& tensor : architecture.tensors) {
    if (tensor.buffer || !tensor.tied_to.empty()) continue;
    inventory.push_back(tensor.name);
    elements[tensor.name] = tensor.count();
  }
  for (const ParameterSlot& slot : program.model->parameters()) {
    owned.push_back(slot.name);
    EXPECT_EQ(slot.tensor->elements(), elements[slot.name]) << slot.name;
  }
  EXPECT_EQ(owned, inventory);
}

TEST_P(EveryFamily, LeavesNothingBehindAForwardWithoutGradients) {
  Program program(small(GetParam()), {});
  const GradMode no_grad(program.tape, false);
  program.forward();
  const Bytes before = program.memory.live();
  program.forward();
  EXPECT_EQ(program.memory.live(), before);
}

TEST_P(EveryFamily, LeavesOnlyGradientsBehindABackward) {
  for (const bool checkpointed : {false, true}) {
    ModelOptions options;
    if (checkpointed) options.recompute.kind = RecomputeKind::full;
    Program program(small(GetParam()), options);
    const auto micro_batch = [&] {
      const Tensor loss = mean(program.forward());
      backward(program.engine, loss);
    };
    micro_batch();
    const Bytes after_first = program.memory.live();
    micro_batch();
    EXPECT_EQ(program.memory.live(), after_first) << checkpointed;
    for (const ParameterSlot& slot : program.model->parameters())
      EXPECT_TRUE(slot.tensor->grad().defined() || slot.name.find("vis") != std::string::npos ||
                  slot.name.find("multi_modal") != std::string::npos || slot.name.find("audio") != std::string::npos)
          << slot.name;
  }
}

TEST_P(EveryFamily, KeepsOnlyLayersInputsWhenCheckpointed) {
  ModelOptions options;
  options.recompute.kind = RecomputeKind::full;
  const auto layers = [&](const std::string& more) {
    // Embeddings of every token for each layer grow with the layers too.
    return Program(small(GetParam(), more + R"(, "hidden_size_per_layer_input": null)"), options).kept();
  };
  // Two layers more of the last kind keep two inputs more.
  const Bytes input = kBatch * kTokens * 128 * 2;
  const Bytes six = layers(R"("num_hidden_layers": 6, "n_layer": 6)"),
              eight = layers(R"("num_hidden_layers": 8, "n_layer": 8)");
  EXPECT_EQ(eight - six, 2 * input);
}

std::vector<std::string> names() {
  std::vector<std::string> out;
  for (const Family* family : families()) out.emplace_back(family->name);
  return out;
}

INSTANTIATE_TEST_SUITE_P(OfTheLibrary, EveryFamily, testing::ValuesIn(names()),
                         [](const auto& parameter) { return parameter.param; });

/// What a layer keeps for its backward, counted by hand: bytes of two layers more.
struct Counted {
  const char* family;
  const char* more;
  Bytes bytes;  ///< a token of one layer (bf16), without the square of the length
};

void PrintTo(const Counted& one, std::ostream* out) {
  *out << one.family;
}

/// Attention's seed and offset, a block each.
constexpr Bytes kSeeds = 2 * 512;

class HandCounted : public testing::TestWithParam<Counted> {};

TEST_P(HandCounted, BytesOfALayerEqual) {
  const Counted& c = GetParam();
  const auto kept = [&](const std::string& count) {
    return Program(small(c.family,
                         std::string(c.more) + "\"num_hidden_layers\": " + count + ", \"n_layer\": " + count),
                   {})
        .kept();
  };
  EXPECT_EQ(kept("8") - kept("6"), 2 * (kBatch * kTokens * c.bytes + kSeeds));
}

// h = 128, 4 heads and 2 key/value heads of 32 (queries 128, keys and values 64), f = 256; a norm in fp32
// keeps its input 4h, 4 for the deviation, its narrow result 2h and 2h for the linear behind it. Attention
// keeps queries, keys, values, its result and 4 heads' log-sum-exp (16).
constexpr Bytes h = 128, q = 128, kv = 64, f = 256;
constexpr Bytes kRms = 4 * h + 4 + 2 * h + 2 * h, kLayerNorm = 2 * h + 8 + 2 * h;
constexpr Bytes kAttention = 2 * (q + kv + kv + q) + 16;
INSTANTIATE_TEST_SUITE_P(
    OfLayers, HandCounted,
    testing::Values(Counted{"llama", "", 2 * kRms + kAttention + 2 * 4 * f},
                    Counted{"mistral", "", 2 * kRms + kAttention + 2 * 4 * f},
                    // LayerNorm keeps its input as it is, mean and deviation.
                    Counted{"starcoder2", "", 2 * kLayerNorm + kAttention + 2 * 2 * f},
                    // Both branches read one norm's result; queries joined from two parts lie head by head,
                    // so that attention's result is copied for the output projection.
                    Counted{"stablelm", R"("use_parallel_residual": true, )",
                            kLayerNorm + kAttention + 2 * q + 2 * 4 * f},
                    // The same, and values keep the whole fused projection; gate and up in one, act(gate),
                    // the product.
                    Counted{"phi3", "", 2 * kRms + kAttention + 2 * q + 2 * (q + kv) + 2 * (2 * f + f + f)}),
    [](const auto& parameter) { return std::string(parameter.param.family); });

}  // namespace
}  // namespace headroom::tape
