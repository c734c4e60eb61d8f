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
                                                                      {"SLURM_STEP_NUM_TASKS", "8"},
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
  EXPECT_THAT(text({{"SLURM_PROCID", "1"}, {"SLURM_STEP_NUM_TASKS", "8"}, {"SLURM_NNODES", "2"}}),
              ::testing::HasSubstr("MASTER_ADDR"));
  EXPECT_THAT(text({{"RANK", "0"}, {"WORLD_SIZE", "8"}, {"MASTER_PORT", "65535"}}),
              ::testing::HasSubstr("MASTER_PORT: expected a port from 1 to 65534, found 65535"));
  EXPECT_THAT(text({{"RANK", "0"}, {"WORLD_SIZE", "8"}, {"HEADROOM_PORT", "0"}}),
              ::testing::HasSubstr("HEADROOM_PORT: expected a port"));
}

TEST(FindPlace, ABatchScriptOfSlurmIsNoRank) {
  const std::map<std::string, std::string> script = {{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}};
  for (const std::optional<int> nproc : {std::optional<int>(), std::optional<int>(4)}) {
    const auto place = find_place(variables(script), nproc);
    ASSERT_TRUE(place);
    EXPECT_FALSE(place->has_value());
  }
}

TEST(FindPlace, TheCommandLineWinsOverAStepOfOneProcess) {
  const auto shell = variables({{"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}});
  const auto place = find_place(shell, 4);
  ASSERT_TRUE(place);
  EXPECT_FALSE(place->has_value());
  EXPECT_TRUE(find_place(shell)->has_value());
}

TEST(FindPlace, AnotherNumberOfRanksThanTheLauncherStartedIsAContradiction) {
  const auto place = find_place(variables({{"RANK", "0"}, {"WORLD_SIZE", "8"}}), 4);
  ASSERT_FALSE(place);
  EXPECT_EQ(place.error().key, "--nproc");
  EXPECT_THAT(place.error().message, ::testing::HasSubstr("WORLD_SIZE=8"));
  EXPECT_TRUE(find_place(variables({{"RANK", "0"}, {"WORLD_SIZE", "8"}}), 8));
}

TEST(FindPlace, TheOnlyCardThatALauncherShowsIsTaken) {
  const auto of = [](std::map<std::string, std::string> all, int visible) {
    return find_place(variables(std::move(all))).value().value().card(visible);
  };
  const std::map<std::string, std::string> third = {
      {"SLURM_PROCID", "3"}, {"SLURM_STEP_NUM_TASKS", "4"}, {"SLURM_LOCALID", "3"}};
  EXPECT_EQ(of(third, 1), 0);
  EXPECT_EQ(of(third, 4), 3);
  EXPECT_EQ(of({{"HEADROOM_RANK", "1"}, {"HEADROOM_RANKS", "2"}}, 1), 1) << "two copies want two cards";
}

TEST(WorseCode, PutsErrorsBeforeVerdicts) {
  const std::vector<int> order = {0, 4, 3, 2, 1};
  for (std::size_t i = 0; i < order.size(); ++i)
    for (std::size_t j = 0; j < order.size(); ++j)
      EXPECT_EQ(worse_code(order[i], order[j]), order[std::max(i, j)]);
  EXPECT_EQ(worse_code(3, 139), 139);
}

}  // namespace
}  // namespace headroom::launch
