#include "simulator/trainer/trainer.h"

#include <gtest/gtest.h>

#include "simulator/hardware/library.h"

namespace headroom::trainer {
namespace {

tape::AttentionBackend kernel_on(const char* gpu) {
  const Result<Hardware> hardware = load_hardware(gpu);
  EXPECT_TRUE(hardware) << gpu;
  return traits_of(*hardware).attention;
}

TEST(TraitsOfHardware, AttentionGoesByTheGpusGeneration) {
  for (const char* gpu : {"h100", "h200", "h20", "b200"})
    EXPECT_EQ(kernel_on(gpu), tape::AttentionBackend::cudnn) << gpu;
  for (const char* gpu : {"a100-80gb", "a10g", "l40s", "rtx-4090"})
    EXPECT_EQ(kernel_on(gpu), tape::AttentionBackend::flash) << gpu;
  for (const char* gpu : {"v100-32gb", "rtx-8000"})
    EXPECT_EQ(kernel_on(gpu), tape::AttentionBackend::efficient) << gpu;
}

}  // namespace
}  // namespace headroom::trainer
