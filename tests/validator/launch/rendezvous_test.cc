#include "validator/launch/rendezvous.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <thread>

namespace headroom::launch {
namespace {

TEST(Rendezvous, RanksExchangeTexts) {
  const int port = 20000 + ::getpid() % 20000;
  std::vector<std::string> gathered;
  const auto rank = [&](int r) {
    auto meeting =
        Rendezvous::meet({.rank = r, .ranks = 4, .local = r, .address = "127.0.0.1", .port = port}, 20);
    ASSERT_TRUE(meeting) << meeting.error().text();
    EXPECT_EQ(meeting->broadcast(r == 0 ? std::string("id\0x", 4) : ""), std::string("id\0x", 4));
    auto all = meeting->gather("rank " + std::to_string(r));
    ASSERT_TRUE(all);
    if (r == 0) gathered = *all;
    EXPECT_TRUE(meeting->barrier());
  };
  std::vector<std::jthread> threads;
  for (int r = 3; r >= 0; --r) threads.emplace_back(rank, r);
  threads.clear();
  EXPECT_THAT(gathered, ::testing::ElementsAre("rank 0", "rank 1", "rank 2", "rank 3"));
}

TEST(Rendezvous, OneRankNeedsNoConnection) {
  auto meeting = Rendezvous::meet({});
  ASSERT_TRUE(meeting);
  EXPECT_EQ(meeting->broadcast("x"), "x");
  EXPECT_THAT(meeting->gather("y").value(), ::testing::ElementsAre("y"));
}

TEST(Rendezvous, ADepartedRankIsAnError) {
  const int port = 20000 + (::getpid() + 1) % 20000;
  std::jthread other([&] {
    static_cast<void>(
        Rendezvous::meet({.rank = 1, .ranks = 2, .local = 1, .address = "127.0.0.1", .port = port}, 20));
  });
  auto meeting =
      Rendezvous::meet({.rank = 0, .ranks = 2, .local = 0, .address = "127.0.0.1", .port = port}, 20);
  ASSERT_TRUE(meeting);
  EXPECT_FALSE(meeting->gather(""));
}

}  // namespace
}  // namespace headroom::launch
