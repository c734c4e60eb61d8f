#include "simulator/tape/megatron/stage.h"

#include <gtest/gtest.h>

#include "models/architecture/read.h"
#include "models/document/document.h"
#include "simulator/memory/counting_memory.h"
#include "simulator/tape/megatron/gradient_buffers.h"

namespace headroom::tape::megatron {
namespace {

constexpr std::int64_t kTokens = 1024, kHidden = 512, kHeads = 8, kKv = 4, kHead = 64, kWidth = 1536;

Architecture dense() {
  const auto config = parse_document(
      R"({"model_type": "llama", "vocab_size": 4096, "hidden_size": 512, "intermediate_size": 1536,
          "num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 64,
          "tie_word_embeddings": false})",
      "dense");
  return make_architecture(*config, "dense").value();
}

Architecture sparse() {
  const auto config = parse_document(
      R"({"model_type": "qwen3_moe", "vocab_size": 4096, "hidden_size": 512, "intermediate_size": 1536,
          "moe_intermediate_size": 256, "num_experts": 16, "num_experts_per_tok": 4, "decoder_sparse_step": 1,
          "mlp_only_layers": [], "num_hidden_layers": 4, "num_attention_heads": 8,
          "num_key_value_heads": 4, "head_dim": 64, "tie_word_embeddings": false})",
      "sparse");
  return make_architecture(*config, "sparse").value();
}

Options options(std::int64_t tensor, bool fused = true) {
  Options out;
  out.parallel.tensor = tensor;
  out.parallel.sequence = tensor > 1;
  out.switches.fused_activation = out.switches.fused_rotary = fused;
  out.switches.gradient_accumulation_fusion = true;
  return out;
}

/// A stage of a model and its pass over micro-batches.
struct LayerRun {
  explicit LayerRun(const Options& o, Architecture architecture = dense()) : model(std::move(architecture)) {
    stage = Stage::make(model, "actor", {.tape = tape, .engine = engine, .process = process, .options = o})
                .value();
  }
  std::int64_t rows() const { return kTokens / stage->context().token_split(); }
  Tensor input() {
    Tensor x = tape.empty({rows(), kHidden}, DType::bf16, 0);
    x->requires_grad = true;
    return x;
  }
  /// Bytes a layer keeps: its input counts, its output is the next one's.
  double kept_a_layer() {
    const Tensor x = input();
    { const Tensor warm = stage->layers(0, x); }
    stage->context().routes.clear();  // a graph without backward
    const Bytes before = memory.live();
    const Tensor out = stage->layers(0, x);
    return static_cast<double>(memory.live() - before) / 4;
  }
  void backward_once() {
    const Tensor x = input();
    Tensor out = stage->layers(0, x);
    Tensor gradient = tape.empty(out.shape(), out.dtype(), 0);
    tape::backward(engine, out, std::move(gradient));
  }

  Architecture model;
  CountingMemory memory;
  Tape tape{memory};
  Engine engine{tape};
  ProcessBuffers process{tape};
  std::unique_ptr<Stage> stage;
};

/// Rotary angles of all positions, kept from the first forward on.
constexpr Bytes kAngles = kTokens * kHead * 4;

/// Blocks of a few bytes count 512.
constexpr double kSmall = 8 * 512;

double dense_layer(double t, double width_bytes = 6) {
  const double q = kHeads * kHead, k = kKv * kHead;
  return kTokens / t * (8 * kHidden + 4 * q + 4 * k + width_bytes * kWidth + 4 * kHeads + 8);
}

TEST(MegatronLayer, KeepsWhatTransformerEngineSaves) {
  for (const std::int64_t t : {1, 2, 4})
    EXPECT_NEAR(LayerRun(options(t)).kept_a_layer(), dense_layer(static_cast<double>(t)), kSmall) << t;
}

TEST(MegatronLayer, UnfusedActivationKeepsTheActivatedHalfToo) {
  Options o = options(2, false);
  EXPECT_NEAR(LayerRun(o).kept_a_layer(), dense_layer(2, 10), kSmall);  // and the linear half with its offset
  o.switches.linear_offset = false;
  EXPECT_NEAR(LayerRun(o).kept_a_layer(), dense_layer(2, 8), kSmall);
}

TEST(MegatronLayer, WithoutSequenceParallelismNormsAndResidualsStayWhole) {
  Options o = options(4);
  o.parallel.sequence = false;
  const double cut = dense_layer(4) - kTokens / 4.0 * (8 * kHidden + 8);
  EXPECT_NEAR(LayerRun(o).kept_a_layer(), cut + kTokens * (8 * kHidden + 8), kSmall);
}

