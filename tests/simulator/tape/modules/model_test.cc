#include "simulator/tape/modules/model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "models/architecture/read.h"
#include "models/document/document.h"
#include "simulator/memory/counting_memory.h"
#include "simulator/tape/core/engine.h"
#include "simulator/tape/operations/reduce.h"

namespace headroom::tape {
namespace {

using testing::HasSubstr;

Architecture architecture(const std::string& config) {
  return make_architecture(parse_document(config, "config").value(), "config").value();
}

Architecture opt(const std::string& dropout = "0.1") {
  return architecture(R"({"model_type": "opt", "vocab_size": 1000, "hidden_size": 128, "ffn_dim": 512,
      "num_hidden_layers": 2, "num_attention_heads": 2, "max_position_embeddings": 512,
      "word_embed_proj_dim": 128, "dropout": )" +
                      dropout + "}");
}

Architecture gpt2() {
  return architecture(
      R"({"model_type": "gpt2", "vocab_size": 1000, "n_embd": 128, "n_layer": 2, "n_head": 2})");
}

Architecture neox(const std::string& parallel = "true") {
  return architecture(R"({"model_type": "gpt_neox", "vocab_size": 1000, "hidden_size": 128,
      "intermediate_size": 512, "num_hidden_layers": 2, "num_attention_heads": 2,
      "max_position_embeddings": 512, "use_parallel_residual": )" +
                      parallel + "}");
}

constexpr std::int64_t kBatch = 2, kTokens = 128, kHidden = 128, kLayers = 2;

/// A model and what it keeps for backward.
struct Built {
  Built(const Architecture& architecture, ModelOptions options) {
    model = make_model(tape, architecture, "actor", options).value();
  }
  Tensor forward(std::int64_t tokens = kTokens) {
    ModelInput input;
    input.ids = tape.empty({kBatch, tokens}, DType::int64, 0);
    return model->forward(input);
  }
  /// Bytes that one forward leaves behind.
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

TEST(MakeModel, AllocatesEveryParameterOfTheArchitecture) {
  for (const Architecture& a : {opt(), gpt2(), neox()}) {
    Built built(a, {});
    std::int64_t elements = 0;
    for (const ParameterSlot& slot : built.model->parameters()) {
      elements += slot.tensor->elements();
      const headroom::Tensor* known = a.find(slot.name);
      ASSERT_NE(known, nullptr) << slot.name;
      EXPECT_EQ(known->count(), slot.tensor->elements()) << slot.name;
    }
    EXPECT_EQ(elements, a.parameters()) << a.family;
  }
}

/// Hugging Face's token classifiers, which verl's critics are, add a bias to their head; others do not.
TEST(MakeModel, TokenClassifiersHeadsHaveABias) {
  const auto last = [](HeadKind head) {
    ModelOptions options;
    options.head = head;
    return Built(gpt2(), options).model->parameters().back().name;
  };
  EXPECT_EQ(last(HeadKind::token_classification), "v_head.bias");
  EXPECT_EQ(last(HeadKind::sequence_classification), "v_head.weight");
  EXPECT_EQ(last(HeadKind::scalar), "v_head.weight");
}

TEST(MakeModel, SaysWhatItDoesNotCover) {
  CountingMemory memory;
  Tape tape(memory);
  Architecture unknown = opt();
  unknown.family = "unheard_of";
  const auto made = make_model(tape, unknown, "actor", {});
  ASSERT_FALSE(made);
  EXPECT_THAT(made.error().text(), HasSubstr("unheard_of"));
}

TEST(Opt, LiveDropoutKeepsTwoMasksALayerInTrainModeOnly) {
  ModelOptions options;
  const Bytes without = Built(opt(), options).kept();
  options.dropout = true;
  const Bytes with = Built(opt(), options).kept();
  EXPECT_EQ(with - without, kLayers * 2 * kBatch * kTokens * kHidden);
  options.training = false;
  EXPECT_EQ(Built(opt(), options).kept(), without);
  options.training = true;
  EXPECT_EQ(Built(opt("0.0"), options).kept(), without);
}

/// What one forward keeps has a part that grows with the square of the length: from three lengths.
Bytes squared_part(AttentionImplementation attention) {
  ModelOptions options;
  options.attention = attention;
  Built built(neox(), options);
  const Bytes once = built.kept(kTokens), twice = built.kept(2 * kTokens), thrice = built.kept(3 * kTokens);
  return (thrice - 2 * twice + once) / (2 * kTokens * kTokens);
}

TEST(Neox, EagerAttentionKeepsItsProbabilitiesInBothPrecisions) {
  EXPECT_EQ(squared_part(AttentionImplementation::sdpa), 0);
  EXPECT_EQ(squared_part(AttentionImplementation::eager), kLayers * kBatch * 2 * (4 + 2));
}

TEST(EveryFamily, LeavesOnlyGradientsBehindABackward) {
  for (const Architecture& a : {opt(), gpt2(), neox(), neox("false")})
    for (const bool checkpointed : {false, true}) {
      ModelOptions options;
      options.dropout = true;
      if (checkpointed) options.recompute.kind = RecomputeKind::full;
      Built built(a, options);
      const auto micro_batch = [&] {
        const Tensor loss = mean(built.forward());
        backward(built.engine, loss);
      };
      micro_batch();
      const Bytes after_first = built.memory.live();
      EXPECT_EQ(built.memory.components()[Component::activations], 0) << a.family << checkpointed;
      micro_batch();
      EXPECT_EQ(built.memory.live(), after_first) << a.family << checkpointed;
      for (const ParameterSlot& slot : built.model->parameters())
        EXPECT_TRUE(slot.tensor->grad().defined()) << slot.name;
    }
}

}  // namespace
}  // namespace headroom::tape
