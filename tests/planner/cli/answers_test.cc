#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "models/document/document.h"
#include "tests/planner/cli/outcome.h"
#include "tests/support/data.h"

namespace headroom::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

const std::string kVerl = test::source("configs/examples/verl/qwen2.5-0.5b-grpo-1x4090.yaml");
const std::string kUtilization = "actor_rollout_ref.rollout.gpu_memory_utilization";

TEST(Answers, TheGateWarnsOfAMistypedKey) {
  const Outcome outcome = run_words(
      {"check", kVerl, "--steps", "1", "--set", "+actor_rollout_ref.rollout.gpu_memory_utilisation=0.9"});
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("headroom: warning: "), HasSubstr("gpu_memory_utilisation"),
                                 HasSubstr("did you mean " + kUtilization)));
  EXPECT_EQ(run_words({"check", kVerl, "--steps", "1", "--quiet", "--set",
                       "+actor_rollout_ref.rollout.gpu_memory_utilisation=0.9"})
                .err,
            "");
}

TEST(Answers, TheGateSaysWhyARunStops) {
  const Outcome outcome = run_words({"check", kVerl, "--steps", "1", "--set", kUtilization + "=0.05"});
  EXPECT_EQ(outcome.code, kOver);
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("does not fit: "), HasSubstr(" stops in engine_init")));
}

TEST(Answers, ABreakHasNoStepTime) {
  const Outcome outcome = run_words({"plan", kVerl, "--steps", "1", "--top", "1", "--vary",
                                     "gpu_memory_utilization=0.5", "--set", kUtilization + "=0.05"});
  EXPECT_EQ(outcome.code, kDone) << outcome.err;
  EXPECT_THAT(outcome.out, Not(HasSubstr("000")));
}

/// An engine inside the trainer's process is the trainer's program: its caches are the trainer's memory.
TEST(Answers, WhatATrainerGeneratesItAllocates) {
  const Outcome outcome =
      run_words({"simulate", test::source("configs/examples/job/llama-3.2-1b-ppo-1xh100.yaml"), "--steps",
                 "1", "--json", "-"});
  ASSERT_EQ(outcome.code, kDone) << outcome.err;
  const Result<Document> json = parse_document(outcome.out, "report");
  ASSERT_TRUE(json);
  for (const Document& phase : json->find("devices")->items()[0].find("phases")->items()) {
    if (phase.find("phase")->text() != "generate") continue;
    const Document& trainer = phase.find("processes")->items()[0];
    EXPECT_EQ(phase.find("processes")->items().size(), 1u);
    // Keys and values of 16 layers, 8 heads of 64, two bytes; 32 sequences of 511 tokens.
    EXPECT_GT(trainer.find("peak_allocated")->as_int(),
              trainer.find("allocated_start")->as_int().value() + 2 * 16 * 8 * 64 * 2 * 32 * 511);
    return;
  }
  FAIL() << "no generate";
}

TEST(Answers, NoBudgetReachesBeyondTheCard) {
  const Outcome outcome = run_words({"estimate", kVerl, "--budget", "100GiB"});
  EXPECT_EQ(outcome.code, kBadInput);
  EXPECT_THAT(outcome.err, HasSubstr("headroom: --budget: expected at most the card's"));
}

TEST(Answers, QuietCommandsSayTheVerdictInOneLine) {
  const auto line = [](std::vector<std::string> words) {
    words.insert(words.end(), {"--steps", "1", "--quiet"});
    const Outcome outcome = run_words(words);
    EXPECT_EQ(std::count(outcome.out.begin(), outcome.out.end(), '\n'), 1) << words[0] << ": " << outcome.out;
    EXPECT_THAT(outcome.err, IsEmpty());
    return outcome.out;
  };
  const std::vector<std::string> narrow = {"plan", kVerl, "--vary", "gpu_memory_utilization=0.3,0.5"};
  EXPECT_THAT(line(narrow), AllOf(HasSubstr("fits: "), HasSubstr(" s a step"), HasSubstr(kUtilization)));
  std::vector<std::string> tight = narrow;
  tight.insert(tight.end(), {"--budget", "2GiB"});
  EXPECT_THAT(line(tight), HasSubstr("nothing in this space fits"));
  EXPECT_THAT(line({"solve", "gpu_memory_utilization", kVerl}), HasSubstr("gpu_memory_utilization = "));
  EXPECT_THAT(line({"explain", kVerl}), HasSubstr("fits: "));
}