TEST(MegatronLayer, AllToAllContextKeepsTheOutputBeforeItIsSentBack) {
  Options o = options(2);
  const double alone = LayerRun(o).kept_a_layer();
  o.parallel.context = 2;
  EXPECT_NEAR(LayerRun(o).kept_a_layer(), alone, kSmall);  // a ring keeps nothing more
  o.switches.context_all_to_all = true;
  EXPECT_NEAR(LayerRun(o).kept_a_layer(), alone + kTokens / 2.0 * 2 * kHeads * kHead, kSmall);
}

TEST(MegatronLayer, FewerKeyValueHeadsThanRanksKeepOneWholeHead) {
  const double t = 8, q = kHeads * kHead;
  EXPECT_NEAR(LayerRun(options(8)).kept_a_layer(),
              kTokens / t * (8 * kHidden + 4 * q + 6 * kWidth + 4 * kHeads + 8) + kTokens * 4 * kHead,
              kSmall);
}

TEST(MegatronLayer, BackwardPeaksInTheActivation) {
  // Output gradient and the activation's input gradient, beside everything that is kept.
  LayerRun run(options(1));
  run.backward_once();  // workspaces and placeholders exist from here on
  const Tensor x = run.input();
  Tensor out = run.stage->layers(0, x);
  const Bytes held = run.memory.live();
  run.memory.reset_peak();
  Tensor gradient = run.tape.empty(out.shape(), out.dtype(), 0);
  backward(run.engine, out, std::move(gradient));
  EXPECT_NEAR(static_cast<double>(run.memory.peak() - held), kTokens * (2 * kHidden + 4 * kWidth), kSmall);
}

TEST(MegatronLayer, BackwardLeavesOnlyPlaceholdersOfDistinctShapes) {
  LayerRun run(options(2));
  GradientBuffers buffers(*run.stage, GradientBuffers::Options{});
  const Bytes before = run.memory.live();
  run.backward_once();
  const Bytes workspaces = run.memory.components()[Component::workspaces];
  const std::int64_t q = kHeads * kHead, k = kKv * kHead;
  const Bytes shapes = (q + 2 * k) * kHidden + kHidden * q + 2 * kWidth * kHidden + kHidden * kWidth;
  EXPECT_EQ(run.memory.live() - before - workspaces - kAngles, 2 * shapes / 2);
  const Bytes after = run.memory.live();
  run.backward_once();
  EXPECT_EQ(run.memory.live(), after);
}

/// FP8's forms of a weight are the module's: a model that takes another's place finds them.
TEST(MegatronLayer, QuantisedWeightsAreTheModules) {
  CountingMemory memory(false, false);
  Tape tape(memory);
  ProcessBuffers process(tape);
  const auto made = [&] { return tape.empty({16, 16}, DType::bf16, 0); };
  const Tensor policy = made(), another = made(), reference = made(), value = made();
  const auto grown = [&](const Tensor& weight, const char* role, const char* modules) {
    const Bytes before = memory.live();
    process.quantised_weight(weight, role, modules);
    return memory.live() - before;
  };
  EXPECT_EQ(grown(policy, "actor", "actor"), 2 * 256);
  EXPECT_EQ(grown(another, "actor", "actor"), 2 * 256);
  EXPECT_EQ(grown(policy, "actor", "actor"), 0);
  EXPECT_EQ(grown(reference, "ref", "actor"), 0);
  EXPECT_EQ(grown(value, "critic", "critic"), 2 * 256);
}

TEST(MegatronLayer, GradientsWaitForTheStreamThatAddsThem) {
  // A host that runs ahead gets the memory of a weight's gradient back only when that stream has passed it.
  const auto reserved = [](Stream stream) {
    const Architecture model = dense();
    CountingMemory memory(false, true);
    Tape tape(memory);
    Engine engine(tape);
    ProcessBuffers process(tape);
    Options o = options(1);
    o.switches.gradient_accumulation_fusion = false;
    auto stage =
        Stage::make(model, "actor", {.tape = tape, .engine = engine, .process = process, .options = o})
            .value();
    GradientBuffers buffers(*stage, GradientBuffers::Options{.stream = stream});
    Tensor x = tape.empty({kTokens, kHidden}, DType::bf16, 0);
    x->requires_grad = true;
    Tensor out = stage->layers(0, x);
    Tensor gradient = tape.empty(out.shape(), out.dtype(), 0);
    tape::backward(engine, out, std::move(gradient));
    return memory.reserved_peak();
  };
  EXPECT_GT(reserved(1), reserved(0));
}

