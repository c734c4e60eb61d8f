#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/planner/cli/outcome.h"
#include "tests/support/data.h"

namespace headroom::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

const std::string kVerl = "configs/examples/verl/qwen2.5-7b-grpo-8xh100.yaml";
const std::string kJob = "configs/examples/job/llama-3.2-1b-ppo-1xh100.yaml";

/// `text` with `from` replaced once.
std::string with(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

class BadInput : public ::testing::Test {
 protected:
  std::filesystem::path folder =
      test::scratch() /
      (std::string("bad_input_") + ::testing::UnitTest::GetInstance()->current_test_info()->name());

  void SetUp() override { std::filesystem::create_directories(folder); }
  void TearDown() override { std::filesystem::remove_all(folder); }

  std::string write(const std::string& name, const std::string& text) {
    const std::filesystem::path path = folder / name;
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }

  /// Refused with one message on one line that begins with the place, nothing else said and nothing written.
  void refused(std::vector<std::string> words, const std::string& place, const std::string& says = "") {
    SCOPED_TRACE(::testing::PrintToString(words));
    const std::filesystem::path output = folder / "output.json";
    std::filesystem::remove(output);
    words.insert(words.end(), {"--json", output});
    const Outcome outcome = run_words(words);
    EXPECT_EQ(outcome.code, kBadInput);
    EXPECT_THAT(outcome.err, StartsWith("headroom: " + place));
    EXPECT_THAT(outcome.err, HasSubstr(says));
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
    EXPECT_LT(outcome.err.size(), 2000u);
    EXPECT_EQ(outcome.out, "");
    // The gate's report tells of what could not be read, too.
    EXPECT_TRUE(words.front() == "check" || !std::filesystem::exists(output));
  }

  /// The same of a file with `text`, by every command that reads a configuration.
  void refused_text(const std::string& name, const std::string& text, const std::string& at,
                    const std::string& says = "") {
    const std::string path = write(name, text);
    for (const char* command : {"estimate", "check", "plan"}) refused({command, path}, path + at, says);
  }
};

TEST_F(BadInput, FilesThatAreNone) {
  refused({"estimate", folder / "missing.yaml"}, (folder / "missing.yaml").string() + ": ");
  refused({"estimate", folder}, folder.string() + ": ");
  refused_text("empty.yaml", "", "");
  refused_text("blank.yaml", "\n# nothing\n", "");
  refused_text("binary.yaml",
               std::string("\x00\x01\xff\xfe\x7f"
                           "ELF\x00",
                           9),
               "");
  refused_text("cut.yaml", text_of(test::source(kVerl)).substr(0, 40), "");
  refused_text("list.yaml", "- 1\n- 2\n", "");
}

TEST_F(BadInput, BrokenSyntaxNamesItsLine) {
  refused_text("tabs.yaml", "data:\n\ttrain_batch_size: 1\n", ":2: ");
  refused_text("open.yaml", "data: {train_batch_size: 1\n", ":");
  refused_text("open.json", "{\"actor\": {\"model_type\": \"llama\",\n", ":");
  refused_text("quote.yaml", "data:\n  a: \"x\n", ":");
  refused_text("twice.yaml", with(text_of(test::source(kVerl)), "algorithm:\n", "data: {}\nalgorithm:\n"),
               ":");
}

TEST_F(BadInput, VerlValuesOfTheWrongKindNameTheirKey) {
  const std::string verl = text_of(test::source(kVerl));
  const std::vector<std::array<std::string, 3>> rows = {
      {"train_batch_size: 256", "train_batch_size: many", "data.train_batch_size"},
      {"train_batch_size: 256", "train_batch_size: [1]", "data.train_batch_size"},
      {"train_batch_size: 256", "train_batch_size: -256", "data.train_batch_size"},
      {"train_batch_size: 256", "train_batch_size: 0", "data.train_batch_size"},
      {"train_batch_size: 256", "train_batch_size: 99999999999999999999", "data.train_batch_size"},
      {"max_prompt_length: 1024", "max_prompt_length: -1", "data.max_prompt_length"},
      {"max_response_length: 2048", "max_response_length: 9223372036854775807", "max_response_length"},
      {"enable_gradient_checkpointing: true", "enable_gradient_checkpointing: perhaps",
       "enable_gradient_checkpointing"},
      {"n_gpus_per_node: 8", "n_gpus_per_node: 0", "trainer.n_gpus_per_node"},
      {"nnodes: 1", "nnodes: -1", "trainer.nnodes"},
      {"tensor_model_parallel_size: 2", "tensor_model_parallel_size: 3", "tensor_model_parallel_size"},
      {"tensor_model_parallel_size: 2", "tensor_model_parallel_size: 8", "28 attention heads"},
      {"gpu: H100", "gpu: H1000", "headroom.gpu: no hardware profile named H1000"},
      {"n: 8\n", "n: 8\n    n: 9\n", "expected a key once, found 'n'"},
      {"gpu_memory_utilization: 0.5", "gpu_memory_utilization: 7", "gpu_memory_utilization"},
      {"strategy: fsdp", "strategy: zero", "strategy"},
      {"path: Qwen/Qwen2.5-7B-Instruct", "path: nobody/nothing", "path"},
  };
  for (const auto& [from, to, key] : rows) refused_text("run.yaml", with(verl, from, to), ":", key);
}

TEST_F(BadInput, JobValuesOfTheWrongKindNameTheirKey) {
  const std::string job = text_of(test::source(kJob));
  const std::vector<std::array<std::string, 3>> rows = {
      {"prompts: 32", "prompts: many", "prompts"},
      {"prompts: 32", "prompts: 0", "prompts"},
      {"prompts: 32", "prompts: -1", "prompts"},
      {"prompts: 32", "prompts: 99999999999999999999", "prompts"},
      {"prompt_length: 256", "prompt_lenght: 256", "prompt_lenght"},
      {"prompts: 32", "prompts: 1000000000", "roles.actor: expected at most 16384 micro-batches"},
      {"mini_batch: 16", "epochs: 1000000000", "roles.actor: expected at most 16384 micro-batches"},
      {"gpu: H100", "gpu: H1000", "gpu: no hardware profile named H1000"},
      {"gpu: H100", "gpu: H100\npools: [{name: main, gpus_per_node: 0}]", "pools.0.gpus_per_node"},
      {"gpu: H100", "gpu: H100\npools: [{name: main, gpus_per_node: 64}]", "64 data-parallel ranks"},
      {"kind: transformers", "kind: vllm\n    tensor: 3", "engines.generate.tensor"},
      {"engine: generate", "engine: other", "no engine is named other"},
      {"{do: train, role: actor}", "{do: train, role: ref}", "the optimizer of role ref"},
      {"{do: train, role: actor}", "{do: create_states, role: ref}", "the optimizer of role ref"},
      {"step:\n", "start: [{phase: init, actions: [{do: join_group, role: actor}]}]\nstep:\n",
       "has not been built"},
      {"- name: ref", "- nam: ref", "nam"},
  };
  for (const auto& [from, to, key] : rows) refused_text("job.yaml", with(job, from, to), ":", key);
}

TEST_F(BadInput, TorchCasesOfTheWrongKindNameTheirKey) {
  const std::string text =
      R"({"actor": {"model_type": "llama", "hidden_size": 64, "intermediate_size": 128,
 "num_hidden_layers": 2, "num_attention_heads": HEADS, "num_key_value_heads": 4, "vocab_size": 128},
 "prompt": PROMPT, "response": 16, "batch": 4, "micro": 2, "ppo_epochs": 1})";
  const auto variant = [&](const std::string& heads, const std::string& prompt) {
    return with(with(text, "HEADS", heads), "PROMPT", prompt);
  };
  refused_text("case.json", variant("4", "-5"), ":", "prompt");
  refused_text("case.json", variant("4", "\"long\""), ":", "prompt");
  refused_text("case.json", variant("4", "99999999999999999999"), ":", "prompt");
  refused_text("case.json", variant("0", "16"), "");
  refused_text("case.json", variant("-4", "16"), "");
}

