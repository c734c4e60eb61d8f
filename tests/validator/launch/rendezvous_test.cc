#include "validator/launch/rendezvous.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace headroom::launch {
namespace {

TEST(Rendezvous, RanksExchangeTexts) {
  const int port = free_port();
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
  const int port = free_port();
  std::jthread other([&] {
    static_cast<void>(
        Rendezvous::meet({.rank = 1, .ranks = 2, .local = 1, .address = "127.0.0.1", .port = port}, 20));
  });
  auto meeting =
      Rendezvous::meet({.rank = 0, .ranks = 2, .local = 0, .address = "127.0.0.1", .port = port}, 20);
  ASSERT_TRUE(meeting);
  EXPECT_FALSE(meeting->gather(""));
}

Place at(int rank, int ranks, int port) {
  return {.rank = rank, .ranks = ranks, .local = rank, .address = "127.0.0.1", .port = port};
}

// Ranks differ by minutes in what they do between two meetings.
TEST(Rendezvous, ALateRankIsWaitedFor) {
  const int port = free_port();
  std::jthread other([&] {
    auto late = Rendezvous::meet(at(1, 2, port), 20);
    ASSERT_TRUE(late);
    std::this_thread::sleep_for(std::chrono::milliseconds(1200));  // lateness is what is tested
    EXPECT_TRUE(late->gather("late"));
  });
  auto meeting = Rendezvous::meet(at(0, 2, port), 20);
  ASSERT_TRUE(meeting);
  const auto all = meeting->gather("in time");
  ASSERT_TRUE(all) << all.error().text();
  EXPECT_THAT(*all, ::testing::ElementsAre("in time", "late"));
}

TEST(Rendezvous, ADepartedRankIsNoticedWhileAnotherStillWorks) {
  const int port = free_port();
  std::jthread silent([&] {
    auto meeting = Rendezvous::meet(at(1, 3, port), 20);
    ASSERT_TRUE(meeting);
    EXPECT_FALSE(meeting->broadcast("")) << "says nothing until rank 0 is gone";
  });
  std::jthread departed([&] { static_cast<void>(Rendezvous::meet(at(2, 3, port), 20)); });
  auto meeting = Rendezvous::meet(at(0, 3, port), 20);
  ASSERT_TRUE(meeting);
  EXPECT_FALSE(meeting->gather(""));
}

TEST(Rendezvous, WhoCannotAnswerIsLeftOut) {
  const int port = free_port();
  std::jthread silent([&] {
    auto meeting = Rendezvous::meet(at(1, 2, port), 20);
    ASSERT_TRUE(meeting);
    EXPECT_FALSE(meeting->heard_within("heard", 0));
    EXPECT_FALSE(meeting->broadcast(""));
  });
  auto meeting = Rendezvous::meet(at(0, 2, port), 20);
  ASSERT_TRUE(meeting);
  const auto all = meeting->gather_within("out of memory", 0);
  ASSERT_TRUE(all);
  EXPECT_THAT(*all, ::testing::ElementsAre(std::optional<std::string>("out of memory"), std::nullopt));
}

TEST(Rendezvous, WhatWasSaidBeforeIsNoAnswer) {
  const int port = free_port();
  std::jthread other([&] {
    auto meeting = Rendezvous::meet(at(1, 2, port), 20);
    ASSERT_TRUE(meeting);
    EXPECT_TRUE(meeting->gather("out of memory"));
    EXPECT_TRUE(meeting->heard_within("heard", 20));
    EXPECT_FALSE(meeting->heard_within("heard", 20)) << "rank 0 is gone by then";
  });
  auto meeting = Rendezvous::meet(at(0, 2, port), 20);
  ASSERT_TRUE(meeting);
  EXPECT_TRUE(meeting->broadcast("an id that nobody takes"));
  EXPECT_TRUE(meeting->gather("here"));
  meeting->tell("heard");
}

TEST(Rendezvous, AnAddressThatIsNoneEndsItAtOnce) {
  Place place = at(1, 2, free_port());
  place.address = "no..address";
  const auto meeting = Rendezvous::meet(place, 600);
  ASSERT_FALSE(meeting);
  EXPECT_THAT(meeting.error().message, ::testing::HasSubstr("MASTER_ADDR"));
}

}  // namespace
}  // namespace headroom::launch
