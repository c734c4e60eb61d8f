#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

#include "models/document/document.h"
#include "planner/writers/gate.h"
#include "tests/planner/cli/outcome.h"
#include "tests/support/data.h"
#include "tests/support/json_schema.h"

namespace headroom::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::json;

class Gate : public ::testing::Test {
 protected:
  std::filesystem::path folder =
      test::scratch() / ("gate_" + std::string(::testing::UnitTest::GetInstance()->current_test_info()->name()));

  void SetUp() override { std::filesystem::create_directories(folder / "in" / "deep"); }
  void TearDown() override { std::filesystem::remove_all(folder); }

  static std::string text_of(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(folder / name) << text;
    return folder / name;
  }
  /// A configuration that fits, with one value changed.
  std::string config(const std::string& name, const std::string& from = "", const std::string& to = "") const {
    std::string text = text_of(test::source("configs/examples/verl/qwen2.5-7b-grpo-8xh100.yaml"));
    if (!from.empty()) text.replace(text.find(from), from.size(), to);
    return write(name, text);
  }
  static Outcome check(std::vector<std::string> words) {
    words.insert(words.begin(), "check");
    words.insert(words.end(), {"--steps", "1"});
    return run_words(words);
  }
};

TEST_F(Gate, LooksThroughDirectories) {
  config("in/a.yaml");
  config("in/deep/b.yml");
  write("in/other.yaml", "services: {web: {image: x}}");
  write("in/notes.txt", "a: [");
  const Outcome outcome = check({folder / "in"});
  EXPECT_EQ(outcome.code, kDone) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("in/a.yaml: fits"), HasSubstr("in/deep/b.yml: fits"),
                                 HasSubstr("2 configurations: 2 fit"), Not(HasSubstr("other"))));
  EXPECT_THAT(check({(folder / "in").string() + "/**/*.yml"}).out, AllOf(HasSubstr("b.yml"), Not(HasSubstr("a.yaml"))));
  EXPECT_EQ(check({folder / "in" / "other.yaml"}).code, kBadInput);  // named, so meant
  EXPECT_EQ(check({folder / "in" / "other.yaml", "--skip-others"}).code, kDone);
  EXPECT_EQ(check({folder / "none"}).code, kBadInput);
  EXPECT_EQ(check({(folder / "in").string() + "/*.toml"}).code, kBadInput);
}

TEST_F(Gate, LooksAtLaunchScriptsToo) {
  write("in/run.sh",
        "python3 -m verl.trainer.main_ppo actor_rollout_ref.model.path=Qwen/Qwen2.5-0.5B-Instruct "
        "actor_rollout_ref.rollout.name=vllm actor_rollout_ref.actor.use_dynamic_bsz=true "
        "actor_rollout_ref.rollout.log_prob_use_dynamic_bsz=true trainer.n_gpus_per_node=8\n");
  config("in/deep/a.yaml");
  // What a run uses, and what starts none, is none itself.
  write("in/setup.sh", "pip install verl\nsource nowhere/activate\n");
  write("in/data.sh", "python3 prepare_data.py --out data\n");
  write("in/zero3.json", R"({"zero_optimization": {"stage": 3}})");
  write("in/accelerate.yaml", "compute_environment: LOCAL_MACHINE\ndistributed_type: DEEPSPEED\n");
  const Outcome outcome = check({folder / "in", "--gpu", "h100"});
  EXPECT_EQ(outcome.code, kDone) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("in/run.sh: fits"), HasSubstr("in/deep/a.yaml: fits"),
                                 HasSubstr("2 configurations: 2 fit")));
  write("in/broken.sh", "python3 -m verl.trainer.main_ppo 'data.x=\n");
  EXPECT_EQ(check({folder / "in", "--gpu", "h100"}).code, kBadInput);
}

TEST_F(Gate, AFileThatCannotBeReadFails) {
  config("in/a.yaml");
  write("in/broken.yaml", "actor_rollout_ref: [\n");
  const Outcome outcome = check({folder / "in"});
  EXPECT_EQ(outcome.code, kBadInput);
  EXPECT_THAT(outcome.err, HasSubstr("broken.yaml:"));
  EXPECT_THAT(outcome.out, HasSubstr("1 fits, 1 could not be read"));
}

TEST_F(Gate, TellsUndeterminedApart) {
  const std::string open = config("in/a.yaml", "\ntrainer:", "\ntrainerr:");
  EXPECT_EQ(check({open}).code, kUndetermined);
  const std::string over = config("in/b.yaml");
  EXPECT_EQ(check({open, over, "--budget", "30GiB"}).code, kOver);
  const auto as = [&](const std::string& what) {
    return check({open, "--policy", write("p.yaml", "headroom: policy/1\nundetermined: " + what + "\n")}).code;
  };
  EXPECT_EQ(as("fits"), kDone);
  EXPECT_EQ(as("over"), kOver);
  EXPECT_EQ(as("undetermined"), kUndetermined);
  EXPECT_EQ(as("maybe"), kBadInput);
  // The key that nobody knows is the one to blame.
  EXPECT_THAT(check({open, "--github"}).out, HasSubstr("headroom%3A undetermined::trainerr."));
}

