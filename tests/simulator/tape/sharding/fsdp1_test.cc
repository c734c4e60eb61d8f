#include "simulator/tape/sharding/fsdp1.h"

#include <gtest/gtest.h>

#include "models/architecture/read.h"
#include "models/document/document.h"
#include "simulator/allocator/virtual_device.h"
#include "simulator/memory/counting_memory.h"
#include "simulator/memory/forwarding_memory.h"
#include "simulator/memory/simulated_memory.h"
#include "simulator/tape/modules/lora.h"
#include "simulator/tape/operations/linear.h"
#include "simulator/tape/operations/reduce.h"

namespace headroom::tape {
namespace {

Architecture tiny() {
  const auto config = parse_document(
      R"({"model_type": "llama", "vocab_size": 1000, "hidden_size": 256, "intermediate_size": 512,
          "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64,
          "tie_word_embeddings": false})",
      "tiny");
  return make_architecture(*config, "tiny").value();
}

const double kElements = static_cast<double>(tiny().parameters());

struct Sharded {
  explicit Sharded(ShardingOptions sharding, bool trainable = true) {
    ModelOptions options;
    options.dtype = DType::fp32;
    options.trainable = trainable;
    options.training = trainable;
    model = make_model(tape, tiny(), "actor", options).value();
    fsdp = std::make_unique<Fsdp1>(*model, engine, sharding);
  }
  Tensor forward() {
    ModelInput input;
    input.ids = tape.empty({1, 64}, DType::int64, 0);
    return model->forward(input);
  }
  void micro_batch() {
    Tensor loss = mean(forward());
    backward(engine, loss);
  }
  Bytes held(Component component) const { return memory.components()[component]; }

  CountingMemory memory;
  Tape tape{memory};
  Engine engine{tape};
  std::unique_ptr<Model> model;
  std::unique_ptr<Fsdp1> fsdp;
};

/// Elements outside decoder layers: two tables and the final norm.
constexpr std::int64_t kRootElements = 2 * 1000 * 256 + 256;

TEST(Fsdp1, FlatShardsCoverTheModelOncePlusPadding) {
  for (const std::int64_t ranks : {1, 2, 3, 8}) {
    Sharded run({.ranks = ranks});
    std::int64_t elements = 0;
    for (const Tensor& shard : run.fsdp->shards()) elements += shard.elements();
    EXPECT_GE(elements * ranks, tiny().parameters());
    EXPECT_LT(elements * ranks, tiny().parameters() + 5 * ranks);
  }
}

TEST(Fsdp1, LeavesShardsAndTheirGradientsBehind) {
  Sharded run({.ranks = 2});
  const Bytes shards = run.held(Component::weights);
  run.micro_batch();
  EXPECT_EQ(run.held(Component::gathered_parameters), 0);
  EXPECT_EQ(run.held(Component::communication), 0);
  EXPECT_EQ(run.held(Component::activations), 0);
  EXPECT_EQ(run.held(Component::weights), shards);
  EXPECT_NEAR(static_cast<double>(run.held(Component::gradients)), 2.0 * kElements, 5 * 512);
  const Bytes after_first = run.memory.live();
  run.micro_batch();
  EXPECT_EQ(run.memory.live(), after_first);
}

TEST(Fsdp1, DeferredGradientsStayWholeInTheComputeDtype) {
  Sharded run({.ranks = 4});
  run.fsdp->set_gradient_sync(false);
  run.micro_batch();
  EXPECT_NEAR(static_cast<double>(run.held(Component::gradients)), 2.0 * kElements, 5 * 512);
  run.fsdp->set_gradient_sync(true);
  run.micro_batch();
  EXPECT_NEAR(static_cast<double>(run.held(Component::gradients)), 1.0 * kElements, 5 * 512);
}

TEST(Fsdp1, RootStaysGatheredOnlyWhenTold) {
  for (const bool stays : {false, true}) {
    Sharded run({.ranks = 2, .root_stays_gathered = stays}, false);
    {
      const GradMode no_grad(run.tape, false);
      const Tensor logits = run.forward();
      EXPECT_NEAR(static_cast<double>(run.held(Component::gathered_parameters)),
                  2.0 * static_cast<double>(kRootElements), 512);
    }
    run.fsdp->end_pass();
    EXPECT_NEAR(static_cast<double>(run.held(Component::gathered_parameters)),
                stays ? 2.0 * static_cast<double>(kRootElements) : 0.0, 512);
  }
}

TEST(Fsdp1, TheRootsReductionHoldsTheGradientInBothDtypes) {
  Sharded run({.ranks = 2});
  run.micro_batch();
  // At the end of the backward: flat gradient 2p, its fp32 copy 4p, this rank's part 2p, on top of all
  // shards' gradients of the layers.
  const Bytes layers = 4 * (tiny().parameters() - kRootElements) / 2;
  EXPECT_GE(run.memory.peak(), run.held(Component::weights) + layers + kRootElements * (2 + 4 + 2));
}

/// Reserved after a forward of `layers` layers of 20 MiB and more, on a device that is idle or behind the host.
Bytes reserved_by_forward(int layers, bool host_runs_ahead) {
  const auto config = parse_document(
      R"({"model_type": "llama", "vocab_size": 1000, "hidden_size": 1024, "intermediate_size": 2816,
          "num_attention_heads": 8, "num_key_value_heads": 8, "tie_word_embeddings": false, "num_hidden_layers": )" +
          std::to_string(layers) + "}",
      "small");
  allocator::VirtualDevice device(16 * kGiB);
  if (host_runs_ahead) device.run_ahead();
  SimulatedMemory memory({}, device);
  Tape tape(memory);
  Engine engine(tape);
  ModelOptions options;
  options.dtype = DType::fp32;
  auto model = make_model(tape, make_architecture(*config, "small").value(), "actor", options).value();
  Fsdp1 fsdp(*model, engine, {.ranks = 1024});
  const GradMode no_grad(tape, false);
  memory.empty_cache();
  const Bytes before = memory.allocator().reserved();
  ModelInput input;
  input.ids = tape.empty({1, 64}, DType::int64, 0);
  const Tensor output = model->forward(input);
  return memory.allocator().reserved() - before;
}

