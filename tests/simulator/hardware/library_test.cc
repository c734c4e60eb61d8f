#include "simulator/hardware/library.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "tests/support/data.h"

namespace headroom {
namespace {

using ::testing::HasSubstr;

TEST(HardwareProfiles, CoverTheCardsInUse) {
  std::set<std::string> names;
  for (const Hardware& profile : hardware_profiles()) names.insert(profile.name);
  for (const char* name :
       {"NVIDIA H100 80GB HBM3", "NVIDIA H100 PCIe", "NVIDIA H200", "NVIDIA A100-SXM4-80GB",
        "NVIDIA A100-SXM4-40GB", "NVIDIA H20", "NVIDIA L40S", "NVIDIA L4", "NVIDIA GeForce RTX 3090",
        "NVIDIA GeForce RTX 4090", "NVIDIA B200", "NVIDIA A800-SXM4-80GB", "NVIDIA H800",
        "Tesla V100-SXM2-32GB", "NVIDIA A10G", "NVIDIA RTX A6000", "NVIDIA A40", "NVIDIA L20"})
    EXPECT_TRUE(names.contains(name)) << name;
}

TEST(HardwareProfiles, SayWhereEveryFigureComesFrom) {
  for (const Hardware& profile : hardware_profiles())
    for (const char* section : {"memory", "rates", "links", "process", "nccl", "efficiency", "latency"})
      EXPECT_FALSE(profile.sources.at(section).empty()) << profile.name << " " << section;
}

TEST(HardwareProfiles, KeepTheDriversTotalsBelowTheNominalSize) {
  const std::map<std::string, double> nominal = {{"h100", 80}, {"h200", 141}, {"a100-40gb", 40},
                                                 {"l4", 24},   {"b200", 192}, {"v100-32gb", 32},
                                                 {"h20", 96},  {"l40s", 48},  {"rtx-4090", 24}};
  for (const auto& [name, gb] : nominal) {
    const auto card = find_hardware(name);
    ASSERT_TRUE(card) << name;
    const double total = static_cast<double>(card->total_memory) / static_cast<double>(kGiB);
    EXPECT_LT(total, gb) << name;
    EXPECT_GT(total, gb * 0.91) << name;
  }
}

TEST(FindHardware, TakesTheDriversNameAndShortOnesInAnySpelling) {
  for (const char* name :
       {"h100", "H100", "NVIDIA H100 80GB HBM3", "nvidia-h100-80gb-hbm3", "H100 80GB", "h100_sxm"}) {
    const auto card = find_hardware(name);
    ASSERT_TRUE(card) << name << ": " << card.error().text();
    EXPECT_EQ(card->name, "NVIDIA H100 80GB HBM3");
    EXPECT_EQ(card->total_memory, 85017493504);
  }
  EXPECT_EQ(find_hardware("GeForce RTX 4090")->name, "NVIDIA GeForce RTX 4090");
  EXPECT_EQ(find_hardware("Tesla V100-SXM2-32GB")->matrix.bf16, 0);
  EXPECT_EQ(find_hardware("a100-40gb")->links.nvlink, find_hardware("a100-80gb")->links.nvlink);
}

TEST(FindHardware, SuggestsOnAMiss) {
  EXPECT_THAT(find_hardware("h10").error().message, HasSubstr("h100"));
  EXPECT_THAT(find_hardware("a100").error().message, HasSubstr("a100-80gb"));
  EXPECT_THAT(find_hardware("a100").error().message, HasSubstr("a100-40gb"));
  EXPECT_THAT(find_hardware("mi300x").error().message, HasSubstr("headroom gpus"));
  EXPECT_FALSE(find_hardware(""));
  EXPECT_FALSE(find_hardware("nvidia"));
}

TEST(FindHardware, NoNameStandsForTwoCards) {
  for (const Hardware& profile : hardware_profiles()) {
    EXPECT_EQ(find_hardware(profile.name)->name, profile.name);
    for (const std::string& name : profile.short_names) {
      const auto found = find_hardware(name);
      ASSERT_TRUE(found) << found.error().text();
      EXPECT_EQ(found->name, profile.name);
    }
  }
}

TEST(LoadHardware, ReadsAFileThatBuildsOnAKnownCard) {
  const auto path = test::scratch() / "headroom_card.yaml";
  std::ofstream(path)
      << "name: Half an H200\nlike: h200\nmemory: {total: 70GiB, source: cut by the administrator}\n";
  const auto card = load_hardware(path.string());
  std::filesystem::remove(path);
  ASSERT_TRUE(card) << card.error().text();
  EXPECT_EQ(card->total_memory, 70 * kGiB);
  EXPECT_EQ(card->memory_bandwidth, 4.8e12);
  EXPECT_EQ(load_hardware("h200")->name, "NVIDIA H200");
  EXPECT_THAT(load_hardware("no/such.yaml").error().text(), HasSubstr("no/such.yaml"));
}

}  // namespace
}  // namespace headroom
