#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <sstream>

#include "validator/launch/child.h"
#include "validator/launch/ranks.h"

// How ranks end: copies of this program that do what a variable says of their rank.
namespace headroom::launch {
namespace {

/// Of each rank: an exit code; `wait`: in a collective for ever; `stubborn`: so too, and deaf to SIGTERM.
constexpr const char *kDeeds = "HEADROOM_TEST_DEEDS", *kLaunches = "HEADROOM_TEST_LAUNCHES";
constexpr int kUp = 9;  ///< the file in which waiting ranks say that they are there

[[noreturn]] void wait_for_ever(bool stubborn) {
  if (stubborn) ::signal(SIGTERM, SIG_IGN);
  ::alarm(60);  // not longer than this test if it fails
  static_cast<void>(!::write(kUp, "x", 1));
  for (;;) ::pause();
}

/// A copy's whole life, before the tests would begin.
bool serve() {
  const char* deeds = std::getenv(kDeeds);
  if (deeds == nullptr) return false;
  const auto place = find_place(process_environment);
  if (place && *place) {
    std::istringstream words(deeds);
    std::string word;
    for (int i = 0; i <= (*place)->rank; ++i) words >> word;
    if (word == "wait" || word == "stubborn") wait_for_ever(word == "stubborn");
    std::_Exit(std::atoi(word.c_str()));
  }
  if (std::getenv(kLaunches) != nullptr) std::_Exit(spawn_ranks(2, {"spawn"}).value_or(99));
  return false;
}
const bool kServed = serve();

int end_of(const char* deeds, Grace grace) {
  EXPECT_FALSE(kServed);
  ::setenv(kDeeds, deeds, 1);
  const int code = spawn_ranks(4, {"spawn"}, grace).value_or(-1);
  ::unsetenv(kDeeds);
  return code;
}

TEST(SpawnRanks, OneWithoutRoomEndsTheOthersThatWaitForIt) {
  EXPECT_EQ(end_of("wait 3 wait wait", {.after_stop = 0, .after_term = 30}), 3);
}

TEST(SpawnRanks, OneThatHearsNothingIsKilled) {
  EXPECT_EQ(end_of("stubborn 1 wait wait", {.after_stop = 30, .after_term = 0}), 1);
}

TEST(SpawnRanks, AnErrorCountsMoreThanAVerdictWhicheverComesFirst) {
  EXPECT_EQ(end_of("3 4 0 3", {}), 3);
  EXPECT_EQ(end_of("4 0 4 0", {}), 4);
  EXPECT_EQ(end_of("0 0 0 4", {}), 4);
  EXPECT_EQ(end_of("1 wait wait wait", {}), 1);
}

/// A launcher of two waiting ranks in a process of its own, and the pipe whose other end they hold.
class Launched : public ::testing::Test {
 protected:
  void SetUp() override {
    int pipe[2];
    ASSERT_EQ(::pipe2(pipe, O_CLOEXEC), 0);
    up_ = pipe[0];
    ASSERT_EQ(::dup2(pipe[1], kUp), kUp);
    ::close(pipe[1]);
    auto environment = environment_without({});
    environment.push_back(std::string(kDeeds) + "=wait wait");
    environment.push_back(std::string(kLaunches) + "=yes");
    const auto launcher = start({.arguments = {"spawn"}, .environment = environment});
    ::close(kUp);
    ASSERT_TRUE(launcher);
    launcher_ = *launcher;
    char byte = 0;
    for (int rank = 0; rank < 2; ++rank) ASSERT_EQ(::read(up_, &byte, 1), 1);
  }
  void TearDown() override { ::close(up_); }

  /// Ends the launcher; what it returned, or the negative signal.
  int end_with(int signal) {
    ::kill(launcher_, signal);
    int status = 0;
    ::waitpid(launcher_, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  /// The pipe ends when the last rank does.
  bool ranks_end() {
    pollfd end{.fd = up_, .events = POLLIN, .revents = 0};
    char byte = 0;
    return ::poll(&end, 1, 20'000) == 1 && ::read(up_, &byte, 1) == 0;
  }

  pid_t launcher_ = 0;
  int up_ = -1;
};

TEST_F(Launched, AKilledLauncherLeavesNoRankBehind) {
  EXPECT_EQ(end_with(SIGKILL), -SIGKILL);
  EXPECT_TRUE(ranks_end());
}

TEST_F(Launched, AnEndedLauncherEndsItsRanksFirst) {
  EXPECT_EQ(end_with(SIGTERM), 128 + SIGTERM);
  EXPECT_TRUE(ranks_end());
}

TEST_F(Launched, AnInterruptedLauncherToo) {
  EXPECT_EQ(end_with(SIGINT), 128 + SIGINT);
  EXPECT_TRUE(ranks_end());
}

}  // namespace
}  // namespace headroom::launch