TEST(MegatronLayer, WithoutFusionWeightGradientsComeAndGo) {
  Options o = options(2);
  o.switches.gradient_accumulation_fusion = false;
  LayerRun run(o);
  GradientBuffers buffers(*run.stage, GradientBuffers::Options{});
  const Bytes before = run.memory.live();
  run.backward_once();
  EXPECT_EQ(run.memory.live() - before - kAngles, run.memory.components()[Component::workspaces]);
}

// --- Megatron's own layers

Options own(std::int64_t tensor) {
  Options out = options(tensor);
  out.switches.layers = MegatronLayers::local;
  out.switches.gradient_accumulation_fusion = false;
  out.attention = AttentionImplementation::flash;
  return out;
}

TEST(MegatronOwnLayer, KeepsTheFusedProjectionAndRotaryTables) {
  const double q = kHeads * kHead, k = kKv * kHead;
  for (const std::int64_t t : {1, 2}) {
    const double kept = 8 * kHidden + 6 * q + 6 * k + 6 * kWidth + 4 * kHeads + 8;
    EXPECT_NEAR(LayerRun(own(t)).kept_a_layer(),
                kTokens / static_cast<double>(t) * kept + kTokens * 8.0 * kHead, 2 * kSmall)
        << t;
  }
}

TEST(MegatronOwnLayer, BatchesHaveOneTableOfPositions) {
  LayerRun one(own(1)), four(own(1));
  four.stage->context().sequences = 4;
  const double tables = kTokens * 8.0 * kHead;
  EXPECT_NEAR(four.kept_a_layer() - one.kept_a_layer(), -tables * 3 / 4, 2 * kSmall);
}

TEST(MegatronOwnLayer, ItsOwnAttentionKeepsScoresOfEveryPair) {
  Options o = own(1);
  o.attention = AttentionImplementation::eager;
  LayerRun run(o);
  run.stage->context().sequences = 4;
  const double pairs = 1.0 * kTokens * kTokens / 4 * kHeads;
  EXPECT_GT(run.kept_a_layer(), 6 * pairs);  // an fp32 softmax and bf16 probabilities
  EXPECT_LT(run.kept_a_layer(), 6 * pairs + 2 * dense_layer(1));
}

TEST(MegatronOwnLayer, EveryExpertHasWeightsOfItsOwn) {
  LayerRun run(own(1), sparse());
  std::int64_t experts = 0;
  for (const Stage::Parameter& p : run.stage->parameters())
    experts += p.weight.name.find("local_experts") != std::string::npos ? 1 : 0;
  EXPECT_EQ(experts, 4 * 16 * 2);
  run.backward_once();
  const Bytes after = run.memory.live();
  run.backward_once();
  EXPECT_EQ(run.memory.live(), after);
}

TEST(MegatronOwnLayer, InEvaluationResidualsAreAddedInPlace) {
  const auto peak = [](bool training) {
    LayerRun run(own(1));
    run.stage->context().training = training;
    const GradMode no_grad(run.tape, false);
    const Tensor x = run.input();
    { const Tensor warm = run.stage->layers(0, x); }
    const Bytes allocations = run.memory.allocations();
    const Tensor out = run.stage->layers(0, x);
    return run.memory.allocations() - allocations;
  };
  EXPECT_EQ(peak(true) - peak(false), 2 * 4);  // two sums a layer
}

// --- Adapters

TEST(MegatronAdapters, KeepTheirInputsAndWhatTheyMakeOfThem) {
  Options o = options(1);
  o.lora = LoraSpec{.rank = 16};
  // Inputs of products are kept by adapters instead; each keeps its own narrow one too.
  EXPECT_NEAR(LayerRun(o).kept_a_layer(), dense_layer(1) + kTokens * 4.0 * 2 * 16, 2 * kSmall);
  o.lora->targets = {"q_proj"};
  const double q = kHeads * kHead;
  EXPECT_NEAR(LayerRun(o).kept_a_layer(), dense_layer(1) + kTokens * (2.0 * 16 - 2 * kHidden - 2 * kWidth),
              2 * kSmall)
      << q;  // a frozen product keeps nothing
}

