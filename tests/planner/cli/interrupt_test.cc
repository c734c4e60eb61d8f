#include "planner/cli/interrupt.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

namespace headroom::cli {
namespace {

/// How a process ends that does `work`; 0 to 255: by itself, with 77 if `work` returned.
template <typename Work>
int end_of(const Work& work) {
  const pid_t child = fork();
  if (child == 0) {
    work();
    _exit(77);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? 256 + WTERMSIG(status) : WEXITSTATUS(status);
}

TEST(Interrupt, TheFirstIsNotedAndObeyedLater) {
  for (const int signal : {SIGINT, SIGTERM}) {
    EXPECT_EQ(end_of([&] {
                const Interrupt interrupt;
                raise(signal);
                if (!Interrupt::came()) _exit(1);
              }),
              77);
    EXPECT_EQ(end_of([&] {
                {
                  const Interrupt interrupt;
                  raise(signal);
                }
                Interrupt::obey();
              }),
              256 + signal);
  }
}

TEST(Interrupt, TheSecondEndsAtOnce) {
  EXPECT_EQ(end_of([] {
              const Interrupt interrupt;
              raise(SIGINT);
              raise(SIGINT);
            }),
            256 + SIGINT);
}

TEST(Interrupt, WithoutOneNothingHappens) {
  EXPECT_EQ(end_of([] {
              { const Interrupt interrupt; }
              if (Interrupt::came()) _exit(1);
              Interrupt::obey();
            }),
            77);
}

}  // namespace
}  // namespace headroom::cli
