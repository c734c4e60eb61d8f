#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

#include "tests/support/data.h"
#include "validator/launch/ranks.h"
#include "validator/launch/rendezvous.h"

// What `--nproc 4` does before there is a GPU: four processes of this program, their places, their meeting
// and the code that the launcher returns.
namespace headroom::launch {
namespace {

constexpr const char *kFile = "HEADROOM_TEST_FILE", *kFailing = "HEADROOM_TEST_FAILING_RANK";

/// A copy's whole life, before the tests would begin; in this program itself nothing.
bool serve_as_rank() {
  const char *file = std::getenv(kFile), *failing = std::getenv(kFailing);
  if (file == nullptr || failing == nullptr) return false;
  const auto place = find_place(process_environment);
  if (!place || !*place) std::_Exit(3);
  const Place& own = **place;
  if (std::to_string(own.rank) == failing) std::_Exit(2);
  auto ranks = Rendezvous::meet(own, 60);
  if (!ranks) std::_Exit(3);
  const auto id = ranks->broadcast(own.rank == 0 ? "made by rank 0" : "");
  const auto all = ranks->gather(std::to_string(own.rank) + " of " + std::to_string(own.ranks) + " on GPU " +
                                 std::to_string(own.local) + ", " + id.value_or("nothing"));
  if (!all || !ranks->barrier()) std::_Exit(3);
  if (own.rank == 0) {
    std::ofstream out(file);
    for (const std::string& line : *all) out << line << "\n";
  }
  std::_Exit(own.rank == 2 ? 4 : 0);  // one finds itself outside the margin
}
const bool kServed = serve_as_rank();

/// Starts the copies, which write what they saw to `file`; `failing`: the rank that ends with an error at
/// once.
int start_four(const std::filesystem::path& file, const char* failing) {
  ::setenv(kFile, file.c_str(), 1);
  ::setenv(kFailing, failing, 1);
  const Result<int> code = spawn_ranks(4, {"four_ranks"});
  ::unsetenv(kFile);
  ::unsetenv(kFailing);
  return code.value_or(-1);
}

std::filesystem::path fresh_file(const std::string& name) {
  const auto file = test::scratch() / name;
  std::filesystem::remove(file);
  return file;
}

TEST(FourRanks, MeetAndTheWorstVerdictIsReturned) {
  const auto file = fresh_file("four_ranks");
  ASSERT_FALSE(kServed);
  EXPECT_EQ(start_four(file, "none"), 4);
  std::ifstream in(file);
  std::set<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.insert(line);
  std::set<std::string> expected;
  for (const char* rank : {"0", "1", "2", "3"})
    expected.insert(std::string(rank) + " of 4 on GPU " + rank + ", made by rank 0");
  EXPECT_EQ(lines, expected);
  std::filesystem::remove(file);
}

TEST(FourRanks, AnErrorEndsTheOthersThatWaitForIt) {
  const auto file = fresh_file("four_ranks_failing");
  EXPECT_EQ(start_four(file, "3"), 2) << "the others would have waited for a minute";
  EXPECT_FALSE(std::filesystem::exists(file));
}

}  // namespace
}  // namespace headroom::launch
