/// Every JSON output follows the schema that `headroom schema` prints for it.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/planner/cli/outcome.h"
#include "tests/support/data.h"
#include "tests/support/json_schema.h"

namespace headroom::cli {
namespace {

using Json = nlohmann::json;

TEST(Schemas, OutputsFollowThem) {
  const std::string verl = test::source("configs/examples/verl/qwen2.5-0.5b-grpo-1x4090.yaml");
  const std::vector<std::vector<std::string>> commands = {
      {"estimate", verl, "--steps", "1"},
      {"simulate", verl, "--steps", "1"},
      {"explain", verl, "--steps", "1"},
      {"explain", verl, "--steps", "1", "--budget", "3GiB"},
      {"plan", verl, "--steps", "1", "--vary", "gpu_memory_utilization", "--top", "1"},
      {"plan", verl, "--steps", "1", "--vary", "gpu_memory_utilization", "--budget", "3GiB"},
      {"solve", "gpu_memory_utilization", verl, "--steps", "1"},
      {"solve", "response_length", verl, "--steps", "1", "--budget", "2GiB"},
      {"solve", "mini_batch", verl, "--steps", "1"},
      {"check", verl, verl, "--steps", "1"},
      {"replay", test::data("snapshots/basic.pickle.gz").string()},
      {"replay", test::data("gate/stream.json").string()},
      {"compare", test::data("rlhf/q05-grpo-lora.json").string()},
  };
  for (std::vector<std::string> words : commands) {
    const Json schema = Json::parse(run_words({"schema", words.front()}).out);
    words.insert(words.end(), {"--json", "-"});
    const Outcome outcome = run_words(words);
    const Json value = Json::parse(outcome.out, nullptr, false);
    ASSERT_FALSE(value.is_discarded()) << words.front() << ": " << outcome.err;
    EXPECT_EQ(test::schema_violation(schema, value), "") << words.front();
  }
}

TEST(Schemas, TheOwnJobFilesIsTheDefault) {
  EXPECT_EQ(run_words({"schema"}).out, run_words({"schema", "job"}).out);
  EXPECT_EQ(run_words({"schema", "chek"}).code, kBadInput);
}

}  // namespace
}  // namespace headroom::cli
