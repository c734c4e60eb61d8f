/// Inputs that once broke a reader, a limit or a message: small ones of the same kinds.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <zlib.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>

#include "tests/planner/cli/outcome.h"
#include "tests/support/data.h"

namespace headroom::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class Faults : public ::testing::Test {
 protected:
  std::filesystem::path folder =
      test::scratch() / ("faults_" + std::string(::testing::UnitTest::GetInstance()->current_test_info()->name()));

  void SetUp() override { std::filesystem::create_directories(folder); }
  void TearDown() override { std::filesystem::remove_all(folder); }

  std::string file(const std::string& name, const std::string& text) const {
    std::ofstream(folder / name, std::ios::binary) << text;
    return folder / name;
  }
  std::string packed(const std::string& name, const std::string& text) const {
    const gzFile out = gzopen((folder / name).c_str(), "wb9");
    gzwrite(out, text.data(), static_cast<unsigned>(text.size()));
    gzclose(out);
    return folder / name;
  }
  static std::string text_of(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  static Outcome replay(const std::string& path) { return run_words({"replay", path}); }
  std::string verl(const std::string& from = "", const std::string& to = "") const {
    std::string text = text_of(test::source("configs/examples/verl/qwen2.5-7b-grpo-8xh100.yaml"));
    if (!from.empty()) text.replace(text.find(from), from.size(), to);
    return file("verl.yaml", text);
  }
};

TEST_F(Faults, AnAllocationOfNothingMayBeFreedInTwoSteps) {
  const Outcome outcome = replay(file("s.json", R"({"events":[["a",0,0],["q",0],["f",0]]})"));
  EXPECT_EQ(outcome.code, kDone) << outcome.err;
  EXPECT_THAT(outcome.out, Not(HasSubstr("_record_memory_history")));
}

TEST_F(Faults, EventsHoldIntegersThatFit) {
  const auto error = [&](const std::string& event) {
    return replay(file("s.json", R"({"format":3,"phases":["p"],"labels":["l"],"events":[["a",9,512,0],)" +
                                     event + "]}"))
        .err;
  };
  EXPECT_THAT(error(R"(["a",0,[1048576],0])"), HasSubstr("event 1: expected integers, found a list"));
  EXPECT_THAT(error(R"(["a",0,{"b":1},0])"), HasSubstr("event 1: expected integers, found an object"));
  EXPECT_THAT(error(R"(["p",4294967296])"), HasSubstr("event 1: phase 4294967296"));
  EXPECT_THAT(error(R"(["a",0,512,4294967296])"), HasSubstr("event 1: stream or label 4294967296"));
  EXPECT_THAT(error(R"(["a",0,512,0,4294967296])"), HasSubstr("event 1: label 4294967296"));
  EXPECT_THAT(error(R"(["a",0,512,0,0,65536])"), HasSubstr("event 1: pool 65536"));
  EXPECT_THAT(error(R"(["r",9,4294967296])"), HasSubstr("event 1: stream 4294967296"));
  EXPECT_THAT(error(R"(["a",18446744073709551615,512])"), HasSubstr("event 1: expected integers of 63 bits"));
}

TEST_F(Faults, MoreThanAnyDeviceHasIsNoRecording) {
  const Outcome outcome = replay(file("s.json", R"({"events":[["a",0,512],["a",1,1152921504606846976]]})"));
  EXPECT_EQ(outcome.code, kBadInput) << outcome.out;
  EXPECT_THAT(outcome.err, HasSubstr("event 1: "));
}

TEST_F(Faults, ALimitIsOneThatADeviceCanHave) {
  const std::string stream = file("s.json", R"({"events":[["a",0,512]]})");
  for (const char* limit : {"4000000000GiB", "0B"})
    EXPECT_THAT(run_words({"replay", stream, "--limit", limit}).err, HasSubstr("--limit: expected "));
}

TEST_F(Faults, ArchivesThatGrowWithoutEndAreRefused) {
  const std::string spaces(80 << 20, ' ');
  EXPECT_THAT(replay(packed("s.json.gz", "{" + spaces)).err, HasSubstr("expands to more than 200 times"));
  std::string pickle = "\x80\x02";
  for (int i = 0; i < 40 << 20; ++i) pickle += "N0";
  EXPECT_THAT(replay(packed("s.pickle.gz", pickle + "N.")).err, HasSubstr("expands to more than 200 times"));
}

TEST_F(Faults, NamesCannotSpeakForTheProgram) {
  const std::string text = text_of(test::source("configs/examples/job/llama-3.2-1b-ppo-1xh100.yaml"));
  const std::string named = std::regex_replace(text, std::regex("\nname: [^\n]*"),
                                               "\nname: \"\\e[2J\\nfits: 99 GiB\\u202e|*\"",
                                               std::regex_constants::format_first_only);
  const std::string path = file("j.yaml", named);
  for (const char* command : {"estimate", "explain"}) {
    const Outcome outcome = run_words({command, path, "--steps", "1", "--markdown", folder / "m.md"});
    EXPECT_THAT(outcome.out, AllOf(HasSubstr("\\x1b[2J\\nfits: 99 GiB\\u202e"), Not(HasSubstr("\x1b")),
                                   Not(HasSubstr("\nfits: 99"))));
    EXPECT_THAT(text_of(folder / "m.md"), AllOf(HasSubstr("fits: 99 GiB"), Not(HasSubstr("\nfits: 99")),
                                                Not(HasSubstr("\u202e")), HasSubstr("\\|\\*")));
  }
}

TEST_F(Faults, MessagesNameTheLine) {
  EXPECT_THAT(run_words({"check", verl("gpu: H100", "gpu: no/such")}).err, HasSubstr("verl.yaml:5: headroom.gpu: no/such"));
  EXPECT_THAT(run_words({"check", verl("total_epochs: 1", "total_epochs: 1\n---\na: 1")}).err,
              testing::ContainsRegex("verl.yaml:[0-9]+: expected one YAML document"));
  std::string deep = "a: ";
  for (int i = 0; i < 3000; ++i) deep += "[";
  EXPECT_THAT(run_words({"check", file("deep.yaml", "x: 1\n" + deep)}).err, HasSubstr("deep.yaml:2: nested deeper"));
}

TEST_F(Faults, FiguresOfNoMachineAreRefused) {
  const std::string profile = text_of(test::source("configs/hardware/h100.yaml"));
  const auto error = [&](const char* line, const char* value) {
    const std::string changed =
        std::regex_replace(profile, std::regex(std::string(line) + ": [^ \n]*"), std::string(line) + ": " + value,
                           std::regex_constants::format_first_only);
    EXPECT_NE(changed, profile);
    return run_words({"estimate", verl(), "--gpu", file("p.gpu.yaml", changed)}).err;
  };
  EXPECT_THAT(error("  operation", "1e300"), HasSubstr("latency.operation: expected seconds from"));
  EXPECT_THAT(error("  bf16", "1e-300"), HasSubstr("rates.bf16: expected units a second from"));
  EXPECT_THAT(error("  bf16", "nan"), HasSubstr("rates.bf16: expected units a second from"));
  EXPECT_THAT(error("  total", "4000000000GiB"), HasSubstr("memory.total: expected at most 1024 TiB"));
}

TEST_F(Faults, ASectionThatIsMistypedDecidesNothing) {
  const Outcome outcome = run_words({"check", verl("\ntrainer:", "\ntrainerr:"), "--steps", "1"});
  EXPECT_NE(outcome.code, kDone);
  EXPECT_THAT(outcome.out, HasSubstr("undetermined: "));
  EXPECT_THAT(outcome.err, HasSubstr("trainerr.nnodes: is not a key of verl that Headroom knows; did you mean "
                                     "trainer.nnodes?"));
}

TEST_F(Faults, HugeNumbersAndNamesAreRefusedAtOnce) {
  const std::string long_name(1'000'000, 'a');
  EXPECT_THAT(run_words({"check", verl("Qwen/Qwen2.5-7B-Instruct", long_name)}).err, HasSubstr("model.path"));
  EXPECT_THAT(run_words({"check", verl("gpu: H100", "gpu: " + long_name)}).err, HasSubstr("headroom.gpu"));
  const std::string model = file("config.json", R"({"model_type": "qwen2", "num_hidden_layers": 268435456,
    "hidden_size": 64, "num_attention_heads": 4, "intermediate_size": 64, "vocab_size": 100})");
  EXPECT_THAT(run_words({"check", verl(), "--model", model}).err,
              HasSubstr("num_hidden_layers: expected a whole number from 1 to 4096"));
}

