#include "models/base/bytes.h"

#include <gtest/gtest.h>

namespace headroom {
namespace {

TEST(ParseBytes, BinaryAndDecimalUnitsDiffer) {
  EXPECT_EQ(parse_bytes("80GiB").value(), 80 * kGiB);
  EXPECT_EQ(parse_bytes("80GB").value(), 80'000'000'000);
  EXPECT_EQ(parse_bytes("1.5 GiB").value(), kGiB + kGiB / 2);
  EXPECT_EQ(parse_bytes("512mib").value(), 512 * kMiB);
  EXPECT_EQ(parse_bytes("76G").value(), 76 * kGiB);
}

TEST(ParseBytes, RefusesWhatWouldBeAGuess) {
  for (const char* text : {"80", "", "GiB", "-1GiB", "80XB", "1e30TiB", "nanGiB", "80GiBs"})
    EXPECT_FALSE(parse_bytes(text).has_value()) << text;
}

TEST(FormatBytes, KeepsTheLargestUnit) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(20 * kMiB), "20.00 MiB");
  EXPECT_EQ(format_gib(kGiB / 2), "0.50 GiB");
}

}  // namespace
}  // namespace headroom
