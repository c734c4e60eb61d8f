#include "models/architecture/modules.h"

#include <gtest/gtest.h>

#include "models/architecture/read.h"
#include "models/presets/presets.h"

namespace headroom {
namespace {

std::int64_t modules(const char* preset) {
  return modules_of(make_architecture(find_preset(preset).value(), preset).value());
}

// As `len(list(model.modules()))` counts in Transformers 5.17: root, body, embedding, list, layers of 13, norm,
// rotary table, head.
TEST(Modules, AreCountedByTheirTensors) {
  EXPECT_EQ(modules("meta-llama/Llama-3.1-8B-Instruct"), 4 + 32 * 13 + 3);
  EXPECT_NEAR(static_cast<double>(modules("facebook/opt-1.3b")), 8 + 24 * 11, 2);
}

}  // namespace
}  // namespace headroom