TEST_F(Faults, VeryLongGenerationsTakeBoundedWork) {
  std::string text = text_of(test::source("configs/examples/job/llama-3.2-1b-ppo-1xh100.yaml"));
  const std::string before = "response_length: 256";
  text.replace(text.find(before), before.size(), "response_length: 20000");
  const std::string job = file("long.yaml", text);
  const auto generating = [&](const char* command) {
    const Outcome outcome = run_words({command, job, "--steps", "1", "--json", "-"});
    const nlohmann::json report = nlohmann::json::parse(outcome.out);
    for (const nlohmann::json& phase : report["devices"][0]["phases"])
      if (phase["phase"] == "generate") return phase["processes"][0]["peak_allocated"].get<std::int64_t>();
    ADD_FAILURE() << outcome.err;
    return std::int64_t{0};
  };
  EXPECT_THAT(run_words({"simulate", job, "--steps", "1"}).out,
              HasSubstr("of a response's 20000 tokens the trainer ran one in 5; its cache grew by 5 at once"));
  const double whole = static_cast<double>(generating("estimate"));  // a straight line through all tokens
  EXPECT_NEAR(static_cast<double>(generating("simulate")), whole, 0.001 * whole);
}

TEST_F(Faults, AnInputThatOnlyAnotherFileNamesIsNotOverwritten) {
  const std::string config = R"({"model_type": "qwen2", "num_hidden_layers": 2, "hidden_size": 64,
    "num_attention_heads": 4, "num_key_value_heads": 4, "intermediate_size": 64, "vocab_size": 100})";
  const std::string model = file("config.json", config);
  const std::string path = verl("Qwen/Qwen2.5-7B-Instruct", folder.string());
  const Outcome outcome = run_words({"estimate", path, "--steps", "1", "--json", model});
  EXPECT_EQ(outcome.code, kBadInput);
  EXPECT_THAT(outcome.err, HasSubstr("one of the files that were read"));
  EXPECT_EQ(text_of(model), config);
  // What another command read is none of this one's.
  EXPECT_EQ(run_words({"models", "Qwen/Qwen2.5-7B", "--json", model}).code, kDone);
}

