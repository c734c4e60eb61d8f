#include <gtest/gtest.h>

#include "planner/cli/command.h"
#include "tests/planner/cli/outcome.h"
#include "tests/support/data.h"
#include "validator/validate.h"

// The command line of a build without the CUDA Toolkit: `unavailable.cc` is linked into this test in front of
// the GPU part.
namespace headroom::cli {
namespace {

constexpr const char* kSentence =
    "headroom: this build of headroom has no GPU part: expected one configured where the CUDA Toolkit (nvcc) "
    "is "
    "installed\n";

TEST(BuiltWithoutCuda, CommandsThatNeedAGpuSaySoInOneSentence) {
  const std::string recorded = test::data("rlhf/fr-llama.json").string();
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"validate", "--framework", "torch", recorded},
        {"validate", "--framework", "torch", "--quick", recorded},
        {"calibrate"}}) {
    const Outcome outcome = run_words(commands(), words);
    EXPECT_EQ(outcome.code, kBadInput);
    EXPECT_EQ(outcome.err, kSentence);
    EXPECT_EQ(outcome.out, "");
  }
}

TEST(BuiltWithoutCuda, NothingBelowTheCommandLineRunsEither) {
  EXPECT_FALSE(gpu::available());
  EXPECT_FALSE(gpu::calibrate({}, {}));
}

}  // namespace
}  // namespace headroom::cli
