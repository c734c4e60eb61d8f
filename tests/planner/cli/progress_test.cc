#include "planner/cli/progress.h"

#include <gtest/gtest.h>

#include <sstream>

#include "simulator/hardware/hardware.h"
#include "simulator/job/job.h"

namespace headroom::cli {
namespace {

class Progress : public ::testing::Test {
 protected:
  std::ostringstream err;
  double now = 100;
  std::string told(bool on, const std::vector<double>& times) {
    {
      ProgressLine line(err, on, [this] { return now; });
      for (const double time : times) {
        now = 100 + time;
        line.tell([](double seconds) { return std::to_string(static_cast<int>(seconds)) + " s"; });
      }
    }
    return err.str();
  }
};

TEST_F(Progress, ComesAfterASecondIsWrittenOverAndGoes) {
  EXPECT_EQ(told(true, {0.5, 0.9, 1.0, 1.1, 3.0}), "\r\x1b[K1 s\r\x1b[K3 s\r\x1b[K");
}

TEST_F(Progress, SaysNothingOfWhatIsQuickOrWhereNobodyLooks) {
  EXPECT_EQ(told(true, {0.2, 0.9}), "");
  EXPECT_EQ(told(false, {2, 4}), "");
}

TEST_F(Progress, CountsRuns) {
  ProgressLine line(err, true, [this] { return now; });
  const Executor executor = counted([](const Job&, const Hardware&) { return Report{}; }, line);
  (void)executor({}, {});
  now += 2;
  (void)executor({}, {});
  EXPECT_EQ(err.str(), "\r\x1b[K2 configurations run, 2 s");
}

}  // namespace
}  // namespace headroom::cli
