#include "validator/launch/ranks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace headroom::launch {
namespace {

Environment variables(std::map<std::string, std::string> all) {
  return [all = std::move(all)](const char* name) {
    auto at = all.find(name);
    return at == all.end() ? std::nullopt : std::optional<std::string>(at->second);
  };
}

TEST(FindPlace, NothingStartedThisProcessAsARank) {
  const auto place = find_place(variables({{"PATH", "/bin"}}));
  ASSERT_TRUE(place);
  EXPECT_FALSE(place->has_value());
}

TEST(FindPlace, ReadsEachLauncher) {
  const std::vector<std::map<std::string, std::string>> launchers = {{{"RANK", "3"},
                                                                      {"WORLD_SIZE", "8"},
                                                                      {"LOCAL_RANK", "1"},
                                                                      {"MASTER_ADDR", "n0"},
                                                                      {"MASTER_PORT", "1000"}},
                                                                     {{"OMPI_COMM_WORLD_RANK", "3"},
                                                                      {"OMPI_COMM_WORLD_SIZE", "8"},
                                                                      {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                                                                      {"MASTER_ADDR", "n0"},
                                                                      {"HEADROOM_PORT", "1001"}},
                                                                     {{"SLURM_PROCID", "3"},
                                                                      {"SLURM_NTASKS", "8"},
                                                                      {"SLURM_LOCALID", "1"},
                                                                      {"SLURM_NNODES", "2"},
                                                                      {"MASTER_ADDR", "n0"},
                                                                      {"MASTER_PORT", "1000"}}};
  for (const auto& launcher : launchers) {
    const auto place = find_place(variables(launcher));
    ASSERT_TRUE(place && *place);
    EXPECT_EQ((*place)->rank, 3);
    EXPECT_EQ((*place)->ranks, 8);
    EXPECT_EQ((*place)->local, 1);
    EXPECT_EQ((*place)->address, "n0");
    EXPECT_EQ((*place)->port, 1001);
  }
}

TEST(FindPlace, HeadroomsOwnVariablesComeFirst) {
  const auto place = find_place(
      variables({{"HEADROOM_RANK", "0"}, {"HEADROOM_RANKS", "2"}, {"RANK", "3"}, {"WORLD_SIZE", "8"}}));
  ASSERT_TRUE(place && *place);
  EXPECT_EQ((*place)->ranks, 2);
}

TEST(FindPlace, WrongValuesNameTheVariable) {
  const auto text = [](std::map<std::string, std::string> all) {
    return find_place(variables(std::move(all))).error().message;
  };
  EXPECT_THAT(text({{"RANK", "x"}, {"WORLD_SIZE", "8"}}),
              ::testing::HasSubstr("RANK: expected a number from 0, found 'x'"));
  EXPECT_THAT(text({{"RANK", "8"}, {"WORLD_SIZE", "8"}}),
              ::testing::HasSubstr("expected less than WORLD_SIZE=8"));
  EXPECT_THAT(text({{"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "8"}, {"SLURM_NNODES", "2"}}),
              ::testing::HasSubstr("MASTER_ADDR"));
}

}  // namespace
}  // namespace headroom::launch