TEST(Answers, WhatCannotFitIsTold) {
  const std::string seven = test::source("configs/examples/verl/qwen2.5-7b-grpo-8xh100.yaml");
  const Outcome outcome = run_words({"explain", seven, "--gpu", "a10"});
  EXPECT_EQ(outcome.code, kOver) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("It stops at the card's end. At least "),
                                 HasSubstr("Nothing that can be turned makes it fit"), HasSubstr("What would"),
                                 HasSubstr("What each technique saves"), HasSubstr("adapters instead of whole weights")));
}

TEST(Answers, APlanSaysWhatEachChangeGivesAndWhatWouldFit) {
  std::vector<std::string> words = {"plan",   kVerl, "--steps", "1", "--vary", "gpu_memory_utilization=0.3,0.5",
                                    "--vary", "gradient_checkpointing"};
  EXPECT_THAT(run_words(words).out, HasSubstr("What each change of the first choice gives and takes"));
  words = {"plan", test::source("configs/examples/verl/qwen2.5-7b-grpo-8xh100.yaml"), "--gpu", "a10", "--vary",
           "gpu_memory_utilization"};
  const Outcome none = run_words(words);
  EXPECT_EQ(none.code, kOver) << none.err;
  EXPECT_THAT(none.out, AllOf(HasSubstr("None fits"), HasSubstr("What would, all else as it is:"), HasSubstr("as many NVIDIA ")));
}

TEST(Answers, AnExplanationNamesTheOperationsThatHoldThePeak) {
  EXPECT_THAT(run_words({"explain", kVerl, "--steps", "1"}).out,
              AllOf(HasSubstr("Largest holders at the trainer's allocated peak"), HasSubstr("module, operation")));
}

TEST(Answers, TheFewestGpusAreAnObjective) {
  std::vector<std::string> words = {"plan",   test::source("configs/examples/verl/qwen2.5-7b-grpo-8xh100.yaml"),
                                    "--vary", "gpu_memory_utilization=0.4,0.6", "--objective", "gpus"};
  EXPECT_THAT(run_words(words).out, HasSubstr("Fewest GPUs: "));
}

TEST(Answers, KnobsGoByTheFrameworksKeysToo) {
  const std::vector<std::string> rest = {kVerl, "--steps", "1"};
  for (const std::string& name :
       {kUtilization, std::string("rollout.gpu_memory_utilization"), std::string("gpu_memory_utilization")}) {
    const Outcome outcome = run_words({"solve", name, kVerl, "--steps", "1"});
    EXPECT_EQ(outcome.code, kDone) << outcome.err;
    EXPECT_THAT(outcome.out, HasSubstr("gpu_memory_utilization = "));
  }
  EXPECT_EQ(
      run_words({"plan", kVerl, "--steps", "1", "--top", "1", "--vary", kUtilization + "=0.3,0.5"}).code,
      kDone);
  EXPECT_EQ(run_words({"solve", "rollout.no_such_key", kVerl}).code, kBadInput);
}

TEST(Answers, JsonOfAnExplanationHasReasonsAndChanges) {
  const Outcome outcome = run_words({"explain", kVerl, "--steps", "1", "--json", "-"});
  ASSERT_EQ(outcome.code, kDone) << outcome.err;
  const Result<Document> json = parse_document(outcome.out, "explanation");
  ASSERT_TRUE(json);
  ASSERT_NE(json->find("reasons"), nullptr);
  ASSERT_NE(json->find("single_changes"), nullptr);
  EXPECT_THAT(json->find("reasons")->items(), Not(IsEmpty()));
  EXPECT_THAT(json->find("single_changes")->items(), Not(IsEmpty()));
  ASSERT_NE(json->find("evidence"), nullptr);
  std::set<std::string> known, of;
  for (const Document& row : json->find("evidence")->items()) {
    known.insert(row.find("known")->text());
    of.insert(row.find("of")->text());
  }
  EXPECT_THAT(known, testing::IsSupersetOf({"recorded", "inferred"}));
  EXPECT_THAT(of, testing::Contains("process"));
  EXPECT_EQ(of.size(), 2u);  // and the engine
}