TEST(MegatronAdapters, AreAllThatIsTrained) {
  for (const std::int64_t t : {1, 2})
    for (const bool moe : {false, true}) {
      Options o = options(t);
      o.lora = LoraSpec{.rank = 16};
      LayerRun run(o, moe ? sparse() : dense());
      std::int64_t trained = 0, adapters = 0;
      for (const Stage::Parameter& p : run.stage->parameters()) {
        trained += p.tensor->requires_grad ? p.tensor.elements() : 0;
        adapters += p.weight.name.find(".adapter.") != std::string::npos ? p.tensor.elements() : 0;
      }
      EXPECT_GT(adapters, 0);
      EXPECT_EQ(trained, adapters);
      GradientBuffers buffers(*run.stage, GradientBuffers::Options{});
      run.backward_once();
      const Bytes after = run.memory.live();
      run.backward_once();
      EXPECT_EQ(run.memory.live(), after);
    }
}

// --- FP8

TEST(MegatronLayer, HalvesProductInputsInFp8) {
  Options o = options(1);
  o.switches.fp8 = true;
  const double q = kHeads * kHead, k = kKv * kHead;
  // The attention's output is kept for its own backward, and in FP8 for the product's.
  EXPECT_NEAR(LayerRun(o).kept_a_layer(),
              kTokens * (6 * kHidden + 5 * q + 4 * k + 5 * kWidth + 4 * kHeads + 8), kSmall);
  LayerRun run(o);
  const Bytes before = run.memory.components()[Component::weights];
  run.backward_once();
  const std::int64_t weights = (q + 2 * k) * kHidden + kHidden * q + 3 * kWidth * kHidden;
  EXPECT_EQ(run.memory.components()[Component::weights] - before, 4 * 2 * weights);
}

// --- Recomputation

TEST(MegatronRecompute, UniformKeepsOneInputAUnit) {
  for (const std::int64_t every : {1, 2, 4}) {
    Options o = options(2);
    o.recompute.kind = RecomputeKind::full;
    o.recompute.every = every;
    EXPECT_NEAR(LayerRun(o).kept_a_layer(), kTokens / 2.0 * 2 * kHidden / static_cast<double>(every), kSmall);
  }
}

TEST(MegatronRecompute, BlockRecomputesTheFirstLayers) {
  Options o = options(2);
  o.recompute.kind = RecomputeKind::full;
  o.recompute.layers = 3;
  EXPECT_NEAR(LayerRun(o).kept_a_layer(), (3 * kTokens / 2.0 * 2 * kHidden + dense_layer(2)) / 4, kSmall);
}

TEST(MegatronRecompute, SelectiveDropsWhatTheModuleMade) {
  const auto kept = [](const char* module) {
    Options o = options(2);
    o.recompute.kind = RecomputeKind::selective;
    o.recompute.modules = {module};
    return LayerRun(o).kept_a_layer();
  };
  const double all = dense_layer(2), rows = kTokens / 2.0;
  EXPECT_NEAR(kept("core_attn"), all - rows * 4 * kHeads, kSmall);
  EXPECT_NEAR(kept("mlp"), all - rows * (2 * kHidden + 6 * kWidth + 4), kSmall);
  EXPECT_NEAR(kept("layernorm"), all, kSmall);  // fused into the product
}

TEST(MegatronRecompute, EveryKindGoesThroughABackward) {
  for (const char* module : {"core_attn", "mlp", "layernorm", "moe", "moe_act", "shared_experts"})
    for (const bool moe : {false, true}) {
      Options o = options(2);
      o.recompute.kind = RecomputeKind::selective;
      o.recompute.modules = {module};
      LayerRun run(o, moe ? sparse() : dense());
      run.backward_once();
      const Bytes after = run.memory.live();
      run.backward_once();
      EXPECT_EQ(run.memory.live(), after) << module;
    }
}

// --- Experts

double expert_layer(double t, double slots) {
  const double q = kHeads * kHead, k = kKv * kHead, a = kHeads + kKv, width = 256;
  const double attention = 4 * kHidden + 4 * q + 4 * k + 4 * kHeads + 4 + 2 * q + 2 * k + 4 * a;
  return kTokens / t * (attention + 4 * kHidden + 25 * 16 + 4) + slots * (2 * kHidden + 6 * width + 4);
}

