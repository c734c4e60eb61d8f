#include "planner/cli/replay.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "simulator/replay/text_file.h"
#include "tests/planner/cli/outcome.h"
#include "tests/support/data.h"

namespace headroom::cli {
namespace {

using testing::EndsWith;
using testing::HasSubstr;

Outcome run_replay(std::vector<std::string> words) {
  words.insert(words.begin(), "replay");
  return run_words(std::vector<Command>{replay_command()}, words);
}

TEST(Replay, AllRecordedCasesVerify) {
  const Outcome outcome =
      run_replay({test::data("allocator/recorded-with-addresses.jsonl.gz").string(), "--verify"});
  EXPECT_EQ(outcome.code, kDone);
  EXPECT_EQ(outcome.out, "cases 45 matched 45\n");
  EXPECT_EQ(outcome.err, "");
}

TEST(Replay, AFalsifiedRecordingDisagrees) {
  std::string text = replay::read_text_file(test::data("allocator/recorded.jsonl.gz").string()).value();
  text.resize(text.find('\n', text.find('\n') + 1));
  const std::size_t size = text.find("[\"a\",2,4463736,0]");
  ASSERT_NE(size, std::string::npos);
  text.replace(size, 17, "[\"a\",2,4464736,0]");
  const auto path = test::scratch() / "headroom_falsified_recording.jsonl";
  std::ofstream(path) << text;
  const Outcome outcome = run_replay({path.string(), "--verify"});
  std::filesystem::remove(path);
  EXPECT_EQ(outcome.code, kDisagrees);
  EXPECT_THAT(outcome.out, HasSubstr("default mixed/0: event 3: simulated allocated"));
  EXPECT_THAT(outcome.out, EndsWith("\ncases 2 matched 1\n"));
}

TEST(Replay, WhatCannotBeReadIsBadInput) {
  const Outcome missing = run_replay({"/nonexistent/recording.jsonl", "--verify"});
  EXPECT_EQ(missing.code, kBadInput);
  EXPECT_THAT(missing.err, HasSubstr("headroom: /nonexistent/recording.jsonl: could not be opened"));
  const Outcome both = run_replay({"x", "--verify", "--predict"});
  EXPECT_EQ(both.code, kBadInput);
  // What these would do with a recording is nothing.
  for (const char* flag : {"--pickle", "--events", "--limit", "--setting", "--json"})
    EXPECT_THAT(run_replay({"x", "--verify", flag, "1GiB"}).err, HasSubstr(std::string("headroom: ") + flag));
  EXPECT_THAT(run_replay({"-"}).err, HasSubstr("found a stream"));
}

}  // namespace
}  // namespace headroom::cli
