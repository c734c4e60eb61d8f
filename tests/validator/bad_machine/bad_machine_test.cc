#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>

#include "planner/cli/command.h"
#include "tests/planner/cli/outcome.h"
#include "tests/support/data.h"

// What the command line says on machines whose driver or card cannot be used. The linker sends the CUDA
// runtime's first calls to the answers of a machine that each test describes.
namespace {

struct Machine {
  cudaError_t count_code = cudaSuccess;
  int cards = 0, driver = 13000, runtime = 13000;
  cudaError_t select_code = cudaSuccess;
};
Machine machine;

}  // namespace

extern "C" {
cudaError_t __wrap_cudaGetDeviceCount(int* count) {
  *count = machine.cards;
  return machine.count_code;
}
cudaError_t __wrap_cudaDriverGetVersion(int* version) {
  *version = machine.driver;
  return cudaSuccess;
}
cudaError_t __wrap_cudaRuntimeGetVersion(int* version) {
  *version = machine.runtime;
  return cudaSuccess;
}
cudaError_t __wrap_cudaDeviceGetPCIBusId(char* text, int size, int) {
  std::strncpy(text, "0000:ff:1f.7", static_cast<std::size_t>(size));
  return cudaSuccess;
}
cudaError_t __wrap_cudaSetDevice(int) {
  return machine.select_code;
}
}

namespace headroom::cli {
namespace {

/// Each command that needs a GPU, on `described`: exit 2 and this sentence alone.
void expect_sentence(const Machine& described, const std::string& sentence) {
  machine = described;
  const std::string one = test::data("rlhf/fr-llama.json").string();
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"validate", "--framework", "torch", one},
        {"validate", "--framework", "torch", "--quick", one},
        {"calibrate"}}) {
    const Outcome outcome = run_words(commands(), words);
    EXPECT_EQ(outcome.code, kBadInput) << words[0];
    EXPECT_EQ(outcome.err, "headroom: " + sentence + "\n") << words[0];
    EXPECT_EQ(outcome.out, "") << words[0];
  }
}

TEST(BadMachine, NoGpu) {
  expect_sentence({.count_code = cudaErrorNoDevice},
                  "no NVIDIA GPU was found: expected at least one (is CUDA_VISIBLE_DEVICES set?)");
}

TEST(BadMachine, NoDriver) {
  expect_sentence({.count_code = cudaErrorInsufficientDriver, .driver = 0},
                  "no NVIDIA driver was found: expected a machine with an NVIDIA GPU");
}

TEST(BadMachine, DriverTooOld) {
  expect_sentence({.count_code = cudaErrorInsufficientDriver, .driver = 12020},
                  "the NVIDIA driver is too old: expected one for CUDA 13.0, found CUDA 12.2");
}

TEST(BadMachine, CardWithoutMemoryForAContext) {
  expect_sentence(
      {.cards = 1, .select_code = cudaErrorMemoryAllocation},
      "GPU 0 is busy: other processes hold so much of its memory that none is left for a context; "
      "expected a card with free memory");
}

TEST(BadMachine, CardOfAnotherProcessAlone) {
  expect_sentence(
      {.cards = 1, .select_code = cudaErrorDevicesUnavailable},
      "GPU 0 is busy: another process uses it alone, or its mode allows no process; expected a card "
      "that can be shared");
}

TEST(BadMachine, NoRankIsStartedWithoutAGpu) {
  machine = {.count_code = cudaErrorInsufficientDriver, .driver = 0};
  const Outcome outcome = run_words(commands(), {"validate", "--framework", "torch", "--nproc", "2",
                                                 test::data("rlhf/fsdp-q05-grpo.json").string()});
  EXPECT_EQ(outcome.code, kBadInput);
  EXPECT_EQ(outcome.err, "headroom: no NVIDIA driver was found: expected a machine with an NVIDIA GPU\n");
}

