#include "planner/cli/replay_snapshot.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "planner/cli/replay.h"
#include "tests/planner/cli/outcome.h"
#include "tests/support/data.h"

namespace headroom::cli {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

Outcome run_replay(std::vector<std::string> words) {
  words.insert(words.begin(), "replay");
  return run_words(std::vector<Command>{replay_command()}, words);
}

std::string snapshot(const std::string& name) {
  return test::data("snapshots/" + name + ".pickle.gz").string();
}
std::string stream(const std::string& name) {
  return test::data("rlhf/" + name + ".trace.json.gz").string();
}

class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& name, const std::string& content = {})
      : path_(test::scratch() / ("headroom_replay_snapshot_test_" + name)) {
    std::ofstream(path_, std::ios::binary) << content;
  }
  ~TemporaryFile() { std::filesystem::remove(path_); }
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

TEST(ReplaySnapshot, TellsAPersonWhatHappened) {
  const Outcome outcome = run_replay({snapshot("training"), "--top", "3"});
  EXPECT_EQ(outcome.code, kDone);
  EXPECT_EQ(outcome.err, "");
  for (const char* part :
       {"snapshot ", "device 0: 9,699 events", "in use: their allocations were not recorded", "peak reserved",
        "fragmentation at the reserved peak", "a request of", "record_snapshots.py:", "what if",
        "as recorded", "expandable_segments:True"})
    EXPECT_THAT(outcome.out, HasSubstr(part));
}

TEST(ReplaySnapshot, WritesOneJsonObject) {
  const Outcome outcome = run_replay({snapshot("basic"), "--json", "-"});
  EXPECT_EQ(outcome.code, kDone);
  const json j = json::parse(outcome.out);
  EXPECT_EQ(j["schema"], "headroom.replay/1");
  EXPECT_EQ(j["kind"], "snapshot");
  const json& d = j["devices"][0];
  EXPECT_EQ(d["events"], 13);
  EXPECT_EQ(d["peak_reserved"]["reserved"], 65011712);
  EXPECT_EQ(d["end"]["allocated"], 3146752);
  EXPECT_EQ(d["out_of_memory"][0]["bytes"], std::int64_t{1} << 45);
  EXPECT_EQ(d["what_if"]["limit_bytes"], 84465090560);  // it ran out of memory: what it could have had
  EXPECT_GT(d["what_if"]["settings"].size(), 5u);
}

TEST(ReplaySnapshot, ReadsStreamsTheSameWay) {
  const Outcome outcome = run_replay({stream("opt125-ppo-trace"), "--json", "-"});
  EXPECT_EQ(outcome.code, kDone);
  const json d = json::parse(outcome.out)["devices"][0];
  EXPECT_EQ(d["peak_reserved"]["reserved"], 5523898368);
  EXPECT_EQ(d["peak_allocated"]["allocated"], 5117619200);
  EXPECT_EQ(d["what_if"]["as_recorded"]["peak_reserved"], 5523898368);
  EXPECT_EQ(d["what_if"]["export"], "expandable_segments:True");
}

TEST(ReplaySnapshot, ALimitThatTheRecordedSettingsExceedIsOver) {
  const Outcome over =
      run_replay({stream("fr-opt"), "--limit", "5.6GiB", "--setting", "expandable_segments:True"});
  EXPECT_EQ(over.code, kOver);
  EXPECT_THAT(over.out, HasSubstr("out of memory: "));
  EXPECT_EQ(run_replay({stream("fr-opt"), "--limit", "6GiB", "--setting", ""}).code, kDone);
  const Outcome unit = run_replay({stream("fr-opt"), "--limit", "6"});
  EXPECT_EQ(unit.code, kBadInput);
}

/// Would another setting have run? Under what the process had when it ran out of memory.
TEST(ReplaySnapshot, ARunThatRanOutOfMemoryHasItsOwnLimit) {
  const Outcome outcome = run_replay({snapshot("basic")});
  EXPECT_EQ(outcome.code, kDone) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("what if, with "));
  EXPECT_THAT(outcome.out, HasSubstr("the limit is what the process held and the device had free then"));
  EXPECT_THAT(run_replay({snapshot("training")}).out, testing::Not(HasSubstr("what if, with ")));
}

TEST(ReplaySnapshot, SettingsThatPyTorchRefusesAreBadInput) {
  const Outcome outcome = run_replay({snapshot("basic"), "--setting", "expandable_segment:True"});
  EXPECT_EQ(outcome.code, kBadInput);
  EXPECT_THAT(outcome.err, HasSubstr("expandable_segment"));
}

TEST(ReplaySnapshot, PickleAndEventsGoRound) {
  const TemporaryFile pickle("run.pickle"), events("run.json");
  EXPECT_EQ(run_replay({stream("fr-qwen2-lora"), "--no-what-if", "--pickle", pickle.path()}).code, kDone);
  const Outcome again = run_replay({pickle.path(), "--no-what-if", "--events", events.path(), "--json", "-"});
  EXPECT_EQ(again.code, kDone);
  const Outcome last = run_replay({events.path(), "--no-what-if", "--json", "-"});
  const json a = json::parse(again.out)["devices"][0], b = json::parse(last.out)["devices"][0];
  EXPECT_EQ(a["peak_reserved"]["reserved"], 950009856);
  EXPECT_EQ(b["peak_reserved"]["reserved"], 950009856);
  EXPECT_EQ(a["phases"].size(), b["phases"].size());
  EXPECT_EQ(a["holders"][0]["bytes"], b["holders"][0]["bytes"]);
}

TEST(ReplaySnapshot, NamesWhatIsWrongWithAFile) {
  const TemporaryFile empty("empty"), text("text.json", "{\"a\": 1}"),
      bad("bad.json", R"({"format":3,"events":[["f",4]]})"),
      global("global.pickle",
             "\x80\x04"
             "cos\nsystem\n.");
  const auto error = [](const std::string& path) {
    const Outcome outcome = run_replay({path});
    EXPECT_EQ(outcome.code, kBadInput) << path;
    EXPECT_EQ(outcome.out, "");
    return outcome.err;
  };
  EXPECT_THAT(error("/nonexistent.pickle"), HasSubstr("/nonexistent.pickle: cannot be read: No such file"));
  EXPECT_THAT(error(test::scratch().string()), HasSubstr("directory"));
  EXPECT_THAT(error(empty.path()), HasSubstr("headroom: "));
  EXPECT_THAT(error(text.path()), HasSubstr("no `events`"));
  // What can be neither is not read to its end.
  EXPECT_THAT(error("/dev/zero"), HasSubstr("neither a pickle nor a JSON object"));
  EXPECT_THAT(error(bad.path()), HasSubstr("event 0: frees allocation 4"));
  EXPECT_THAT(error(global.path()), HasSubstr("opcode GLOBAL would import or call something"));
  EXPECT_THAT(error(test::data("allocator/recorded.jsonl.gz").string()),
              HasSubstr("add --verify or --predict"));
  const Outcome device = run_replay({snapshot("basic"), "--device", "5"});
  EXPECT_EQ(device.code, kBadInput);
  EXPECT_THAT(device.err, HasSubstr("device 5 is not in the file"));
}

}  // namespace
}  // namespace headroom::cli
