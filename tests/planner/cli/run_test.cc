#include "planner/cli/run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "planner/cli/output.h"
#include "tests/planner/cli/outcome.h"
#include "tests/support/data.h"

namespace headroom::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

Arguments seen;

int record(const Arguments& arguments, Streams& streams) {
  seen = arguments;
  streams.out << "ran\n";
  return kOver;
}

const std::vector<Command>& table() {
  static const std::vector<Command> commands = {
      {"estimate",
       "predicts",
       {{"CONFIG", "", "what to read", true, true},
        output_file("--yaml", "write"),
        {"--keys", "", "show keys"}},
       kJobFlags | kHardwareFlags | kBudgetFlags | kJsonFlag | kReportFlags,
       record},
      {"gpus", "lists", {}, kJsonFlag, record},
  };
  return commands;
}

Outcome run_words(const std::vector<std::string>& words) {
  return run_words(table(), words);
}

TEST(Run, PassesFlagsAndPositionalsOn) {
  const Outcome outcome = run_words({"estimate", "a.yaml", "--set", "x.y=[1,2]", "b.yaml", "--set", "+z=~",
                                     "--keys", "--yaml", "-", "--budget", "76GiB", "--nodes=2"});
  EXPECT_EQ(outcome.code, kOver);
  EXPECT_EQ(outcome.out, "ran\n");
  EXPECT_EQ(outcome.err, "");
  EXPECT_THAT(seen.all("CONFIG"), ElementsAre("a.yaml", "b.yaml"));
  EXPECT_THAT(seen.common.overrides, ElementsAre("x.y=[1,2]", "+z=~"));
  EXPECT_EQ(seen.text("--yaml"), "-");
  EXPECT_TRUE(seen.has("--keys"));
  EXPECT_FALSE(seen.has("--quiet"));
  EXPECT_EQ(seen.common.nodes, 2);
  ASSERT_EQ(seen.common.budgets.size(), 1u);
  EXPECT_EQ(seen.common.budgets[0].of(0), 76 * kGiB);
}

TEST(Run, StandardInputIsAFileNamedDash) {
  run_words({"estimate", "-"});
  EXPECT_THAT(seen.all("CONFIG"), ElementsAre("-"));
}

TEST(Run, NamesTheNearestCommandAndFlag) {
  Outcome outcome = run_words({"estimat"});
  EXPECT_EQ(outcome.code, kBadInput);
  EXPECT_EQ(outcome.err,
            "headroom: estimat: unknown command; did you mean 'estimate'?; see `headroom --help`\n");
  outcome = run_words({"estimate", "a", "--bugdet", "7GiB"});
  EXPECT_EQ(outcome.code, kBadInput);
  EXPECT_EQ(outcome.err, "headroom: --bugdet: unknown flag; did you mean '--budget'?\n");
}

TEST(Run, UsageErrorsAreInputErrors) {
  const std::vector<std::vector<std::string>> lines = {
      {"estimate"},
      {"estimate", "a", "--yaml"},
      {"estimate", "a", "--yaml", "x", "--yaml", "y"},
      {"estimate", "a", "--nodes", "0"},
      {"estimate", "a", "--nodes", "99999999999999999999"},
      {"estimate", "a", "--budget", "80"},
      {"estimate", "a", "--budget", "-3GiB"},
      {"estimate", "a", "--budget", "1GiB", "--budget", "2GiB"},
      {"estimate", "a", "--budget", "1.5"},
      {"estimate", "a", "--host-budget", "0.5"},
      {"estimate", "a", "--json", "-", "--csv", "-"},
      {"gpus", "extra"},
      {"gpus", "--budget", "1GiB"},
      {"--json", "x"},
      {""},
  };
  for (const auto& words : lines) {
    const Outcome outcome = run_words(words);
    EXPECT_EQ(outcome.code, kBadInput) << ::testing::PrintToString(words);
    EXPECT_THAT(outcome.err, StartsWith("headroom: ")) << ::testing::PrintToString(words);
    EXPECT_EQ(outcome.out, "") << ::testing::PrintToString(words);
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  }
}

TEST(Run, BudgetsAPool) {
  run_words({"estimate", "a", "--budget", "main=0.9", "--budget", "rollout=40GB", "--margin", "0"});
  ASSERT_EQ(seen.common.budgets.size(), 2u);
  EXPECT_EQ(seen.common.budgets[0].pool, "main");
  EXPECT_EQ(seen.common.budgets[0].of(1000), 900);
  EXPECT_EQ(seen.common.budgets[1].of(1), 40'000'000'000);
  EXPECT_EQ(seen.common.margin->of(80 * kGiB), 0);
}

TEST(Run, HelpIsGrouped) {
  const Outcome outcome = run_words({"estimate", "--help"});
  EXPECT_EQ(outcome.code, kDone);
  EXPECT_THAT(outcome.out,
              StartsWith("predicts\n\nUsage: headroom estimate CONFIG… [options] [-- WORDS…]\n"));
  for (const char* group : {"\n\nArguments:\n", "\nOptions:\n", "\nThe run:\n", "\nThe machine:\n", "\nLimits:\n", "\nOutput:\n"})
    EXPECT_THAT(outcome.out, HasSubstr(group));
  EXPECT_EQ(run_words({"--help"}).code, kDone);
  EXPECT_EQ(run_words({}).code, kBadInput);
}

TEST(Run, AnOutputThatFailsIsIncomplete) {
  std::istringstream in;
  std::ostringstream out, err;
  out.setstate(std::ios::badbit);
  Streams streams{in, out, err};
  EXPECT_EQ(run(table(), {"gpus"}, streams), kIncomplete);
  EXPECT_EQ(err.str(), "headroom: standard output: could not be written\n");
}

class Output : public ::testing::Test {
 protected:
  std::filesystem::path folder =
      test::scratch() / ::testing::UnitTest::GetInstance()->current_test_info()->name();
  std::istringstream in;
  std::ostringstream out, err;
  Streams streams{in, out, err};

  void SetUp() override { std::filesystem::create_directories(folder); }
  void TearDown() override { std::filesystem::remove_all(folder); }
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder))
      names.push_back(entry.path().filename());
    return names;
  }
};