TEST_F(Gate, APolicyHasRulesByPath) {
  config("in/a.yaml");
  config("in/deep/b.yaml");
  const std::string policy = write(".headroom.yaml",
                                   "headroom: policy/1\npaths:\n  - {match: 'in/deep/*', budget: 30GiB}\n"
                                   "  - {match: '**/a.yaml', skip: true}\n");
  const Outcome outcome = check({folder / "in", "--policy", policy});
  EXPECT_EQ(outcome.code, kOver) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("of 30.00 GiB"), Not(HasSubstr("a.yaml"))));
  EXPECT_EQ(check({folder / "in", "--policy", policy, "--budget", "79GiB"}).code, kDone);  // the flag wins
  const auto error = [&](const std::string& text) {
    return check({folder / "in", "--policy", write("p.yaml", text)}).err;
  };
  EXPECT_THAT(error("headroom: policy/1\nbudgett: 3GiB\n"), HasSubstr("p.yaml:2: budgett: unknown key; nearest is budget"));
  EXPECT_THAT(error("headroom: policy/1\nbudget: much\n"), HasSubstr("p.yaml:2: budget: "));
  EXPECT_THAT(error("headroom: policy/2\n"), HasSubstr("expected policy/1"));
  EXPECT_THAT(error("headroom: policy/1\npaths: [{budget: 1GiB}]\n"), HasSubstr("expected `match`"));
}

TEST_F(Gate, AWarningThatThePolicyDoesNotAllowIsTooMuch) {
  const std::string path =
      config("in/a.yaml", "gpu_memory_utilization: 0.5", "gpu_memory_utilization: 0.25");  // a small cache
  EXPECT_EQ(check({path}).code, kDone);
  const auto code = [&](const std::string& codes) {
    return check({path, "--policy", write("p.yaml", "headroom: policy/1\nallowed_warnings: " + codes + "\n")}).code;
  };
  EXPECT_EQ(code("[]"), kOver);
  EXPECT_EQ(code("[kv-preemption, host-unchecked, configuration]"), kDone);
}

TEST_F(Gate, HoldsAgainstABaseline) {
  const std::string path = config("in/a.yaml"), baseline = folder / "base.json";
  ASSERT_EQ(check({path, "--write-baseline", baseline}).code, kDone);
  EXPECT_EQ(check({path, "--baseline", baseline, "--max-growth", "0%"}).code, kDone);
  const std::string grown = config("in/a.yaml", "ppo_max_token_len_per_gpu: 16384", "ppo_max_token_len_per_gpu: 20480");
  const Outcome outcome = check({grown, "--baseline", baseline, "--max-growth", "0.5%", "--json", folder / "now.json"});
  EXPECT_EQ(outcome.code, kOver);
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("the peak grows from"), HasSubstr("where 0.5 % are allowed")));
  EXPECT_EQ(check({grown, "--baseline", baseline, "--max-growth", "500%"}).code, kDone);
  // What check wrote as JSON is a baseline too.
  EXPECT_EQ(check({grown, "--baseline", folder / "now.json", "--max-growth", "0%"}).code, kDone);
  EXPECT_THAT(check({grown, "--max-growth", "1%"}).err, HasSubstr("expected --baseline too"));
  EXPECT_THAT(check({grown, "--baseline", path}).err, HasSubstr("expected a baseline"));
}

TEST_F(Gate, JsonFollowsItsSchemaAndSaysWhatTheTextSays) {
  const std::string good = config("in/a.yaml"), bad = write("in/b.yaml", "actor_rollout_ref: {a: [}");
  const Outcome outcome = check({good, bad, "--json", "-"});
  const Json json = Json::parse(outcome.out);
  EXPECT_EQ(test::schema_violation(Json::parse(writers::gate_schema()), json), "");
  EXPECT_EQ(json["counts"]["fits"], 1);
  EXPECT_EQ(json["counts"]["error"], 1);
  EXPECT_EQ(json["configurations"][0]["file"], good);
  EXPECT_EQ(check({good}).out, good + ": " + json["configurations"][0]["reason"].get<std::string>() + "\n");
  EXPECT_EQ(json["configurations"][1]["blame"]["line"], 1);
}