TEST_F(BadInput, FlagsAreCheckedLikeFiles) {
  const std::string verl = test::source(kVerl);
  refused({"estimate", verl, "--set", "data.train_batch_size"}, "--set");
  refused({"estimate", verl, "--set", "data.train_batch_size=x"}, "", "data.train_batch_size");
  refused({"estimate", verl, "--set", "trainer.n_gpus_per_node=0"}, "", "n_gpus_per_node");
  refused({"estimate", verl, "--set", "a=" + std::string(100'000, '[')}, "");
  refused({"check", verl, "--budget", "lots"}, "--budget");
  refused({"check", verl, "--budget", "76"}, "--budget");
  refused({"check", verl, "--budget", "99999999999999999999GiB"}, "--budget");
  refused({"check", verl, "--budget", "nowhere=1GiB"}, "--budget");
  for (const char* nothing : {"0GiB", "0B", "main=0GiB"})
    refused({"check", verl, "--budget", nothing}, "--budget", "expected more than nothing");
  refused({"check", verl, "--host-budget", "0GiB"}, "--host-budget", "expected more than nothing");
  refused({"check", verl, "--margin", "-1GiB"}, "--margin");
  refused({"estimate", verl, "--gpu", "H1000"}, "--gpu", "h100");
  refused({"estimate", verl, "--gpu", folder}, "");
  refused({"estimate", verl, "--gpu", write("gpu.yaml", "name: [")}, "");
  refused({"estimate", verl, "--model", folder / "none"}, "");
  refused({"estimate", verl, "--lengths", "mean=-5"}, "--lengths");
  refused({"estimate", verl, "--lengths", "mean=99999999"}, "--lengths");
  refused({"estimate", verl, "--lengths", "mean=x,max=1"}, "--lengths");
  refused({"estimate", verl, "--lengths", folder / "none.txt"}, "");
  refused({"estimate", verl, "--framework", "nothing"}, "--framework");
  refused({"estimate", verl, "--include-path", folder / "none"}, "--include-path");
  refused({"estimate", verl, "--set", "data.train_batch_size=${data.train_batch_size}"}, "--set",
          "in a circle");
  refused({"estimate", verl, "--set", "++data.train_batch_size=${oc.env:NOT_SET_ANYWHERE}"}, "--set");
  refused({"estimate", verl, "--set", "data={"}, "--set");
  refused({"estimate", verl, "--set", "data=5"}, "--set", "expected a map");
  refused({"estimate", verl, "--set", "=5"}, "--set");
  refused({"estimate", verl, "--set", "actor_rollout_ref.rollout.gpu_memory_utilization=nan"}, "--set");
  refused({"estimate", verl, "--set", "actor_rollout_ref.rollout.gpu_memory_utilization=inf"}, "--set");
  refused({"estimate", verl, "--set", "+headroom.gpuu=H200"}, "--set", "did you mean 'headroom.gpu'?");
  refused({"estimate", verl, "--lengths", "mean=nan"}, "--lengths");
  refused({"plan", verl, "--vary", "nothing"}, "--vary");
  refused({"plan", verl, "--fix", "strategy=zero"}, "--fix");
  refused({"plan", verl, "--objective", "fame"}, "--objective");
  refused({"plan", verl, "--top", "0"}, "--top");
  refused({"solve", "nothing", verl}, "");
}

/// Models whose numbers cannot be: named where they stand, before anything is multiplied.
TEST_F(BadInput, ModelsAreCheckedLikeFiles) {
  const std::string verl = test::source(kVerl);
  const auto model = [&](const std::string& layers, const std::string& hidden) {
    std::filesystem::create_directories(folder / "model");
    return write("model/config.json",
                 "{\"model_type\": \"llama\",\n\"num_hidden_layers\": " + layers +
                     ", \"hidden_size\": " + hidden +
                     ", \"intermediate_size\": 14336,\n\"num_attention_heads\": 32, \"vocab_size\": 128256}");
  };
  for (const auto& [layers, hidden] :
       std::vector<std::pair<const char*, const char*>>{{"1000000000", "4096"},
                                                        {"100000", "4096"},
                                                        {"-1", "4096"},
                                                        {"2", "9223372036854775808"},
                                                        {"2", "[4096]"}}) {
    const std::string file = model(layers, hidden);
    refused({"estimate", verl, "--model", folder / "model"}, file + ":2: ");
  }
  refused({"estimate", verl, "--model", write("list.json", "[]")}, (folder / "list.json").string() + ":1: ");
  refused({"estimate", verl, "--model", write("none.json", "{\"model_type\": \"nonesuch\"}")},
          (folder / "none.json").string() + ":1: model_type: ");
  const std::string text(100'000, 's');
  for (const std::string& foreign : {text, "{\"model_type\": \"" + text + "\"}",
                                     "{\"model_type\": \"llama\", \"hidden_size\": \"" + text + "\"}",
                                     "{\"model_type\": \"llama\", \"dtype\": \"" + text + "\"}"})
    refused({"estimate", verl, "--model", write("foreign.json", foreign)},
            (folder / "foreign.json").string() + ":1: ");
  const std::string notes = write("notes.txt", "some\nprivate notes\n");
  EXPECT_THAT(run_words({"estimate", verl, "--model", notes}).err, ::testing::Not(HasSubstr("private")));
  refused({"estimate", verl, "--set", "actor_rollout_ref.rollout.name=" + text}, "--set");
  std::filesystem::create_directories(folder / "empty");
  refused({"estimate", verl, "--model", folder / "empty"}, verl + ":", "config.json");
}

std::string repeated(const std::string& text, std::size_t times) {
  std::string out;
  out.reserve(text.size() * times);
  for (std::size_t i = 0; i < times; ++i) out += text;
  return out;
}

/// Peak memory of this process grew by less than that.
class Bounded {
 public:
  explicit Bounded(std::int64_t kib) : limit_(peak() + kib) {}
  ~Bounded() { EXPECT_LT(peak(), limit_); }

 private:
  static std::int64_t peak() {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
  }
  std::int64_t limit_;
};

constexpr std::int64_t kMib = 1024;  // KiB

TEST_F(BadInput, NestingIsBounded) {
  const Bounded memory(1024 * kMib);
  refused_text("deep.yaml", repeated("[", 1'000'000), ":");
  refused_text("deep.json", repeated("{\"a\":", 200'000), ":");
  std::string indented;
  for (std::size_t i = 0; i < 2'000; ++i) indented += std::string(i, ' ') + "a:\n";
  refused_text("stairs.yaml", indented, ":");
}

TEST_F(BadInput, AliasesDoNotMultiply) {
  const Bounded memory(1024 * kMib);
  std::string bomb = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n";
  for (int i = 1; i < 30; ++i) {
    const std::string last = "*a" + std::to_string(i - 1);
    bomb += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [" + last;
    for (int k = 0; k < 9; ++k) bomb += "," + last;
    bomb += "]\n";
  }
  refused_text("bomb.yaml", bomb, ":");
  refused_text("loop.yaml", "a: &a [*a]\n", ":");
}

TEST_F(BadInput, TenMillionLinesAreRefusedByTheirSize) {
  const std::string path = write("long.yaml", repeated("k: 1\n", 10'000'000));
  const Bounded memory(1024 * kMib);
  refused({"estimate", path}, path + ": ");
}

TEST_F(BadInput, AnUnwritableOutputIsIncomplete) {
  const std::string verl = test::source(kVerl);
  for (const std::string& place :
       {(folder / "none" / "out.json").string(), std::string("/dev/full"), folder.string()}) {
    const Outcome outcome = run_words({"estimate", verl, "--quiet", "--json", place});
    EXPECT_EQ(outcome.code, kIncomplete) << place;
    EXPECT_THAT(outcome.err, StartsWith("headroom: " + place));
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder));
}

TEST_F(BadInput, APlanThatCannotBeWrittenIsNotMade) {
  const std::string place = (folder / "none" / "best.yaml").string();
  const Outcome outcome = run_words({"plan", test::source(kVerl), "--yaml", place});
  EXPECT_EQ(outcome.code, kIncomplete);
  EXPECT_THAT(outcome.err, StartsWith("headroom: " + place + ": could not be written"));
  EXPECT_EQ(outcome.out, "");
}

}  // namespace
}  // namespace headroom::cli
