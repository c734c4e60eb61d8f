#include "simulator/tape/sharding/zero.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "tests/simulator/tape/sharding/zero_run.h"

namespace headroom::tape::test {
namespace {

using Sizes = std::vector<Bytes>;

constexpr std::int64_t kRanks = 2;
constexpr std::int64_t kBucket = 100'000;

ZeroOptions options(int stage) {
  ZeroOptions out;
  out.stage = stage;
  out.ranks = kRanks;
  out.overlap_communication = true;
  out.reduce_bucket = kBucket;
  out.persistence_threshold = 100;
  out.prefetch_bucket = out.max_live_parameters = 1000;
  return out;
}

void append(Sizes& sizes, const Sizes& more) {
  sizes.insert(sizes.end(), more.begin(), more.end());
}

std::int64_t sum(const std::vector<std::int64_t>& elements) {
  return std::accumulate(elements.begin(), elements.end(), std::int64_t{0});
}

/// module.to(device): every parameter in two bytes.
Sizes moved() {
  Sizes out;
  for (const TinyParameter& p : tiny_parameters()) out.push_back(2 * p.elements);
  return out;
}

/// x.isinf(), x.isnan(), either, -1, either * -1, not either, not either * x, their sum.
const Sizes kFiniteNorm = {4, 1, 1, 1, 4, 4, 1, 4, 4};

/// Expected sizes follow runtime/zero/stage_1_and_2.py: a gradient of n elements, in fp32, isnan, abs, isinf,
/// either, in fp32 again, the largest.
Sizes overflow_check(std::int64_t n) {
  return {4 * n, n, 4 * n, n, n, 4 * n, 4};
}

// --- Stages 1 and 2

/// offload_gradient, whatever the dtype: double, norm; the overflow check of the whole gradient; fp32.
TEST(ZeroPartitioned, OffloadLooksForOverflowInBf16Too) {
  for (const int stage : {1, 2}) {
    ZeroOptions chosen = options(stage);
    chosen.dtype = DType::bf16;
    chosen.loss_scaling = false;
    chosen.offload_optimizer = true;
    ZeroRun run(chosen);
    Tensor loss = run.loss();
    const Sizes reduced = run.allocations([&] { run.engine().backward(loss, true); }, 2);
    Sizes last;  // the first parameter's gradient comes last but for the tied table: the positions' table
    const std::int64_t tokens = 48 * 16;
    append(last, {8 * tokens, 8});
    append(last, overflow_check(tokens));
    append(last, {4 * tokens});
    ASSERT_GE(reduced.size(), last.size());
    const Sizes end(reduced.end() - static_cast<std::ptrdiff_t>(last.size()), reduced.end());
    EXPECT_EQ(end, last) << "stage " << stage;
    // Nothing to scale, so no flag goes around; the two groups' norms do.
    Sizes stepped = run.allocations([&] { run.engine().step(false); });
    Sizes expected = {4, 4};
    for (const auto& group : tiny_groups()) expected.push_back(4 * sum(group) / kRanks);
    EXPECT_EQ(stepped, expected) << "stage " << stage;
  }
}

/// Since 0.18.3 an offloaded partition is copied on the device before it leaves, a moment beside the joined weights.
TEST(ZeroPartitioned, OffloadedPartitionsAreCopiedFirst) {
  for (const bool newer : {false, true}) {
    ZeroOptions chosen = options(2);
    chosen.offload_optimizer = true;
    chosen.late_buckets = newer;
    ZeroRun run(chosen);
    for (const auto& group : tiny_groups())
      EXPECT_EQ(std::count(run.built().begin(), run.built().end(), 2 * sum(group) / kRanks), newer ? 1 : 0);
  }
}

/// Without contiguous gradients nothing is copied into a bucket: one joined tensor of all gradients.
TEST(ZeroPartitioned, SeparateGradientsAreJoinedWhole) {
  ZeroOptions chosen = options(2);
  chosen.contiguous_gradients = false;
  ZeroRun run(chosen);
  Tensor loss = run.loss();
  std::int64_t all = 0;
  for (const TinyParameter& p : tiny_parameters()) all += p.elements;
  Sizes compute;
  const Sizes reduced =
      run.allocations([&] { compute = run.allocations([&] { run.engine().backward(loss, true); }); }, 2);
  EXPECT_EQ(reduced, Sizes{2 * all});
  EXPECT_EQ(std::count(compute.begin(), compute.end(), 2 * kBucket), 0);
}

TEST(ZeroPartitioned, ContiguousGradientsTakeTwoBuckets) {
  ZeroRun run(options(2));
  Tensor loss = run.loss();
  const Sizes compute = run.allocations([&] { run.engine().backward(loss, true); });
  EXPECT_EQ(Sizes(compute.begin(), compute.begin() + 2), (Sizes{2 * kBucket, 2 * kBucket}));
}

/// Since 0.18.3 (setup_buckets): the logits' gradients and those of the last layer stand before a bucket does.
TEST(ZeroPartitioned, LateBucketsComeWithTheFirstGradient) {
  const auto before_buckets = [](bool late) {
    ZeroOptions chosen = options(2);
    chosen.late_buckets = late;
    ZeroRun run(chosen);
    Tensor loss = run.loss();
    const Sizes compute = run.allocations([&] { run.engine().backward(loss, true); });
    EXPECT_EQ(std::count(compute.begin(), compute.end(), 2 * kBucket), 2) << late;
    return std::find(compute.begin(), compute.end(), 2 * kBucket) - compute.begin();
  };
  EXPECT_EQ(before_buckets(false), 0);
  EXPECT_GT(before_buckets(true), 4);
}

/// Stage 1's buckets stay to the last micro-batch of a step, late or not.
TEST(ZeroPartitioned, LateBucketsOfStage1AreMadeOnceAStep) {
  ZeroOptions chosen = options(1);
  chosen.late_buckets = true;
  ZeroRun run(chosen);
  Sizes compute;
  for (const bool last : {false, true}) {
    Tensor loss = run.loss();
    append(compute, run.allocations([&] { run.engine().backward(loss, last); }));
  }
  EXPECT_EQ(std::count(compute.begin(), compute.end(), 2 * kBucket), 2);
}

/// reduce_gradients: without overlap stage 1 fills its bucket once the backward is over, in the groups' order, so every
/// gradient has lain where autograd made it.
TEST(ZeroPartitioned, Stage1WithoutOverlapReducesAfterTheBackward) {
  ZeroOptions chosen = options(1);
  chosen.overlap_communication = false;
  chosen.ranks = 1;
  ZeroRun run(chosen);
  Tensor loss = run.loss();
  const Sizes compute = run.allocations([&] { run.engine().backward(loss, true); });
  std::int64_t all = 0;
  for (const TinyParameter& p : tiny_parameters()) all += p.elements;
  ASSERT_FALSE(compute.empty());
  EXPECT_EQ(compute.back(), 2 * all);  // this rank's gradients, after every formula of the graph
}

/// Since 0.17.1 bf16's gradients too (bf16.check_grad_overflow).
TEST(ZeroPartitioned, ChecksBf16WhereTheReleaseDoes) {
  const auto step = [](bool checks) {
    ZeroOptions chosen = options(2);
    chosen.dtype = DType::bf16;
    chosen.loss_scaling = false;
    chosen.checks_bf16 = checks;
    ZeroRun run(chosen);
    Tensor loss = run.loss();
    run.engine().backward(loss, true);
    return run.allocations([&] { run.engine().step(false); });
  };
  const Sizes plain = step(false), checked = step(true);
  ASSERT_GT(checked.size(), plain.size());
  EXPECT_EQ(Sizes(checked.end() - static_cast<std::ptrdiff_t>(plain.size()), checked.end()), plain);
}

/// Since 0.18.7 the flat weights come to exist beside the separate ones.
TEST(ZeroPartitioned, FlattensOnTheDeviceWhereTheReleaseDoes) {
  const auto peak = [](bool on_device) {
    ZeroOptions chosen = options(2);
    chosen.offload_optimizer = true;
    chosen.flattens_on_device = on_device;
    Bytes live = 0, most = 0;
    ZeroRun run(chosen);
    std::vector<Bytes> blocks;
    for (const MemoryEvent& event : run.memory().events()) {
      if (event.kind == MemoryEvent::Kind::allocate) {
        blocks.resize(std::max<std::size_t>(blocks.size(), event.id + 1));
        most = std::max(most, live += blocks[event.id] = event.bytes);
      } else if (event.kind == MemoryEvent::Kind::free) {
        live -= blocks[event.id];
      }
    }
    return most;
  };
  std::int64_t smaller = sum(tiny_groups()[1]);
  EXPECT_GT(peak(true), peak(false) + smaller);
}

// --- Stage 0 in bf16: runtime/bf16_optimizer.py

TEST(ZeroUnsharded, Bf16MastersAreSpreadAndGradientsAreWide) {
  ZeroOptions chosen = options(0);
  chosen.dtype = DType::bf16;
  chosen.loss_scaling = false;
  ZeroRun run(chosen);
  Sizes expected = {4};
  append(expected, moved());
  for (const auto& group : tiny_groups()) {
    const std::int64_t g = sum(group);
    append(expected, {2 * g, 2 * g / kRanks, 4 * g / kRanks, 4 * g});
  }
  EXPECT_EQ(run.built(), expected);
}

/// Newer releases step bf16 as fp16 is stepped: clones, flat weights, fp32 masters, states from the start.
TEST(ZeroUnsharded, Bf16IsWholeWhereTheReleaseHasIt) {
  ZeroOptions chosen = options(0);
  chosen.dtype = DType::bf16;
  chosen.loss_scaling = false;
  chosen.whole_bf16_states = true;
  ZeroRun run(chosen);
  Sizes expected = {4};
  append(expected, moved());
  for (const auto& group : tiny_groups()) {
    for (const std::int64_t n : group) expected.push_back(2 * n);
    append(expected, {2 * sum(group), 2 * sum(group), 4 * sum(group)});
  }
  for (const auto& group : tiny_groups()) expected.push_back(4 * sum(group));
  for (const auto& group : tiny_groups()) append(expected, {4 * sum(group), 4 * sum(group)});
  EXPECT_EQ(run.built(), expected);

  Tensor loss = run.loss();
  const Sizes backward = run.allocations([&] { run.engine().backward(loss, true); });
  loss.reset();
  EXPECT_EQ(backward.front(), 2);  // the logged loss, in its own dtype; nothing is scaled
  EXPECT_EQ(backward.back(), 2 * (sum(tiny_groups()[0]) + sum(tiny_groups()[1])));  // joined, in bf16
}

TEST(ZeroUnsharded, Bf16GradientsAreAddedGroupByGroupAndStayUntilTheNextBackward) {
  ZeroOptions chosen = options(0);
  chosen.dtype = DType::bf16;
  chosen.loss_scaling = false;
  ZeroRun run(chosen);
  Tensor loss = run.loss();
  const Sizes backward = run.allocations([&] { run.engine().backward(loss, true); });
  loss.reset();
  EXPECT_EQ(backward.front(), 2);  // the logged loss, in its own dtype; nothing is scaled
  Sizes tail;
  std::int64_t all = 0;
  for (const auto& group : tiny_groups())
    for (const std::int64_t n : group) {
      tail.push_back(4 * n);
      all += n;
    }
  append(tail, {4 * all, 2 * all});  // both groups joined, reduced in bf16
  ASSERT_GE(backward.size(), tail.size());
  EXPECT_EQ(Sizes(backward.end() - static_cast<std::ptrdiff_t>(tail.size()), backward.end()), tail);

  const std::size_t parameters = tiny_parameters().size();
  Sizes step(parameters, 4);                                          // numbers to sum up in
  for (std::size_t i = 0; i < parameters; ++i) append(step, {4, 4});  // norm, its square
  append(step, {4, 4, 1, 1, 1});                                      // root; infinite? NaN? either
  append(step, {1, 4, 4, 4, 1});                                      // above 0; what clips
  for (const auto& group : tiny_groups())
    append(step, {4 * sum(group) / kRanks, 4 * sum(group) / kRanks});  // Adam's states
  EXPECT_EQ(run.allocations([&] { run.engine().step(false); }), step);
}

// --- Stage 3: runtime/zero/stage3.py, partition_parameters.py

ZeroOptions offloaded() {
  ZeroOptions out = options(3);
  out.offload_optimizer = out.offload_parameters = true;
  return out;
}

TEST(Zero3, OffloadBuildsWithPersistentPartsAndOneBucketOnTheDevice) {
  ZeroRun run(offloaded());
  Sizes expected = moved();
  for (const TinyParameter& p : tiny_parameters())
    if (p.elements <= 100) expected.push_back(2 * p.elements / kRanks);  // others' parts lie on the host
  append(expected, {4, 4, 4, 4, 4, 4, 2 * kBucket});                     // three barriers
  for (const auto& group : tiny_groups())
    for (const std::int64_t n : group) append(expected, {2 * n, 2 * n});  // gathered, copied out
  EXPECT_EQ(run.built(), expected);
}

/// What was widened of a sub-group (since 0.18.3) goes when the next one's is there; an older release's copy at once.
TEST(Zero3, WidenedPartsWaitForTheNext) {
  ZeroOptions chosen = options(3);
  chosen.ranks = 1;
  chosen.late_buckets = true;
  chosen.sub_group = 1;  // each parameter is one
  ZeroRun run(chosen);
  // The first table in fp32, which is copied into its master; then the second.
  const std::vector<MemoryEvent>& events = run.memory().events();
  const auto made = [&](std::int64_t elements, auto from) {
    return std::find_if(from, events.end(), [&](const MemoryEvent& event) {
      return event.kind == MemoryEvent::Kind::allocate && event.bytes == 4 * elements;
    });
  };
  const auto first = made(48 * 16, events.begin()), second = made(32 * 16, first);
  ASSERT_NE(second, events.end());
  const auto freed = std::find_if(first, events.end(), [&](const MemoryEvent& event) {
    return event.kind == MemoryEvent::Kind::free && event.id == first->id;
  });
  EXPECT_GT(freed, second);
}

/// zero.Init: a parameter is spread as soon as it was made, the tied head like any other; then each module's are gathered
/// to be filled. Nothing is trained before initialize().
TEST(Zero3, SpreadsAModelAsItIsBuilt) {
  ZeroOptions chosen = options(3);
  chosen.ranks = 1;
  chosen.sharded_as_built = chosen.gathers_in_place = true;
  ZeroRun run(chosen);
  Sizes expected;
  for (const TinyParameter& p : tiny_parameters()) append(expected, {2 * p.elements, 2 * p.elements});
  append(expected, {2 * 48 * 16, 2 * 48 * 16});                // the head
  append(expected, {2 * 48 * 16, 2 * 32 * 16});                // the tables alone; pairs are whole on one rank
  EXPECT_EQ(run.built(), expected);
  const Sizes initialized = run.allocations([&] { run.engine().initialize(); });
  EXPECT_EQ(std::count(initialized.begin(), initialized.end(), 2 * kBucket), 1);
  Sizes hooked;  // each gathered once, for its gradient's accumulator
  for (const auto& group : tiny_groups())
    for (const std::int64_t n : group) hooked.push_back(2 * n);
  ASSERT_GE(initialized.size(), hooked.size());
  EXPECT_EQ(Sizes(initialized.end() - static_cast<std::ptrdiff_t>(hooked.size()), initialized.end()), hooked);
}

TEST(Zero3, OffloadedPartsFollowWhatTheyAreGatheredInto) {
  ZeroRun run(offloaded());
  const Sizes gathered = run.allocations([&] { const Tensor loss = run.loss(); }, 1);
  const std::int64_t table = 48 * 16, places = 32 * 16, weight = 16 * 16, bias = 16;
  Sizes expected = {2 * table, table, 2 * places, places};  // alone: it becomes the parameter
  const auto several = [&](std::int64_t a, std::int64_t b) {
    append(expected, {2 * (a + b), a, b, 2 * a, 2 * b});
  };
  several(bias, bias);                                // the attention's norm
  for (int i = 0; i < 3; ++i) several(weight, bias);  // queries, keys, values
  several(weight, bias);                              // output
  several(bias, bias);                                // the second norm
  several(32 * 16, 32);                               // fc1
  several(32 * 16, 16);                               // fc2
  several(bias, bias);                                // final norm
  append(expected, {2 * table, table});               // the tied head
  EXPECT_EQ(gathered, expected);
}

TEST(Zero3, OffloadedGradientsComeBackForTheirNormsAndWide) {
  ZeroRun run(offloaded());
  Tensor loss = run.loss();
  const Sizes reduced = run.allocations([&] { run.engine().backward(loss, true); }, 2);
  std::int64_t all = 0;
  for (const TinyParameter& p : tiny_parameters()) all += p.elements;
  Sizes expected = {2 * all};  // joined, interleaved by rank
  for (const TinyParameter& p : tiny_parameters()) {
    const std::int64_t part = p.elements / kRanks;
    append(expected, {2 * part, 8 * part, 8, 8, 8, 4 * part});
  }
  ASSERT_EQ(reduced.size(), expected.size());
  // Gradients come in the order of parameters, whatever the order of their making.
  EXPECT_EQ(reduced, expected);
}

TEST(Zero3, OffloadedStepSumsNormsAndGathersPersistentParametersTogether) {
  ZeroRun run(offloaded());
  {
    Tensor loss = run.loss();
    run.engine().backward(loss, true);
  }
  Sizes flags;
  const Sizes step = run.allocations([&] { flags = run.allocations([&] { run.engine().step(false); }, 2); });
  EXPECT_EQ(flags, (Sizes{1, 1}));
  Sizes expected;
  for (const auto& group : tiny_groups()) {
    append(expected, {8, 8});  // the first square, the total
    for (std::size_t i = 1; i < group.size(); ++i) expected.push_back(8);
    append(expected, {4, 4});  // over all ranks, its root
    append(expected, kFiniteNorm);
  }
  for (const TinyParameter& p : tiny_parameters())
    if (p.elements <= 100) expected.push_back(2 * p.elements / kRanks);
  for (const TinyParameter& p : tiny_parameters())
    if (p.elements <= 100) expected.push_back(2 * p.elements);
  EXPECT_EQ(step, expected);
}

TEST(Zero3, SkippedOffloadedStepGathersNothing) {
  ZeroRun run(offloaded());
  {
    Tensor loss = run.loss();
    run.engine().backward(loss, true);
  }
  EXPECT_EQ(run.allocations([&] { run.engine().step(true); }), Sizes{});
}

/// Ranks whose part is short get padding of their own before the gradients are joined.
TEST(Zero3, GradientsThatRanksDoNotDivideArePadded) {
  ZeroOptions chosen = options(3);
  chosen.ranks = 3;
  ZeroRun run(chosen);
  Tensor loss = run.loss();
  const Sizes reduced = run.allocations([&] { run.engine().backward(loss, true); }, 2);
  Sizes expected;
  std::int64_t parts = 0;
  for (const TinyParameter& p : tiny_parameters()) {
    const std::int64_t part = (p.elements + 2) / 3;
    parts += part;
    if (3 * part > p.elements) expected.push_back(2 * (3 * part - p.elements));
  }
  expected.push_back(2 * 3 * parts);
  EXPECT_EQ(reduced, expected);
}

/// What lies on the device for gathered parameters and was not given back.
Bytes gathered(const RecordingMemory& memory) {
  std::vector<Bytes> live;
  for (const MemoryEvent& event : memory.events()) {
    if (event.kind == MemoryEvent::Kind::allocate) {
      live.resize(std::max<std::size_t>(live.size(), event.id + 1));
      live[event.id] = event.label.component == Component::gathered_parameters ? event.bytes : 0;
    } else if (event.kind == MemoryEvent::Kind::free) {
      live[event.id] = 0;
    }
  }
  return std::accumulate(live.begin(), live.end(), Bytes{0});
}

/// Tables need no gradient of their input, so nothing releases them. Modules that a checkpoint runs again
/// count one input's gradient more than ever comes: what their backward gathered stays until the step.
TEST(Zero3, CheckpointedLayersStayGatheredAfterBackward) {
  const Bytes tables = 2 * (48 * 16 + 32 * 16);
  Bytes layer = 0;
  for (std::size_t i = 4; i < tiny_parameters().size(); ++i) layer += 2 * tiny_parameters()[i].elements;
  for (const bool checkpoints : {false, true}) {
    ZeroRun run(options(3), checkpoints);
    {
      Tensor loss = run.loss();
      run.engine().backward(loss, true);
    }
    EXPECT_EQ(gathered(run.memory()), tables + (checkpoints ? layer : 0));
    run.engine().step(true);
    EXPECT_EQ(gathered(run.memory()), 0);
  }
}

/// backward(loss.float()) has returned when what waits in the bucket is reduced: of the loss only the mean
/// that the engine logs is there.
TEST(Zero, WideLossIsGoneWhenTheLastGradientsAreReduced) {
  for (const int stage : {1, 2, 3}) {
    ZeroRun run(options(stage));
    Tensor loss = run.loss();
    const std::size_t first = run.memory().events().size();
    run.engine().backward(loss, true);
    std::set<std::uint32_t> numbers;
    for (std::size_t i = first; i < run.memory().events().size(); ++i) {
      const MemoryEvent& event = run.memory().events()[i];
      if (event.kind == MemoryEvent::Kind::allocate && event.stream == 2) break;
      if (event.kind == MemoryEvent::Kind::allocate && event.bytes == 4) numbers.insert(event.id);
      if (event.kind == MemoryEvent::Kind::free) numbers.erase(event.id);
    }
    EXPECT_EQ(numbers.size(), 1u) << stage;
  }
}

// --- Sleep

/// offload_states() takes no memory of the device; reload_states() makes what went anew, fp32 weights first, at
/// stage 3 the partition of gradients and the bucket before the moments.
TEST(Zero, StatesSleepOnTheHostAndComeBack) {
  for (const int stage : {1, 2, 3}) {
    ZeroRun run(options(stage));
    run.engine().create_states();
    Sizes expected;
    std::int64_t all = 0;
    for (const auto& group : tiny_groups()) {
      all += sum(group) / kRanks;
      const Bytes part = 4 * sum(group) / kRanks;
      append(expected, stage == 3 ? Sizes{part} : Sizes{part, part, part});
    }
    if (stage == 3) {
      append(expected, {2 * all, 2 * kBucket});
      for (const auto& group : tiny_groups()) append(expected, {4 * sum(group) / kRanks, 4 * sum(group) / kRanks});
    }
    for (int time = 0; time < 2; ++time) {
      EXPECT_EQ(run.allocations([&] { run.engine().move_states(false); }), Sizes{}) << stage;
      EXPECT_EQ(run.allocations([&] { run.engine().move_states(true); }), expected) << stage;
    }
    // It goes on as before.
    Tensor loss = run.loss();
    run.engine().backward(loss, true);
    run.engine().step(false);
  }
}

TEST(Zero, AnOptimizerOnTheHostDoesNotSleep) {
  for (const int stage : {2, 3}) {
    ZeroOptions chosen = options(stage);
    chosen.offload_optimizer = true;
    ZeroRun run(chosen);
    run.engine().create_states();
    EXPECT_EQ(run.allocations([&] { run.engine().move_states(false); }), Sizes{}) << stage;
    EXPECT_EQ(run.allocations([&] { run.engine().move_states(true); }), Sizes{}) << stage;
  }
}

// --- Communicators

TEST(Zero, StageThreeMakesASecondCommunicator) {
  for (const int stage : {0, 1, 2, 3}) {
    ZeroOptions chosen = options(stage);
    int calls = 0;
    chosen.communicator_made = [&] { ++calls; };
    const ZeroRun run(chosen);
    EXPECT_EQ(calls, stage == 3 ? 2 : 1) << stage;
  }
}

}  // namespace
}  // namespace headroom::tape::test