TEST(Answers, JsonOfAPlanSaysWhatTheReportSays) {
  const Outcome outcome = run_words(
      {"plan", kVerl, "--steps", "1", "--top", "1", "--vary", "gpu_memory_utilization", "--json", "-"});
  ASSERT_EQ(outcome.code, kDone) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("\"framework\": \"verl\""), HasSubstr("\"torch\": \""),
                                 HasSubstr("(the release's container image)")));
}

TEST(Answers, AFlagIsNoFlagsValue) {
  const Outcome outcome = run_words({"estimate", kVerl, "--json", "--quiet"});
  EXPECT_EQ(outcome.code, kBadInput);
  EXPECT_THAT(outcome.err, HasSubstr("--json: expected FILE, found the flag --quiet"));
  EXPECT_FALSE(std::filesystem::exists("--quiet"));
}

TEST(Answers, QuietGivesOneLineEverywhere) {
  const std::string stream = test::data("gate/stream.json"), recording = test::data("rlhf/fr-gpt2.json");
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"replay", stream}, {"compare", recording}, {"compare", stream, stream}}) {
    std::vector<std::string> quiet = words;
    quiet.push_back("--quiet");
    const Outcome outcome = run_words(quiet);
    EXPECT_EQ(outcome.code, kDone) << words[0] << outcome.err;
    EXPECT_EQ(std::count(outcome.out.begin(), outcome.out.end(), '\n'), 1) << words[0] << outcome.out;
  }
}

TEST(Answers, AnyTwoRunsAreCompared) {
  const std::string stream = test::data("gate/stream.json");
  const std::filesystem::path snapshot = test::scratch() / "any-two.pickle", predicted = test::scratch() / "any-two.json";
  ASSERT_EQ(run_words({"simulate", kVerl, "--steps", "1", "--pickle", snapshot, "--json", predicted}).code, kDone);
  for (const std::vector<std::string>& sides : {std::vector<std::string>{kVerl, snapshot}, {snapshot, kVerl}, {predicted, snapshot},
                                                {snapshot, predicted}, {kVerl, kVerl}, {snapshot, snapshot}}) {
    const Outcome outcome = run_words({"compare", sides[0], sides[1], "--steps", "1"});
    EXPECT_THAT(outcome.code, ::testing::AnyOf(kDone, kDisagrees)) << sides[0] << " " << sides[1] << outcome.err;
    EXPECT_THAT(outcome.out, AllOf(HasSubstr("first:  " + sides[0]), HasSubstr("second: " + sides[1]), HasSubstr("train")));
  }
  // What the simulator predicts is what its own snapshot holds.
  EXPECT_THAT(run_words({"compare", predicted, snapshot, "--quiet"}).out, HasSubstr("allocated peaks within 0.0"));
  const Outcome apart = run_words({"compare", stream, snapshot});
  EXPECT_EQ(apart.code, kBadInput);
  EXPECT_THAT(apart.err, HasSubstr("expected a phase of a name that"));
  std::filesystem::remove(snapshot);
  std::filesystem::remove(predicted);
}

TEST(Answers, WhatIsNotModelledHasNoSuggestion) {
  const std::filesystem::path path = test::scratch() / "not-modelled.yaml";
  std::ifstream in(kVerl);
  std::string text{std::istreambuf_iterator<char>(in), {}};
  text.replace(text.find("\ntrainer:"), 9, "\ntrainerr:");
  std::ofstream(path) << text;
  const Outcome outcome = run_words({"estimate", path, "--steps", "1", "--gpus-per-node", "8"});
  EXPECT_EQ(outcome.code, kUndetermined) << outcome.out;
  EXPECT_THAT(outcome.out, Not(HasSubstr("try:")));
  std::filesystem::remove(path);
}

