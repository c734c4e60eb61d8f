#include "simulator/tape/sharding/low_level_zero.h"

#include <gmock/gmock.h>

#include <numeric>

#include "tests/simulator/tape/sharding/live.h"
#include "tests/simulator/tape/sharding/zero_run.h"

namespace headroom::tape::test {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::Each;
using testing::ElementsAre;
using testing::Ge;
using testing::Le;

constexpr Stream kReduce = 5;
constexpr std::int64_t kRanks = 4;

Bytes elements() {
  Bytes sum = 0;
  for (const TinyParameter& p : tiny_parameters()) sum += p.elements;
  return sum;
}

class Trial {
 public:
  explicit Trial(LowLevelZeroOptions options) {
    options.ranks = kRanks;
    options.reduce_stream = kReduce;
    ModelOptions model;
    model.dtype = options.dtype;
    model_ = make_model(tape_, tiny(), "model", model).value();
    built_ = live_.now();
    optimizer_ = std::make_unique<LowLevelZero>(*model_, engine_, options);
  }

  void backward() {
    ModelInput input;
    input.ids = tape_.empty({2, 8}, DType::int64, 0);
    const Tensor loss = mean(model_->forward(input));
    input = {};
    optimizer_->backward(loss);
  }
  /// Bytes of each allocation that `work` makes on a stream.
  template <typename Work>
  std::vector<Bytes> allocations(const Work& work, Stream stream) {
    const std::size_t first = memory_.events().size();
    work();
    std::vector<Bytes> out;
    for (std::size_t i = first; i < memory_.events().size(); ++i) {
      const MemoryEvent& event = memory_.events()[i];
      if (event.kind == MemoryEvent::Kind::allocate && event.stream == stream) out.push_back(event.bytes);
    }
    return out;
  }
  Bytes live() { return live_.now() - built_; }
  Bytes peak() { return live_.peak() - built_; }
  LowLevelZero& optimizer() { return *optimizer_; }

 private:
  RecordingMemory memory_;
  Live live_{memory_};
  Tape tape_{memory_};
  Engine engine_{tape_};
  std::unique_ptr<Model> model_;
  std::unique_ptr<LowLevelZero> optimizer_;
  Bytes built_ = 0;
};

TEST(LowLevelZero, KeepsTheRanksPartOfMastersGradientsAndStates) {
  Trial run({});
  const Bytes part = elements() / kRanks;
  EXPECT_EQ(run.live(), 4 * part);
  run.backward();
  // cuBLAS's workspaces come with the first product.
  const Bytes workspaces = run.live() - 6 * part;
  run.optimizer().step(false);
  EXPECT_EQ(run.live() - workspaces, 12 * part);
  run.backward();
  EXPECT_EQ(run.live() - workspaces, 14 * part);
  run.backward();  // adds up where the first one's lie
  EXPECT_EQ(run.live() - workspaces, 14 * part);
  run.optimizer().step(false);
  EXPECT_EQ(run.live() - workspaces, 12 * part);
}

TEST(LowLevelZero, ASkippedStepMakesNoStates) {
  Trial run({});
  run.backward();
  const Bytes before = run.live();
  run.optimizer().step(true);
  EXPECT_EQ(run.live(), before - 2 * elements() / kRanks);
}

/// A bucket is reduced as soon as the next gradient would not fit it, into this rank's part, on a stream of its own.
TEST(LowLevelZero, BucketsBoundWhatIsReducedAtOnce) {
  constexpr std::int64_t kBucket = 1024;
  Trial run({.bucket = kBucket});
  run.backward();
  const std::vector<Bytes> parts = run.allocations([&] { run.backward(); }, kReduce);
  EXPECT_GT(parts.size(), 1u);
  EXPECT_THAT(parts, Each(Le(2 * kBucket / kRanks)));
  EXPECT_EQ(std::accumulate(parts.begin(), parts.end(), Bytes{0}), 2 * elements() / kRanks);
}

/// Releases up to 0.3 clone every rank's part, join the parts rank by rank, and then once more.
TEST(LowLevelZero, ClonedPartsTakeThreeTimesTheGradients) {
  Trial run({.bucket = std::int64_t{1} << 40, .clones_parts = true});
  run.backward();
  run.optimizer().step(false);
  const Bytes resting = run.live(), whole = 2 * elements();
  const std::vector<Bytes> parts = run.allocations([&] { run.backward(); }, kReduce);
  EXPECT_THAT(parts, ElementsAre(whole / kRanks, whole));  // received; NCCL's joined list
  EXPECT_GE(run.peak(), resting);
  Trial again({.bucket = std::int64_t{1} << 40, .clones_parts = true});
  again.backward();
  again.optimizer().step(false);
  again.live();
  again.backward();
  // At the end of the backward its activations are gone.
  EXPECT_GE(again.peak(), resting + 3 * whole);
  EXPECT_LE(again.peak(), resting + 4 * whole);
}

/// ... and what later micro-batches leave waits beside it.
TEST(LowLevelZero, BeforeAddingUpGradientsPileUp) {
  Trial run({.bucket = std::int64_t{1} << 40, .clones_parts = true});
  run.backward();
  const Bytes one = run.live();
  run.backward();
  run.backward();
  EXPECT_EQ(run.live(), one + 2 * 2 * elements() / kRanks);
  run.optimizer().step(true);
  EXPECT_EQ(run.live(), one - 2 * elements() / kRanks);
}

TEST(LowLevelZero, TheFirstStageKeepsWholeGradients) {
  Trial run({.stage = 1});
  run.backward();
  const Bytes with = run.live();
  run.optimizer().step(true);
  EXPECT_EQ(with - run.live(), 2 * elements());
}

TEST(LowLevelZero, OffloadLeavesNothingOnTheDevice) {
  Trial run({.offload = true});
  EXPECT_EQ(run.live(), 0);
  run.backward();
  const Bytes before = run.live();
  run.optimizer().step(false);
  EXPECT_EQ(run.live(), before - 2 * elements() / kRanks);
}

}  // namespace
}  // namespace headroom::tape::test
