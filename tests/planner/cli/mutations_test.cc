/// A fixed sample of what the fuzzers do, in every run of the suite: files of every kind that the command line reads,
/// damaged. Whatever they say, the program ends with one of its exit codes, names the file, and obeys none of it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tests/planner/cli/outcome.h"
#include "tests/support/data.h"
#include "tests/support/replay.h"

namespace headroom::cli {
namespace {

struct Seed {
  const char* name;                 ///< of the test
  const char* file;                 ///< below the source tree
  std::vector<std::string> before;  ///< words; the damaged file follows
  std::vector<std::string> after;
};

void PrintTo(const Seed& seed, std::ostream* out) {
  *out << seed.name;
}

std::vector<Seed> seeds() {
  const std::string verl = test::source("configs/examples/verl/qwen2.5-7b-grpo-8xh100.yaml");
  return {
      {"Verl", "configs/examples/verl/qwen2.5-7b-grpo-8xh100.yaml", {"estimate"}, {"--steps", "1"}},
      {"VerlWords", "configs/examples/verl/qwen2.5-3b-grpo-4xl40s.args", {"estimate"}, {"--steps", "1"}},
      {"Job", "configs/examples/job/llama-3.2-1b-ppo-1xh100.yaml", {"estimate"}, {"--steps", "1"}},
      {"DeepSpeedChat",
       "configs/examples/deepspeed-chat/opt-1.3b-ppo-zero3-offload-2xh100.yaml",
       {"estimate"},
       {"--steps", "1"}},
      {"NemoRl", "configs/examples/nemo-rl/qwen2.5-1.5b-grpo-1xh100.yaml", {"estimate"}, {"--steps", "1"}},
      {"EasyR1", "configs/examples/easyr1/qwen2.5-7b-grpo-8xh100.yaml", {"estimate"}, {"--steps", "1"}},
      {"Trl", "configs/examples/trl/llama-3.2-1b-dpo-fsdp2-2xh100.yaml", {"estimate"}, {"--steps", "1", "--gpu", "H100"}},
      {"ChatLearn", "configs/examples/chatlearn/qwen2.5-7b-grpo-fsdp-8xh100.yaml", {"estimate"}, {"--steps", "1"}},
      {"OpenRlhfScript",
       "configs/examples/openrlhf/qwen3-8b-grpo-dotted-8xh200.sh",
       {"estimate"},
       {"--steps", "1", "--gpu", "H200"}},
      {"DeepSpeedChatScript",
       "configs/examples/deepspeed-chat/opt-350m-rm-zero2-4x3090.sh",
       {"estimate"},
       {"--steps", "1", "--gpu", "3090"}},
      {"ColossalChatScript",
       "configs/examples/colossalchat/bloom-560m-rm-zero2-2xa10.sh",
       {"estimate"},
       {"--steps", "1", "--gpu", "A10"}},
      {"TrlScript",
       "configs/examples/trl/pythia-1b-ppo-zero2-2xh100.sh",
       {"check"},
       {"--steps", "1", "--gpu", "H100", "--lengths", "mean=100,max=200"}},
      {"Accelerate",
       "tests/data/gate/accelerate.yaml",
       {"estimate", "--gpu", "H100", "--steps", "1", "--", "accelerate", "launch", "--config_file"},
       {"trl/scripts/sft.py", "--model_name_or_path", "Qwen/Qwen2.5-0.5B", "--dataset_name", "trl-lib/Capybara", "--bf16"}},
      {"DeepSpeedFile",
       "tests/data/gate/deepspeed.json",
       {"estimate", "--gpu", "H100", "--steps", "1", "--", "torchrun", "--nproc_per_node", "8", "trl/scripts/sft.py",
        "--model_name_or_path", "Qwen/Qwen2.5-0.5B", "--dataset_name", "trl-lib/Capybara", "--deepspeed"},
       {}},
      {"Model", "tests/data/gate/config.json", {"models"}, {}},
      {"Lengths", "configs/lengths/gsm8k.yaml", {"estimate", verl, "--steps", "1", "--lengths"}, {}},
      {"Study", "tests/data/gate/study.yaml", {"study"}, {"--threads", "1"}},
      {"Snapshot", "tests/data/snapshots/basic.pickle.gz", {"replay"}, {"--no-what-if"}},
      {"CaseFile", "tests/data/rlhf/fr-opt.json", {"compare"}, {}},
      {"Log", "tests/data/gate/verl.log", {"compare", verl}, {"--steps", "1"}},
      {"Profile", "configs/hardware/h100.yaml", {"estimate", verl, "--steps", "1", "--gpu"}, {}},
      {"Policy", "tests/data/gate/policy.yaml", {"check", verl, "--steps", "1", "--policy"}, {}},
      {"Baseline", "tests/data/gate/baseline.json", {"check", verl, "--steps", "1", "--baseline"}, {}},
      {"Stream", "tests/data/gate/stream.json", {"replay"}, {}},
      {"Recording", "tests/data/rlhf/q05-grpo-lora.json", {"compare", verl}, {"--steps", "1"}},
  };
}

class Mutations : public ::testing::TestWithParam<Seed> {};

TEST_P(Mutations, EndInAnAnswerOrARefusal) {
  // More of them, and others, by `./test --fuzz`: HEADROOM_MUTATIONS=FIRST:COUNT.
  std::uint64_t first = 0, each = 24;
  if (const char* asked = std::getenv("HEADROOM_MUTATIONS")) {
    ASSERT_EQ(std::sscanf(asked, "%" SCNu64 ":%" SCNu64, &first, &each), 2);
  }
  const Seed& seed = GetParam();
  std::ifstream in(test::source(seed.file), std::ios::binary);
  const std::string whole{std::istreambuf_iterator<char>(in), {}};
  ASSERT_FALSE(whole.empty());
  const std::filesystem::path folder = test::scratch() / ("mutations_" + std::string(seed.name));
  std::filesystem::create_directories(folder);
  const std::string path = folder / std::filesystem::path(seed.file).filename();
  std::filesystem::copy_file(test::source("docs/guide/jobs/minimal.yaml"), folder / "run.yaml",
                             std::filesystem::copy_options::overwrite_existing);  // what the study runs
  for (std::uint64_t i = first; i < first + each; ++i) {
    std::ofstream(path, std::ios::binary) << test::mutated(whole, i);
    std::vector<std::string> words = seed.before;
    words.push_back(path);
    words.insert(words.end(), seed.after.begin(), seed.after.end());
    const Outcome outcome = run_words(words);
    EXPECT_THAT(outcome.code, ::testing::AnyOf(kDone, kBadInput, kOver, kDisagrees, kUndetermined))
        << i << ": " << outcome.err;
    EXPECT_TRUE(outcome.code != kBadInput || outcome.err.starts_with("headroom: ")) << i << ": " << outcome.err;
    for (const std::string& text : {outcome.out, outcome.err})
      EXPECT_TRUE(std::none_of(text.begin(), text.end(),
                               [](unsigned char c) { return (c < 0x20 && c != '\n' && c != '\t') || c == 0x7f; }))
          << i;
  }
  std::filesystem::remove_all(folder);
}

INSTANTIATE_TEST_SUITE_P(Files, Mutations, ::testing::ValuesIn(seeds()),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace headroom::cli