TEST(Answers, NamesOfProfilesAreShownEscaped) {
  std::ifstream in(test::source("configs/hardware/h100.yaml"));
  std::string text{std::istreambuf_iterator<char>(in), {}};
  const std::size_t name = text.find("NVIDIA H100");
  ASSERT_NE(name, std::string::npos);
  text.replace(name, 6, "\\e[31mN");
  const std::size_t start = text.rfind(':', name) + 2, end = text.find('\n', name);
  text = text.substr(0, start) + "\"" + text.substr(start, end - start) + "\"" + text.substr(end);
  const std::filesystem::path path = test::scratch() / "escaped.yaml";
  std::ofstream(path) << text;
  const Outcome outcome = run_words({"gpus", path});
  EXPECT_EQ(outcome.code, kDone) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("\\x1b[31mN"), Not(HasSubstr("\x1b"))));
  std::filesystem::remove(path);
}

TEST(Answers, ARecordingIsComparedWithItsOwnCase) {
  const std::string run = test::source("tests/data/rlhf/fr-gpt2.json");
  const Outcome alone = run_words({"compare", run});
  EXPECT_EQ(alone.code, kDone) << alone.err;
  EXPECT_EQ(alone.out, run_words({"compare", run, run}).out);
}

TEST(Answers, ARecordingHasPhases) {
  const std::string run = test::source("configs/examples/verl/qwen2.5-0.5b-grpo-1x4090.yaml");
  const std::filesystem::path empty = test::scratch() / "no_phases.json";
  std::ofstream(empty) << R"({"phases": []})";
  const Outcome outcome = run_words({"compare", run, empty});
  std::ofstream(empty)
      << R"({"phases": [{"step": 0, "phase": "generate", "peak_alloc": 1, "peak_reserved": 1}]})";
  EXPECT_THAT(run_words({"compare", run, empty}).out, HasSubstr("numbers of allocations: not recorded"));
  std::filesystem::remove(empty);
  EXPECT_EQ(outcome.code, kBadInput);
  EXPECT_THAT(outcome.err, HasSubstr("no_phases.json: phases: expected measured phases, found none"));
  EXPECT_EQ(outcome.out, "");
}

/// A case has no knobs; the message says whose files have.
TEST(Answers, SearchSaysWhichFrameworksHaveKnobs) {
  const std::string run = test::source("tests/data/rlhf/fr-gpt2.json");
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"plan", run}, {"plan", run, "--min-gpus"}}) {
    const Outcome outcome = run_words(words);
    EXPECT_EQ(outcome.code, kBadInput);
    EXPECT_THAT(outcome.err, AllOf(HasSubstr("job, verl"), HasSubstr("found one of torch")));
  }
}

TEST(Answers, ACardThatIsNoneIsToldByItsPlace) {
  const std::filesystem::path file = test::scratch() / "tpu.yaml";
  std::ofstream(file) << "batch: 4\nprompt: 16\nresponse: 8\ndevice: TPU v5\nactor: {model_type: gpt2, "
                         "vocab_size: 512, n_layer: 2, n_head: 2, n_embd: 64}\n";
  const Outcome outcome = run_words({"estimate", file});
  std::filesystem::remove(file);
  EXPECT_EQ(outcome.code, kBadInput);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("tpu.yaml:4: device: "), HasSubstr("TPU v5")));
}

/// The first example of the loop's page, as printed.
TEST(Answers, TheDocumentedCaseRuns) {
  std::ifstream page(test::source("docs/TORCH_LOOP.md"));
  const std::filesystem::path file = test::scratch() / "documented.yaml";
  std::ofstream example(file);
  bool within = false;
  for (std::string line; std::getline(page, line);) {
    if (within && line == "```") break;
    if (within) example << line << "\n";
    within = within || line == "```yaml";
  }
  example.close();
  const Outcome outcome = run_words({"estimate", file});
  std::filesystem::remove(file);
  EXPECT_TRUE(outcome.code == kDone || outcome.code == kOver || outcome.code == kUndetermined) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  EXPECT_THAT(outcome.out, HasSubstr("train_actor"));
}

TEST(Answers, ACorpusHasRecordings) {
  const std::filesystem::path folder = test::scratch() / "no_recordings";
  std::filesystem::create_directories(folder);
  const Outcome outcome = run_words({"compare", "--corpus", folder});
  std::filesystem::remove_all(folder);
  EXPECT_EQ(outcome.code, kBadInput);
  EXPECT_THAT(outcome.err, HasSubstr("expected recordings"));
}

}  // namespace
}  // namespace headroom::cli