TEST(MegatronExperts, KeepSortedTokensAndWhatTheExpertsMade) {
  // The rank's share of slots does not depend on expert parallelism: what it sends it receives.
  for (const std::int64_t expert : {1, 2, 8}) {
    Options o = options(1);
    o.parallel.expert = expert;
    o.parallel.expert_tensor = 1;
    EXPECT_NEAR(LayerRun(o, sparse()).kept_a_layer(), expert_layer(1, kTokens * 4), kSmall) << expert;
  }
}

TEST(MegatronExperts, ImbalanceCountsOnTheReceivingSide) {
  Options o = options(1);
  o.parallel.expert = 4;
  o.parallel.expert_tensor = 1;
  o.switches.expert_imbalance = 1.5;
  EXPECT_NEAR(LayerRun(o, sparse()).kept_a_layer(), expert_layer(1, 1.5 * kTokens * 4), kSmall);
}

TEST(MegatronExperts, ForwardHoldsFourCopiesOfTheDispatchedTokens) {
  Options o = options(1);
  o.parallel.expert = 4;
  LayerRun run(o, sparse());
  run.backward_once();
  const GradMode no_grad(run.tape, false);
  const Tensor x = run.input();
  const Bytes before = run.memory.live();
  run.memory.reset_peak();
  const Tensor out = run.stage->layers(0, x);
  const double copies = 4.0 * kTokens * 4 * 2 * kHidden;
  const double peak = static_cast<double>(run.memory.peak() - before);
  EXPECT_GE(peak, copies);
  EXPECT_LE(peak, copies + 5.0 * kTokens * 2 * kHidden);
}

TEST(MegatronExperts, RecomputedLayersLeaveTheirInputAndItsGradientWithTheRouter) {
  Options o = options(1);
  const auto left = [&o] {
    LayerRun run(o, sparse());
    GradientBuffers buffers(*run.stage, GradientBuffers::Options{});
    run.backward_once();
    const Bytes trained = run.memory.live();
    const GradMode no_grad(run.tape, false);
    { const Tensor out = run.stage->layers(0, run.input()); }
    return trained - run.memory.live();
  };
  // The stage's own input, or each layer's.
  EXPECT_NEAR(static_cast<double>(left()), 2 * 2.0 * kTokens * kHidden, 4 * 8 * 512);
  o.recompute.kind = RecomputeKind::full;
  EXPECT_NEAR(static_cast<double>(left()), 4 * 2 * 2.0 * kTokens * kHidden, 4 * 8 * 512);
}

TEST(MegatronExperts, GatheredTokensLieInTheGlobalBuffer) {
  Options o = options(1);
  o.parallel.expert = 4;
  o.parallel.expert_tensor = 1;
  o.switches.dispatcher = MegatronDispatcher::all_gather;
  LayerRun run(o, sparse());
  run.backward_once();
  EXPECT_EQ(run.memory.components()[Component::communication], 4 * kTokens * kHidden * 2);
}

TEST(MegatronExperts, FlexReceivesATokenOnceARank) {
  const auto peak = [](MegatronDispatcher dispatcher) {
    Options o = options(1);
    o.parallel.expert = 2;
    o.parallel.expert_tensor = 1;
    o.switches.dispatcher = dispatcher;
    LayerRun run(o, sparse());
    run.backward_once();
    const GradMode no_grad(run.tape, false);
    const Tensor x = run.input();
    run.memory.reset_peak();
    const Bytes before = run.memory.live();
    const Tensor out = run.stage->layers(0, x);
    return run.memory.peak() - before;
  };
  EXPECT_LT(peak(MegatronDispatcher::flex), peak(MegatronDispatcher::all_to_all));
}

TEST(MegatronExperts, ApartTheyKeepAsMuchAsGrouped) {
  Options o = options(1);
  const double grouped = LayerRun(o, sparse()).kept_a_layer();
  o.switches.grouped_experts = false;
  EXPECT_NEAR(LayerRun(o, sparse()).kept_a_layer(), grouped, 16 * 2 * 512);
  o.switches.fused_permutation = false;
  EXPECT_NEAR(LayerRun(o, sparse()).kept_a_layer(), grouped + kTokens * 8.0 * (16 + 4), 16 * 2 * 512);
}

TEST(MegatronRecompute, ModulesOfExpertsDropTheirParts) {
  const auto kept = [](const char* module) {
    Options o = options(1);
    o.parallel.expert = 4;
    o.recompute.kind = RecomputeKind::selective;
    o.recompute.modules = {module};
    return LayerRun(o, sparse()).kept_a_layer();
  };
  const double slots = kTokens * 4, all = expert_layer(1, slots);
  EXPECT_NEAR(kept("moe_act"), all - slots * 2 * 256, kSmall);
  EXPECT_NEAR(kept("layernorm"), all - kTokens * 2.0 * kHidden, kSmall);
  EXPECT_NEAR(kept("moe"), all - kTokens * 21.0 * 16 - slots * (2 * kHidden + 6 * 256 + 4), kSmall);
}