TEST_F(Output, ReplacesAFileAndLeavesNothingElse) {
  const std::string path = folder / "out.json";
  ASSERT_TRUE(write_output(path, "first, longer", streams));
  ASSERT_TRUE(write_output(path, "second", streams));
  std::ifstream file(path);
  std::string text;
  std::getline(file, text);
  EXPECT_EQ(text, "second");
  EXPECT_THAT(files(), ElementsAre("out.json"));
}

TEST_F(Output, KeepsALinkAndWritesItsTarget) {
  std::ofstream(folder / "target") << "old";
  std::filesystem::create_symlink("target", folder / "link");
  ASSERT_TRUE(write_output(folder / "link", "new", streams));
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "link"));
  std::ifstream file(folder / "target");
  std::string text;
  file >> text;
  EXPECT_EQ(text, "new");
}

TEST_F(Output, UnwritablePlacesAreIncomplete) {
  for (const std::string& path : {std::string(folder), (folder / "none" / "out").string(),
                                  std::string("/dev/full"), std::string(5000, 'x')}) {
    const Status status = write_output(path, "text", streams);
    ASSERT_FALSE(status) << path;
    EXPECT_EQ(status.error().kind, Error::Kind::incomplete);
    EXPECT_EQ(status.error().file, path);
  }
  EXPECT_TRUE(files().empty());
}

/// Writes more to `path` than the kernel lets a child process write, and gives the child's exit status, or what signal
/// ended it, negative. What
/// the kernel signals half way calls `half_way`.
int status_of_writer(const std::string& path, void (*half_way)(int)) {
  const pid_t child = fork();
  if (child == 0) {
    remove_pending_output_on_signals();
    std::signal(SIGXFSZ, half_way);
    const rlimit limit{4096, 4096};
    setrlimit(RLIMIT_FSIZE, &limit);
    std::istringstream nothing;
    std::ostringstream ignored;
    Streams streams{nothing, ignored, ignored};
    _exit(write_output(path, std::string(100'000, 'x'), streams) ? 40 : 41);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

TEST_F(Output, AnInterruptHalfWayLeavesWhatWasThere) {
  const std::string path = folder / "out.yaml";
  const auto interrupt = [](int) { std::raise(SIGINT); };
  EXPECT_EQ(status_of_writer(path, interrupt), -SIGINT);
  EXPECT_TRUE(files().empty());
  std::ofstream(path) << "before";
  EXPECT_EQ(status_of_writer(path, interrupt), -SIGINT);
  std::string text;
  std::ifstream(path) >> text;
  EXPECT_EQ(text, "before");
  EXPECT_THAT(files(), ElementsAre("out.yaml"));
}

TEST_F(Output, AFailingWriteLeavesWhatWasThere) {
  const std::string path = folder / "out.yaml";
  std::ofstream(path) << "before";
  EXPECT_EQ(status_of_writer(path, SIG_IGN), 41);
  std::string text;
  std::ifstream(path) >> text;
  EXPECT_EQ(text, "before");
  EXPECT_THAT(files(), ElementsAre("out.yaml"));
}

/// From here on this process's calls of rename fail. False: the kernel has no such filters.
bool refuse_renames() {
  const auto refuse = [](std::uint32_t call) {
    return std::array<sock_filter, 2>{
        {BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),
         BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<std::uint32_t>(EBUSY))}};
  };
  std::vector<sock_filter> filter = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr))};
  for (const std::uint32_t call : {SYS_rename, SYS_renameat, SYS_renameat2})
    for (const sock_filter& step : refuse(call)) filter.push_back(step);
  filter.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  const sock_fprog program{static_cast<unsigned short>(filter.size()), filter.data()};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0;
}

TEST_F(Output, AFailingRenameLeavesWhatWasThere) {
  constexpr int kNoFilters = 77;
  const std::string path = folder / "gpus.json";
  std::ofstream(path) << "before";
  const pid_t child = fork();
  if (child == 0) {
    if (!refuse_renames()) _exit(kNoFilters);
    const headroom::cli::Outcome outcome = headroom::cli::run_words(commands(), {"gpus", "--json", path});
    const bool named =
        outcome.err == "headroom: " + path + ": could not be written: Device or resource busy\n";
    _exit(named ? outcome.code : 40);
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (WEXITSTATUS(status) == kNoFilters) GTEST_SKIP() << "no seccomp";
  EXPECT_EQ(WEXITSTATUS(status), kIncomplete);
  std::string text;
  std::ifstream(path) >> text;
  EXPECT_EQ(text, "before");
  EXPECT_THAT(files(), ElementsAre("gpus.json"));
}

TEST_F(Output, SpecialFilesAreWrittenInPlace) {
  ASSERT_TRUE(write_output("/dev/null", "text", streams));
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
  ASSERT_TRUE(write_output("-", "text", streams));
  EXPECT_EQ(out.str(), "text");
}

}  // namespace
}  // namespace headroom::cli