TEST_F(Faults, ARecordingOfACorpusIsNotLeftOut) {
  std::filesystem::copy(test::data("rlhf/q05-grpo-lora.json"), folder / "a.json");
  file("b.json", R"({"case": {}, "phases": [)");
  const Outcome outcome = run_words({"compare", "--corpus", folder});
  EXPECT_EQ(outcome.code, kBadInput);
  EXPECT_THAT(outcome.err, HasSubstr("b.json"));
}

TEST_F(Faults, AReplacedFileKeepsItsMode) {
  const std::string path = file("out.json", "old");
  chmod(path.c_str(), 0640);
  EXPECT_EQ(run_words({"gpus", "--json", path}).code, kDone);
  struct stat status {};
  ASSERT_EQ(stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777U, 0640U);
}

TEST_F(Faults, OneBadOutputLosesNoOther) {
  const Outcome outcome = run_words({"estimate", verl(), "--steps", "1", "--json", folder / "none" / "j.json",
                                     "--csv", folder / "c.csv"});
  EXPECT_EQ(outcome.code, kIncomplete);
  EXPECT_THAT(outcome.err, HasSubstr("j.json: could not be written"));
  EXPECT_THAT(text_of(folder / "c.csv"), HasSubstr("weight_sync"));
  EXPECT_THAT(outcome.out, HasSubstr("weight_sync"));
}

}  // namespace
}  // namespace headroom::cli
