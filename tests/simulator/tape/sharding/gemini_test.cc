#include "simulator/tape/sharding/gemini.h"

#include <gmock/gmock.h>

#include "tests/simulator/tape/sharding/live.h"
#include "tests/simulator/tape/sharding/zero_run.h"

namespace headroom::tape::test {
namespace {

constexpr std::int64_t kRanks = 4;
constexpr Stream kReduce = 5;

ChunkSearch small_chunks() {
  return {.ranks = kRanks, .smallest = 768, .range = 256, .interval = 64};
}

/// The chunks of the tiny model, as sums.
struct Sums {
  std::int64_t all = 0, largest = 0, pieces = 0;
  std::size_t count = 0;
};

Sums sums() {
  std::vector<std::int64_t> sizes;
  for (const TinyParameter& p : tiny_parameters()) sizes.push_back(p.elements);
  Sums out;
  for (const ChunkPlan& chunk : plan_chunks(sizes, small_chunks())) {
    out.all += chunk.elements;
    out.largest = std::max(out.largest, chunk.elements);
    out.pieces += std::min(chunk.used, chunk.elements / kRanks);  // of the first rank
    ++out.count;
  }
  return out;
}

class Trial {
 public:
  explicit Trial(GeminiOptions options, bool trained = true) {
    options.search = small_chunks();
    options.reduce_stream = kReduce;
    ModelOptions model;
    model.dtype = options.dtype;
    model.trainable = model.training = trained;
    model_ = make_model(tape_, tiny(), "model", model).value();
    gemini_ = std::make_unique<Gemini>(*model_, engine_, options);
  }

  void forward() {
    const GradMode no_grad(tape_, false);
    ModelInput input;
    input.ids = tape_.empty({2, 8}, DType::int64, 0);
    const Tensor logits = model_->forward(input);
  }
  void backward() {
    ModelInput input;
    input.ids = tape_.empty({2, 8}, DType::int64, 0);
    const Tensor loss = mean(model_->forward(input));
    input = {};
    gemini_->backward(loss);
  }
  Bytes live() { return live_.now(); }
  Bytes peak() { return live_.peak(); }
  Gemini& gemini() { return *gemini_; }

 private:
  RecordingMemory memory_;
  Live live_{memory_};
  Tape tape_{memory_};
  Engine engine_{tape_};
  std::unique_ptr<Model> model_;
  std::unique_ptr<Gemini> gemini_;
};

TEST(Gemini, HoldsPartsOfWeightsAndOfTheirFp32Copies) {
  const Sums chunks = sums();
  ASSERT_GT(chunks.count, 3u);
  for (const bool trained : {true, false}) {
    Trial run({}, trained);
    EXPECT_EQ(run.live(), 6 * chunks.all / kRanks) << trained;
  }
}

/// Idle chunks stay whole to the end of a pass, or go as soon as another one is needed.
TEST(Gemini, APassGathersEveryChunkOrAFewAtATime) {
  const Sums chunks = sums();
  Bytes extra[2] = {};
  for (const bool resident : {true, false}) {
    Trial run({.placement = resident ? GeminiPlacement::resident : GeminiPlacement::fixed}, false);
    run.forward();
    const Bytes resting = run.live();
    run.forward();
    extra[resident] = run.peak() - resting;
    EXPECT_EQ(run.live(), resting);
  }
  // Gathered chunks' parts are gone.
  const Bytes all = 2 * (chunks.all - chunks.all / kRanks);
  EXPECT_GE(extra[true], all);
  EXPECT_LT(extra[false], extra[true]);
  EXPECT_GE(extra[true] - extra[false], all - 2 * 2 * 2 * chunks.largest);
}

TEST(Gemini, GradientsTakeTheWeightsChunksUntilTheStep) {
  const Sums chunks = sums();
  Trial run({.placement = GeminiPlacement::resident, .joins_lists = true});
  run.backward();
  const Bytes workspaces = run.live() - 6 * chunks.all / kRanks;
  EXPECT_GE(workspaces, 0);
  run.gemini().step(false);
  EXPECT_EQ(run.live() - workspaces, 6 * chunks.all / kRanks + 8 * chunks.pieces);
  run.backward();
  EXPECT_EQ(run.live() - workspaces, 6 * chunks.all / kRanks + 8 * chunks.pieces);
}

TEST(Gemini, GradientsAddUpInChunksOfTheirOwnForGood) {
  const Sums chunks = sums();
  Trial run({.gradient_chunks = true});
  run.forward();
  const Bytes resting = run.live();
  run.backward();
  // The backward's thread has workspaces of its own.
  const Bytes once = run.live();
  EXPECT_GE(once, resting + 2 * chunks.all / kRanks);
  run.backward();
  EXPECT_EQ(run.live(), once);
  run.gemini().step(false);
  EXPECT_EQ(run.live(), once + 8 * chunks.pieces);
  run.backward();
  run.gemini().step(false);
  EXPECT_EQ(run.live(), once + 8 * chunks.pieces);
}

TEST(Gemini, ASkippedStepMakesNoStates) {
  Trial run({});
  run.backward();
  const Bytes before = run.live();
  run.gemini().step(true);
  EXPECT_EQ(run.live(), before);
}

TEST(Gemini, TheHostTakesIdleChunksAndTheOptimizer) {
  Trial run({.placement = GeminiPlacement::host});
  EXPECT_EQ(run.live(), 0);
  run.backward();
  const Bytes workspaces = run.live();
  run.gemini().step(false);
  run.backward();
  EXPECT_EQ(run.live(), workspaces);
}

}  // namespace
}  // namespace headroom::tape::test