TEST_F(Gate, ReportsForOtherPrograms) {
  const std::string over = config("in/a&<b>.yaml"), broken = write("in/c.yaml", "actor_rollout_ref: [\n");
  const Outcome outcome = check({over, broken, "--budget", "30GiB", "--junit", folder / "j.xml", "--sarif",
                                 folder / "s.json", "--github", "--markdown", folder / "m.md"});
  EXPECT_EQ(outcome.code, kBadInput);
  const std::string junit = text_of(folder / "j.xml");
  EXPECT_THAT(junit, AllOf(HasSubstr("tests=\"2\" failures=\"1\" errors=\"1\" skipped=\"0\""),
                           HasSubstr("a&amp;&lt;b&gt;.yaml"), HasSubstr("<failure message=\"does not fit: ")));
  const Json sarif = Json::parse(text_of(folder / "s.json"));
  EXPECT_EQ(sarif["version"], "2.1.0");
  const Json& first = sarif["runs"][0]["results"][0];
  EXPECT_EQ(first["ruleId"], "over");
  const int line = first["locations"][0]["physicalLocation"]["region"]["startLine"];
  // The line that is blamed has the key that is named.
  const std::string message = first["message"]["text"];
  const std::string key = message.substr(0, message.find(": "));
  std::istringstream lines(text_of(over));
  std::string text;
  for (int i = 0; i < line; ++i) std::getline(lines, text);
  EXPECT_THAT(text, HasSubstr(key.substr(key.rfind('.') + 1) + ":"));
  for (const Json& result : sarif["runs"][0]["results"]) {
    const auto& rules = sarif["runs"][0]["tool"]["driver"]["rules"];
    EXPECT_TRUE(std::any_of(rules.begin(), rules.end(), [&](const Json& r) { return r["id"] == result["ruleId"]; }));
  }
  EXPECT_THAT(outcome.out, HasSubstr("::error file="));
  EXPECT_THAT(text_of(folder / "m.md"), HasSubstr("| **over** |"));
}

TEST_F(Gate, AStepSummaryIsAddedTo) {
  const std::string summary = write("summary.md", "before\n");
  setenv("GITHUB_STEP_SUMMARY", summary.c_str(), 1);
  const Outcome outcome = check({config("in/a.yaml"), "--github"});
  unsetenv("GITHUB_STEP_SUMMARY");
  EXPECT_EQ(outcome.code, kDone);
  EXPECT_THAT(text_of(summary), AllOf(testing::StartsWith("before\n"), HasSubstr("1 configuration: 1 fits")));
}

/// The workflow and the hook to copy do what they say.
TEST_F(Gate, TheWorkflowAndTheHookRun) {
  const Document workflow = read_document(test::source("configs/ci/github-workflow.yaml")).value();
  const Document* steps = workflow.find_path("jobs.memory.steps");
  ASSERT_NE(steps, nullptr);
  const Document hooks = read_document(test::source("configs/ci/pre-commit-hooks.yaml")).value();
  std::vector<std::string> lines;
  for (const Document& step : steps->items())
    if (const Document* run = step.find("run")) lines.push_back(run->text());
  // A hook is given the files that its pattern lets through.
  lines.push_back(hooks.items().at(0).find("entry")->text() + " configs/a.yaml");
  EXPECT_TRUE(std::regex_search("configs/a.yaml", std::regex(hooks.items().at(0).find("files")->text())));
  ASSERT_EQ(lines.size(), 2u);
  std::filesystem::create_directories(folder / "configs");
  config("configs/a.yaml");
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(folder);
  EXPECT_EQ(run_words({"check", "configs", "--write-baseline", "headroom-baseline.json"}).code, kDone);
  for (const std::string& line : lines) {
    std::istringstream stream(line);
    std::vector<std::string> words{std::istream_iterator<std::string>(stream), {}};
    ASSERT_EQ(words.front(), "headroom");
    words.erase(words.begin());
    const Outcome outcome = run_words(words);
    EXPECT_EQ(outcome.code, kDone) << line << ": " << outcome.err;
  }
  EXPECT_TRUE(std::filesystem::exists("headroom.sarif"));
  std::filesystem::current_path(before);
}

/// Of many, those far from their limit are decided by the closed form, and no verdict differs.
TEST_F(Gate, ManyAreDecidedAsFewAre) {
  std::vector<std::string> words;
  for (int i = 0; i < 24; ++i)
    words.push_back(config("in/c" + std::to_string(i) + ".yaml", "gpu_memory_utilization: 0.5",
                           "gpu_memory_utilization: 0." + std::to_string(20 + 3 * i)));
  std::vector<std::string> exact = words;
  exact.push_back("--exact");
  words.insert(words.end(), {"--json", "-"});
  exact.insert(exact.end(), {"--json", "-"});
  const Json quick = Json::parse(check(words).out), slow = Json::parse(check(exact).out);
  std::size_t closed = 0;
  for (std::size_t i = 0; i < 24; ++i) {
    EXPECT_EQ(quick["configurations"][i]["status"], slow["configurations"][i]["status"]) << i;
    if (quick["configurations"][i]["report"]["executor"] == "closed_form") ++closed;
    EXPECT_EQ(slow["configurations"][i]["report"]["executor"], "simulator");
  }
  EXPECT_GT(closed, 0u);
}

TEST_F(Gate, OnlyWhatMayFragmentIsSimulatedOfMany) {
  // A fifth of the card is left, most of the rest is the engine's: what the trainer reserves can't double to that.
  std::vector<std::string> words{test::source("configs/examples/verl/qwen2.5-32b-grpo-4x8xh100.yaml")};
  for (int i = 0; i < 20; ++i) words.push_back(config("in/c" + std::to_string(i) + ".yaml"));
  words.insert(words.end(), {"--json", "-"});
  const Json found = Json::parse(check(words).out);
  EXPECT_EQ(found["configurations"][0]["report"]["executor"], "closed_form");
  EXPECT_EQ(found["configurations"][0]["status"], "fits");
}

}  // namespace
}  // namespace headroom::cli
