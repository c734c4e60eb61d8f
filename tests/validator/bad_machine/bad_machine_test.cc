#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

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

}  // namespace
}  // namespace headroom::cli