TEST(BadMachine, CardThatDoesNotExist) {
  machine = {.cards = 2};
  const Outcome outcome = run_words(commands(), {"validate", "--framework", "torch", "--device", "2",
                                                 test::data("rlhf/fr-llama.json").string()});
  EXPECT_EQ(outcome.code, kBadInput);
  EXPECT_EQ(outcome.err, "headroom: GPU 2 does not exist: this process sees 2\n");
}

using Variables = std::map<std::string, std::string>;

/// Variables of a launcher, for one test.
class Launched {
 public:
  explicit Launched(Variables variables) : variables_(std::move(variables)) {
    for (const auto& [name, value] : variables_) ::setenv(name.c_str(), value.c_str(), 1);
  }
  Launched(const Launched&) = delete;
  Launched& operator=(const Launched&) = delete;
  ~Launched() {
    for (const auto& [name, value] : variables_) ::unsetenv(name.c_str());
  }

 private:
  Variables variables_;
};

/// `headroom validate` of a job that trains on two GPUs: what it says, with exit 2 and nothing else.
std::string refusal(std::vector<std::string> more) {
  std::vector<std::string> words = {"validate", "--framework", "torch",
                                    test::data("rlhf/fsdp-q05-grpo.json").string()};
  words.insert(words.end(), more.begin(), more.end());
  const Outcome outcome = run_words(commands(), words);
  EXPECT_EQ(outcome.code, kBadInput);
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  return outcome.err;
}

TEST(BadMachine, ARankWithoutAGpuMeetsNobody) {
  machine = {.count_code = cudaErrorNoDevice};
  const Launched rank(Variables{{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_PORT", "29500"}});
  const Outcome outcome = run_words(commands(), {"calibrate"});
  EXPECT_EQ(outcome.code, kBadInput);
  EXPECT_NE(outcome.err.find("no NVIDIA GPU was found"), std::string::npos) << outcome.err;
}

TEST(BadMachine, MoreRanksThanCards) {
  machine = {.cards = 1};
  EXPECT_NE(refusal({"--nproc", "2"}).find("--nproc: expected no more ranks than the 1 GPUs"),
            std::string::npos);
}

TEST(BadMachine, MoreLaunchedRanksThanTheJobTrainsOn) {
  machine = {.cards = 4};
  const Launched rank(Variables{{"RANK", "0"}, {"WORLD_SIZE", "4"}});
  EXPECT_NE(refusal({}).find("the job trains on 2 GPUs: expected no more ranks, found 4"), std::string::npos);
}

TEST(BadMachine, ALauncherThatStartedAnotherNumberOfRanks) {
  machine = {.cards = 4};
  const Launched rank(Variables{{"RANK", "0"}, {"WORLD_SIZE", "4"}});
  EXPECT_NE(refusal({"--nproc", "2"}).find("--nproc: expected WORLD_SIZE=4"), std::string::npos);
}

TEST(BadMachine, OneCardForSeveralRanks) {
  machine = {.cards = 4};
  EXPECT_NE(refusal({"--nproc", "2", "--device", "1"}).find("--device: expected with one rank only"),
            std::string::npos);
}

TEST(BadMachine, ARecordingThatIsNoneIsSaidBeforeAnythingRuns) {
  machine = {.cards = 1};
  EXPECT_NE(refusal({"--recording", "/nowhere/run.json"}).find("/nowhere/run.json"), std::string::npos);
  EXPECT_NE(refusal({"--recording", test::data("accuracy.json").string()}).find("expected a recorded run"),
            std::string::npos);
}

TEST(BadMachine, ANeighbourThatNobodyStarted) {
  machine = {.cards = 1};
  const Launched shell(Variables{{"HEADROOM_NEIGHBOUR", "0"}});
  EXPECT_NE(refusal({}).find("HEADROOM_NEIGHBOUR: expected only in a process that headroom starts itself"),
            std::string::npos);
}

}  // namespace
}  // namespace headroom::cli
