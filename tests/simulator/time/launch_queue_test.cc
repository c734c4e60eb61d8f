#include "simulator/time/launch_queue.h"

#include <gtest/gtest.h>

namespace headroom {
namespace {

TEST(LaunchQueue, ASlowHostDecides) {
  LaunchQueue queue;
  for (int i = 0; i < 10; ++i) {
    queue.host(10);
    queue.launch(0, 2, Spent::memory);
  }
  const Seconds spent = queue.take();
  EXPECT_DOUBLE_EQ(spent.total(), 102);
  EXPECT_DOUBLE_EQ(spent[Spent::memory], 20);
  EXPECT_DOUBLE_EQ(spent[Spent::host], 82);
}

TEST(LaunchQueue, ASlowDeviceRunsBehindUntilSomethingWaits) {
  LaunchQueue queue;
  for (int i = 0; i < 10; ++i) {
    queue.host(1);
    queue.launch(0, 5, Spent::matrix);
  }
  queue.host(4);  // hidden
  queue.wait(0);
  queue.host(3);  // not hidden
  const Seconds spent = queue.take();
  EXPECT_DOUBLE_EQ(spent[Spent::matrix], 50);
  EXPECT_DOUBLE_EQ(spent[Spent::host], 4);
}

TEST(LaunchQueue, StreamsRunSideBySideUnlessOneFollows) {
  LaunchQueue queue;
  queue.launch(0, 8, Spent::matrix);
  queue.launch(1, 6, Spent::network);
  EXPECT_DOUBLE_EQ(queue.take().total(), 8);
  queue.launch(1, 6, Spent::network);
  queue.follow(0, 1);
  queue.launch(0, 8, Spent::matrix);
  EXPECT_DOUBLE_EQ(queue.take().total(), 14);
}

TEST(LaunchQueue, ARepeatedStretchTakesAsLongAgain) {
  const auto layer = [](LaunchQueue& queue, double kernel) {
    for (int i = 0; i < 3; ++i) {
      queue.host(2);
      queue.launch(0, kernel, Spent::memory);
    }
  };
  for (const double kernel : {0.5, 5.0}) {
    LaunchQueue whole, repeated;
    for (int i = 0; i < 20; ++i) layer(whole, kernel);
    layer(repeated, kernel);
    const LaunchQueue::Stretch start = repeated.mark();
    layer(repeated, kernel);
    const LaunchQueue::Stretch stretch = repeated.since(start);
    for (int i = 0; i < 18; ++i) repeated.repeat(stretch);
    const double expected = whole.take().total();
    EXPECT_NEAR(repeated.take().total(), expected, expected * 0.05) << kernel;
  }
}

}  // namespace
}  // namespace headroom