// --- Whole stages

TEST(MegatronStage, ShardsOfAllRanksSumToTheModel) {
  // Cut parts once a rank, replicated norms (and routers) once.
  for (const bool moe : {false, true})
    for (const std::int64_t t : {1, 2, 4}) {
      std::int64_t sum = 0, elements = 0;
      for (std::int64_t s = 0; s < 2; ++s) {
        Options o = options(t);
        o.parallel.pipeline = 2;
        o.parallel.expert = 4;
        o.parallel.expert_tensor = 1;
        o.stage = s;
        LayerRun run(o, moe ? sparse() : dense());
        elements = run.model.parameters();
        for (const Stage::Parameter& p : run.stage->parameters()) {
          const bool replicated =
              p.weight.shape.size() == 1 || p.weight.name.find("router") != std::string::npos;
          sum += p.tensor.elements() * (p.weight.expert ? 4 : replicated ? 1 : t);
        }
      }
      EXPECT_EQ(sum, elements) << t;
    }
}

TEST(MegatronStage, LogitsGatherIntoTheGlobalBuffer) {
  LayerRun run(options(4));
  const Tensor x = run.input();
  const Bytes before = run.memory.live();
  Tensor logits = run.stage->logits(x);
  EXPECT_EQ(logits.size(0), kTokens);
  EXPECT_EQ(logits.size(1), 4096 / 4);
  EXPECT_EQ(run.memory.components()[Component::communication], kTokens * kHidden * 2);
  EXPECT_EQ(run.memory.live() - before - run.memory.components()[Component::workspaces],
            kTokens * kHidden * 2 + logits.bytes());
}

TEST(MegatronStage, EmbeddingLeavesThisRanksTokens) {
  LayerRun run(options(2));
  Tensor ids = run.tape.empty({kTokens}, DType::int64, 0);
  const Bytes before = run.memory.live();
  Tensor hidden = run.stage->embed(ids);
  EXPECT_EQ(hidden.size(0), kTokens / 2);
  EXPECT_EQ(run.memory.live() - before, hidden.bytes() + kTokens * 8);  // and the masked ids
}

Architecture hybrid(const char* family) {
  const auto config = parse_document(
      std::string("{model_type: ") + family +
          ", vocab_size: 4096, hidden_size: 512, num_hidden_layers: 4, num_attention_heads: 8, head_dim: 64, "
          "num_key_value_heads: 4, linear_num_value_heads: 8, linear_num_key_heads: 4, linear_key_head_dim: "
          "64, "
          "linear_value_head_dim: 128, num_experts: 16, num_experts_per_tok: 4, moe_intermediate_size: 256, "
          "shared_expert_intermediate_size: 256, hybrid_override_pattern: ME*-, intermediate_size: 1536, "
          "mamba_num_heads: 16, mamba_head_dim: 64, n_groups: 4, ssm_state_size: 128, n_routed_experts: 16, "
          "moe_shared_expert_intermediate_size: 256, moe_latent_size: 128}",
      "hybrid");
  return make_architecture(*config, "hybrid").value();
}

TEST(Stage, LeavesNothingOfLayersWithAStateBehindABackward) {
  for (const char* family : {"qwen3_next", "nemotron_h"})
    for (const std::int64_t tensor : {1, 2})
      for (const std::int64_t context : {1, 2}) {
        Options o = options(tensor);
        o.parallel.context = context;
        LayerRun run(o, hybrid(family));
        run.backward_once();
        const Bytes before = run.memory.live();
        run.backward_once();
        EXPECT_EQ(run.memory.live(), before) << family << tensor << context;
      }
}

TEST(Stage, RefusesMoreContextRanksThanGroupsOfKeys) {
  Options o = options(1);
  o.parallel.context = 8;
  const Architecture model = hybrid("nemotron_h");
  LayerRun plain(options(1), model);
  const auto made = Stage::make(
      model, "actor", {.tape = plain.tape, .engine = plain.engine, .process = plain.process, .options = o});
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().key, "context");
}

}  // namespace
}  // namespace headroom::tape::megatron
