#include "simulator/tape/sharding/fsdp2.h"

#include <gtest/gtest.h>

#include "models/architecture/read.h"
#include "models/document/document.h"
#include "simulator/memory/counting_memory.h"
#include "simulator/tape/operations/reduce.h"

namespace headroom::tape {
namespace {

Architecture tiny(bool tied) {
  const auto config = parse_document(
      std::string(R"({"model_type": "llama", "vocab_size": 1000, "hidden_size": 256, "intermediate_size": 512,
          "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64,
          "tie_word_embeddings": )") +
          (tied ? "true}" : "false}"),
      "tiny");
  return make_architecture(*config, "tiny").value();
}

Architecture mixture() {
  const auto config = parse_document(
      R"({"model_type": "qwen3_moe", "vocab_size": 1000, "hidden_size": 256, "intermediate_size": 512,
          "moe_intermediate_size": 128, "num_experts": 16, "num_experts_per_tok": 2, "num_hidden_layers": 4,
          "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64, "tie_word_embeddings": false})",
      "mixture");
  return make_architecture(*config, "mixture").value();
}

/// Elements of the routed experts of `mixture`.
constexpr std::int64_t kExperts = 4L * 16 * 3 * 128 * 256;

/// A trained model sharded over `ranks`, with what it needs.
struct Sharded {
  explicit Sharded(std::int64_t ranks, bool tied = true, bool cpu_offload = false, bool reshard = true)
      : Sharded({.ranks = ranks, .reshard_after_forward = reshard, .cpu_offload = cpu_offload}, tied) {}
  Sharded(const ShardingOptions& sharding, bool tied) : Sharded(sharding, tiny(tied), DType::fp32) {}
  Sharded(const ShardingOptions& sharding, const Architecture& architecture, DType dtype) {
    ModelOptions options;
    options.dtype = dtype;
    options.expert_ranks = sharding.expert_ranks;
    tape.set_meta_parameters(sharding.built_on_host);
    model = make_model(tape, architecture, "actor", options).value();
    tape.set_meta_parameters(false);
    built = memory.allocations();
    fsdp = std::make_unique<Fsdp2>(*model, engine, sharding);
  }
  void micro_batch() {
    ModelInput input;
    input.ids = tape.empty({1, 64}, DType::int64, 0);
    Tensor loss = mean(model->forward(input));
    input.ids.reset();
    backward(engine, loss);
  }
  Bytes shard_bytes() {
    Bytes sum = 0;
    for (const Tensor& shard : fsdp->shards()) sum += round_up(shard.bytes(), 512);
    return sum;
  }

