#include "models/base/nearest.h"

#include <gtest/gtest.h>

#include <array>

namespace headroom {
namespace {

TEST(Nearest, CountsEditsWithoutCase) {
  EXPECT_EQ(edit_distance("", "abc"), 3);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3);
  EXPECT_EQ(edit_distance("Qwen", "qwen"), 0);
}

TEST(Nearest, SuggestsOnlyWhatIsNear) {
  constexpr std::array<std::string_view, 3> kNames = {"llama", "qwen2", "qwen3"};
  EXPECT_EQ(nearest("lama", kNames), "llama");
  EXPECT_EQ(nearest("qwen", kNames), "qwen2");
  EXPECT_EQ(nearest("transformer", kNames), "");
}

}  // namespace
}  // namespace headroom
