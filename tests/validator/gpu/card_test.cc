#include <gtest/gtest.h>

#include "validator/cuda/device.h"

namespace headroom::gpu {
namespace {

std::string reason(cudaError_t code, int count, int driver, int runtime) {
  const auto cards = cards_or_reason(code, count, driver, runtime);
  return cards ? "none" : cards.error().message;
}

TEST(CardsOrReason, SaysInOneSentenceWhatIsMissing) {
  EXPECT_EQ(reason(cudaErrorInsufficientDriver, 0, 0, 13000),
            "no NVIDIA driver was found: expected a machine with an NVIDIA GPU");
  EXPECT_EQ(reason(cudaErrorInsufficientDriver, 0, 11080, 13000),
            "the NVIDIA driver is too old: expected one for CUDA 13.0, found CUDA 11.8");
  EXPECT_EQ(reason(cudaErrorNoDevice, 0, 13000, 13000),
            "no NVIDIA GPU was found: expected at least one (is CUDA_VISIBLE_DEVICES set?)");
  EXPECT_EQ(reason(cudaSuccess, 0, 13000, 13000),
            "no NVIDIA GPU was found: expected at least one (is CUDA_VISIBLE_DEVICES set?)");
  EXPECT_EQ(reason(cudaErrorSystemNotReady, 0, 13000, 13000).find("no NVIDIA GPU can be used: "), 0u);
  EXPECT_EQ(cards_or_reason(cudaSuccess, 2, 13000, 13000).value(), 2);
}

}  // namespace
}  // namespace headroom::gpu
