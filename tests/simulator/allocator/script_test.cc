// A fixed sample of what tests/fuzz/allocator_fuzz.cc searches without end.

#include "tests/simulator/allocator/script.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>

#include "simulator/allocator/settings.h"

namespace headroom::allocator {
namespace {

TEST(AllocatorScript, RandomProgramsKeepTheAllocatorSound) {
  std::mt19937 random(11);
  for (int i = 0; i < 400; ++i) {
    std::vector<std::uint8_t> bytes(3 + random() % 300);
    for (std::uint8_t& b : bytes) b = static_cast<std::uint8_t>(random());
    // Half of the programs stay with what the reference knows.
    if (i % 2 == 0) {
      for (std::size_t k = 3; k < bytes.size(); ++k)
        if (bytes[k] % 16 >= 13) bytes[k] = static_cast<std::uint8_t>(bytes[k] & 0xF7);
    }
    ASSERT_EQ(test::Script(bytes.data(), bytes.size()).run(), "") << "program " << i;
  }
}

TEST(AllocatorSettingsText, AnyTextIsReadOrRefused) {
  std::mt19937 random(12);
  const std::string alphabet =
      "max_split_size_mb:64,[]> .0182TrueFals\n\t-expandable_segments:roundup_power2_divisions";
  for (int i = 0; i < 20'000; ++i) {
    std::string text(random() % 40, ' ');
    for (char& c : text) c = alphabet[random() % alphabet.size()];
    const auto settings = parse_allocator_settings(text);
    if (!settings) {
      EXPECT_FALSE(settings.error().message.empty());
    }
  }
}

}  // namespace
}  // namespace headroom::allocator