TEST(Fsdp1, AHostThatRunsAheadHoldsOneMoreGatheredUnitAndNoMore) {
  constexpr std::int64_t kLayer = 4 * 1024 * 1024 + 3 * 1024 * 2816 + 2 * 1024;
  const Bytes idle = reserved_by_forward(4, false);
  const Bytes ahead = reserved_by_forward(4, true);
  EXPECT_EQ(ahead - idle, round_up(kLayer * 2, 2 * kMiB));
  EXPECT_LE(reserved_by_forward(9, true), ahead + 2 * kMiB);  // more layers, one more small segment
}

/// NO_SHARD with the parameters on the host: modules look at what lies on the device until the copy that they use
/// next stands, which comes by way of a wide one.
TEST(Fsdp1, OneRanksFirstUseHoldsTheOldParametersToo) {
  Sharded run({.ranks = 1, .cpu_offload = true});
  const GradMode no_grad(run.tape, false);
  const Tensor table = run.tape.empty({8, 8}, DType::bf16, 0);
  linear(run.tape.empty({8, 8}, DType::bf16, 0), table, {}).reset();  // the library's workspace stays
  const Bytes before = run.memory.live();
  run.memory.reset_peak();
  run.forward().reset();
  EXPECT_GE(run.memory.peak() - before, kRootElements * (4 + 2));
  EXPECT_LT(run.memory.peak() - before, kRootElements * (4 + 2) + 64 * kKiB);
}

/// Counts gathers, and small ones among them.
class Gathers final : public ForwardingMemory {
 public:
  using ForwardingMemory::ForwardingMemory;
  bool wants_operations() const override { return true; }
  void run(const Operation& operation) override {
    if (operation.kind != OperationKind::all_gather) return;
    ++count;
    if (operation.bytes < 64 * kKiB) ++small;
  }
  Block allocate(Bytes requested, Stream stream, Label label) override {
    ++allocations;
    return ForwardingMemory::allocate(requested, stream, label);
  }
  int count = 0, small = 0, allocations = 0;
};

/// A model with adapters on every linear of its 4 layers (7 each), wrapped leaf by leaf.
struct Adapted {
  explicit Adapted(Recompute recompute = {}) {
    ModelOptions options;
    options.recompute = recompute;
    model = make_model(tape, tiny(), "actor", options).value();
    add_lora(*model, {.rank = 8, .targets = {"all-linear"}});
    fsdp = std::make_unique<Fsdp1>(*model, engine, ShardingOptions{.ranks = 2, .leaves_wrapped = true});
  }
  Tensor forward() {
    ModelInput input;
    input.ids = tape.empty({1, 64}, DType::int64, 0);
    return model->forward(input);
  }

  CountingMemory counting;
  Gathers memory{counting};
  Tape tape{memory};
  Engine engine{tape};
  std::unique_ptr<Model> model;
  std::unique_ptr<Fsdp1> fsdp;
};

constexpr int kLeaves = 4 * 7 * 2, kUnits = 4 + 1;

TEST(Fsdp1, AdaptersAreUnitsThatAreGatheredAroundTheirModule) {
  Adapted run;
  const GradMode no_grad(run.tape, false);
  run.forward().reset();
  EXPECT_EQ(run.memory.small, kLeaves);
  EXPECT_EQ(run.memory.count, kLeaves + kUnits);
}

TEST(Fsdp1, AdaptersThatAreOffAreNotGathered) {
  Adapted run;
  run.model->options().adapters = false;
  const GradMode no_grad(run.tape, false);
  run.forward().reset();
  EXPECT_EQ(run.memory.count, kUnits);
}

TEST(Fsdp1, AdaptersAreGatheredAgainWhereACheckpointRecomputes) {
  Recompute full;
  full.kind = RecomputeKind::full;
  Adapted plain, recomputed(full);
  for (Adapted* run : {&plain, &recomputed}) {
    Tensor loss = mean(run->forward());
    backward(run->engine, loss);
    EXPECT_EQ(run->counting.components()[Component::gathered_parameters], 0);
    EXPECT_EQ(run->counting.components()[Component::communication], 0);
  }
  EXPECT_EQ(plain.memory.small, 2 * kLeaves);
  // All but those of the layer's last module, whose backward has begun by then.
  EXPECT_GE(recomputed.memory.small, 3 * kLeaves - 2 * 4);
  EXPECT_LE(recomputed.memory.small, 3 * kLeaves);
}

/// PEFT casts what an adapter is given to the dtype of the weight that it sees, which is the stored one until the
/// adapter was gathered once, and again when adapters were taken out.
TEST(Fsdp1, AdaptersThatWereNotGatheredYetWidenWhatTheyAreGiven) {
  Adapted run;
  const GradMode no_grad(run.tape, false);
  const auto allocations_of_a_pass = [&] {
    run.memory.allocations = 0;
    run.forward().reset();
    return run.memory.allocations;
  };
  allocations_of_a_pass();  // the first one makes more than the others
  const int gathered = allocations_of_a_pass();
  run.fsdp->summon_adapters(false);
  EXPECT_EQ(allocations_of_a_pass() - gathered, 2 * 4 * 7) << "a wide copy and a narrow one of it, at every adapter";
  EXPECT_EQ(allocations_of_a_pass(), gathered);
}

}  // namespace
}  // namespace headroom::tape