  std::int64_t built = 0;  ///< allocations of the model itself
  CountingMemory memory;
  Tape tape{memory};
  Engine engine{tape};
  std::unique_ptr<Model> model;
  std::unique_ptr<Fsdp2> fsdp;
};

TEST(Fsdp2, ShardsCoverTheModelOncePlusPadding) {
  for (const bool tied : {true, false})
    for (const std::int64_t ranks : {1, 2, 3, 8}) {
      Sharded run(ranks, tied);
      std::int64_t elements = 0;
      for (const Tensor& shard : run.fsdp->shards()) elements += shard.elements();
      const Architecture whole = tiny(tied);
      EXPECT_GE(elements * ranks, whole.parameters());
      EXPECT_LT(elements * ranks, whole.parameters() + ranks * 512 * 64);
      if (ranks == 1) {
        EXPECT_EQ(elements, whole.parameters());
      }
    }
}

TEST(Fsdp2, LeavesShardsAndTheirGradientsBehind) {
  for (const bool tied : {true, false}) {
    Sharded run(2, tied);
    const Bytes shards = run.memory.components()[Component::weights];
    run.micro_batch();
    EXPECT_EQ(run.memory.components()[Component::gathered_parameters], 0);
    EXPECT_EQ(run.memory.components()[Component::communication], 0);
    EXPECT_EQ(run.memory.components()[Component::activations], 0);
    EXPECT_EQ(run.memory.components()[Component::weights], shards);
    // One storage a group, so less rounding than shard by shard.
    EXPECT_NEAR(static_cast<double>(run.memory.components()[Component::gradients]),
                static_cast<double>(run.shard_bytes()), 512.0 * 12 * 5);
    const Bytes after_first = run.memory.live();
    run.micro_batch();
    EXPECT_EQ(run.memory.live(), after_first);
  }
}

TEST(Fsdp2, DeferredGradientsStayWholeUntilTheLastMicroBatch) {
  Sharded run(4);
  const Bytes whole = 4 * tiny(true).parameters();
  run.fsdp->set_gradient_sync(false);
  run.micro_batch();
  EXPECT_GE(run.memory.components()[Component::gradients], whole);
  const Bytes deferred = run.memory.components()[Component::gradients];
  run.micro_batch();
  EXPECT_EQ(run.memory.components()[Component::gradients], deferred);
  run.fsdp->set_gradient_sync(true);
  run.micro_batch();
  EXPECT_LT(run.memory.components()[Component::gradients], whole / 3);
}

TEST(Fsdp2, OffloadLeavesNothingOnTheDevice) {
  Sharded run(2, true, true);
  EXPECT_LE(run.memory.components()[Component::weights], 1024);  // the rotary frequencies
  EXPECT_GT(run.memory.host_live(), 2 * tiny(true).parameters());
  run.micro_batch();
  EXPECT_EQ(run.memory.components()[Component::gradients], 0);
}

TEST(Fsdp2, WithoutReshardingTheFullParametersStayAfterAForward) {
  Sharded run(2, true, false, false);
  {
    const GradMode no_grad(run.tape, false);
    ModelInput input;
    input.ids = run.tape.empty({1, 64}, DType::int64, 0);
    const Tensor logits = run.model->forward(input);
  }
  EXPECT_GE(run.memory.components()[Component::gathered_parameters], 2 * tiny(true).parameters());
  run.micro_batch();
  EXPECT_EQ(run.memory.components()[Component::gathered_parameters], 0);
}

/// Experts that no other rank has are no unit: their weights are where they are used, and so are their gradients.
TEST(Fsdp2, DealsExpertsOutWholeWhereNoOtherRankHasThem) {
  Sharded run({.ranks = 4, .expert_ranks = 4, .reshard_after_forward = false}, mixture(), DType::bf16);
  const Bytes whole = 2 * mixture().parameters();
  EXPECT_NEAR(static_cast<double>(run.memory.components()[Component::weights]), static_cast<double>(whole) / 4, 16'000);
  const GradMode no_grad(run.tape, false);
  ModelInput input;
  input.ids = run.tape.empty({1, 64}, DType::int64, 0);
  run.model->forward(input).reset();
  const double dense = static_cast<double>(whole) - 2.0 * kExperts;
  EXPECT_NEAR(static_cast<double>(run.memory.components()[Component::gathered_parameters]), dense, 16'000);
}

TEST(Fsdp2, DealtExpertsHaveGradientsOfTheirShare) {
  for (const std::int64_t ranks : {4, 8}) {
    Sharded run({.ranks = ranks, .expert_ranks = 4, .reshard_after_forward = false}, mixture(), DType::bf16);
    run.micro_batch();
    const double share = 2.0 * static_cast<double>(mixture().parameters()) / static_cast<double>(ranks);
    EXPECT_NEAR(static_cast<double>(run.memory.components()[Component::gradients]), share, 40'000) << ranks;
    EXPECT_EQ(run.memory.components()[Component::gathered_parameters], 0);
    EXPECT_EQ(run.memory.components()[Component::communication], 0);
    const Bytes after_first = run.memory.live();
    run.micro_batch();
    EXPECT_EQ(run.memory.live(), after_first);
  }
}

/// Two ranks with the same experts share them as a unit: half of the rank's four experts a layer each, gathered in
/// their own dtype.
TEST(Fsdp2, RanksWithTheSameExpertsShareThem) {
  Sharded run({.ranks = 8, .expert_ranks = 4, .reshard_after_forward = false}, mixture(), DType::bf16);
  const GradMode no_grad(run.tape, false);
  ModelInput input;
  input.ids = run.tape.empty({1, 64}, DType::int64, 0);
  run.model->forward(input).reset();
  const double dense = 2.0 * static_cast<double>(mixture().parameters() - kExperts);
  EXPECT_NEAR(static_cast<double>(run.memory.components()[Component::gathered_parameters]), dense + 2.0 * kExperts / 4,
              16'000);
  // What leaves for an engine is whole.
  std::int64_t sent = 0;
  for (const StateTensor& state : run.fsdp->state_dict(false)) sent += state.whole.elements();
  EXPECT_EQ(sent, mixture().parameters());
}

/// Allocations of wrapping and loading, a parameter: brought to the device, its shard, its whole once more with the
/// weights; made anew on other ranks; shapes only until then on a meta device. A tied table is loaded twice.
TEST(Fsdp2, RanksAreMadeDifferently) {
  const auto made = [](bool tied, bool first, bool meta, bool offload = false) {
    Sharded run({.ranks = 2, .cpu_offload = offload, .built_on_host = true, .first_rank = first, .meta = meta}, tied);
    return run.memory.allocations() - run.built;
  };
  const auto parameters = [](bool tied) { return static_cast<std::int64_t>(tied ? 4 * 9 + 2 : 4 * 9 + 3); };
  const std::int64_t tied = parameters(true), untied = parameters(false);
  EXPECT_EQ(made(true, true, false), 3 * tied + 1);
  EXPECT_EQ(made(true, false, false), 4 * tied + 2 + 1);  // and a fake tensor
  EXPECT_EQ(made(true, true, false, true), 4 * tied + 1 + 1);
  EXPECT_EQ(made(false, true, false), 3 * untied);
  EXPECT_EQ(made(false, false, true), 2 * untied + 1);
}

/// A head that is a unit of its own is whole only while it is used.
TEST(Fsdp2, AHeadOfItsOwnIsGatheredByItself) {
  const auto held_after_forward = [](bool wrapped) {
    Sharded run({.ranks = 2, .head_wrapped = wrapped}, false);
    const GradMode no_grad(run.tape, false);
    ModelInput input;
    input.ids = run.tape.empty({1, 64}, DType::int64, 0);
    Bytes peak = 0;
    const Tensor out = run.model->forward(input, [&](Tensor hidden) {
      peak = run.memory.components()[Component::gathered_parameters];
      return hidden;
    });
    return peak;
  };
  EXPECT_EQ(held_after_forward(false) - held_after_forward(true), 2 * 1000 * 256);
  for (const bool wrapped : {true, false}) {
    Sharded run({.ranks = 2, .head_wrapped = wrapped}, false);
    run.micro_batch();
    EXPECT_EQ(run.memory.components()[Component::gathered_parameters], 0);
    EXPECT_EQ(run.memory.components()[Component::communication], 0);
    EXPECT_GE(run.memory.components()[Component::gradients], 2 * tiny(false).parameters());
  }
}

}  // namespace
}  // namespace headroom::tape
