#include "planner/frameworks/case_file.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/planner/frameworks/case_reading.h"

namespace headroom {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr const char* kModel =
    "{model_type: llama, vocab_size: 512, hidden_size: 64, intermediate_size: 128, num_hidden_layers: 2, "
    "num_attention_heads: 2, num_key_value_heads: 1}";

/// The same small run in the three kinds of case.
std::string case_of(const std::string& framework) {
  std::string text = "batch: 4\nprompt: 16\nresponse: 8\n";
  if (framework == "trl") return text + "trainer: grpo\nnum_generations: 4\nmodel: " + kModel + "\n";
  text += std::string("actor: ") + kModel + "\n";
  return framework == "torch" ? text : text + "zero_stage: 2\n";
}

class EveryCase : public testing::TestWithParam<const char*> {
 protected:
  std::string text = case_of(GetParam());

  /// The error of the case with `line` in place of the line of the same key, or after all.
  std::string refusal(const std::string& line) const {
    std::string out;
    const std::string key = line.substr(0, line.find(':') + 1);
    std::size_t at = 0, number = 0, place = 0;
    for (std::size_t end; (end = text.find('\n', at)) != std::string::npos; at = end + 1) {
      ++number;
      const std::string own = text.substr(at, end - at);
      if (own.starts_with(key)) place = number;
      out += (own.starts_with(key) ? line : own) + "\n";
    }
    if (place == 0) {
      out += line + "\n";
      place = number + 1;
    }
    const Result<ReadJob> read = test::read_case(out);
    if (read) return "accepted";
    EXPECT_EQ(read.error().file, "case.json") << read.error().text();
    EXPECT_EQ(read.error().line, static_cast<int>(place)) << read.error().text();
    return read.error().text();
  }
};

TEST_P(EveryCase, IsDetectedAlone) {
  const Result<ReadJob> read = test::read_case(text);
  ASSERT_TRUE(read) << read.error().text();
  EXPECT_EQ(read->job.framework, GetParam());
  EXPECT_TRUE(read->warnings.empty());
}

TEST_P(EveryCase, NamesTheKeyOfABadNumber) {
  for (const char* key : {"batch", "prompt", "response"}) {
    const auto bad = [&](const std::string& value, const std::string& found) {
      EXPECT_THAT(refusal(fmt::format("{}: {}", key, value)),
                  AllOf(HasSubstr(key), HasSubstr("expected"), HasSubstr("found " + found)));
    };
    bad("null", "null");
    bad("2.0", "2.0");
    bad("2.5", "2.5");
    bad("1e3", "1e3");
    bad("\"4\"", "\"4\"");
    bad("''", "\"\"");
    bad("-1", "-1");
    bad("0", "0");
    bad("true", "true");
    bad("[4]", "a list");
    bad("{a: 1}", "a map");
    bad("99999999999", "99999999999");
    bad("999999999999999999999999999999", "999999999999999999999999999999");
    bad("1e300", "1e300");
  }
}

TEST_P(EveryCase, TakesBooleansForFlags) {
  for (const char* value : {"1", "0", "'yes'", "\"true\"", "2", "1.0", "maybe", "[true]"})
    EXPECT_THAT(refusal(std::string("grad_ckpt: ") + value),
                AllOf(HasSubstr("grad_ckpt"), HasSubstr("expected true or false, found")))
        << value;
}

TEST_P(EveryCase, NamesTheKeyOfBadAllocatorSettings) {
  EXPECT_THAT(refusal("alloc_conf: max_split_size_mb:few"),
              AllOf(HasSubstr("alloc_conf"), HasSubstr("expected"), HasSubstr("max_split_size_mb:few")));
}

TEST_P(EveryCase, WarnsOfEachUnknownKey) {
  const Result<ReadJob> read =
      test::read_case(text + "grad_ckptt: true\nquite_another: 1\nname: a\ngroup: b\nseed: 1\ntrace: true\n");
  ASSERT_TRUE(read) << read.error().text();
  ASSERT_EQ(read->warnings.size(), 2u);
  EXPECT_EQ(read->warnings[0].key, "grad_ckptt");
  EXPECT_THAT(read->warnings[0].message, HasSubstr("nearest known: grad_ckpt"));
  EXPECT_GT(read->warnings[0].line, 0);
  EXPECT_EQ(read->warnings[1].key, "quite_another");
  EXPECT_EQ(std::count_if(read->keys.begin(), read->keys.end(),
                          [](const KeyUse& use) { return use.state == KeyUse::State::unknown; }),
            2);
}

TEST_P(EveryCase, NeedsItsModel) {
  const std::string key = std::string(GetParam()) == "trl" ? "model" : "actor";
  const std::string framework = GetParam();
  JobInput input;
  const std::string none = "batch: 4\nprompt: 16\nresponse: 8\nzero_stage: 2\n" + key + ": null\n";
  input.files.push_back({"case.yaml", parse_document(none, "case.yaml").value(), none});
  JobOptions options;
  options.framework = framework;
  const Result<ReadJob> read = read_job(input, options);
  ASSERT_FALSE(read);
  EXPECT_THAT(read.error().text(), AllOf(HasSubstr("case.yaml:5: " + key), HasSubstr("found null")));
}

INSTANTIATE_TEST_SUITE_P(Frameworks, EveryCase, testing::Values("torch", "trl", "deepspeed-chat"));

TEST(Detection, KnowsACaseWithoutItsRecording) {
  const std::string model = kModel;
  const auto framework = [](const std::string& text) -> std::string {
    const Result<ReadJob> read = test::read_case(text);
    return read ? read->job.framework : read.error().text();
  };
  EXPECT_EQ(framework("case: {trainer: grpo, batch: 8, prompt: 4, response: 4, model: " + model + "}"),
            "trl");
  EXPECT_EQ(framework("{batch: 8, prompt: 4, response: 4, model: " + model + "}"), "trl");
  EXPECT_THAT(framework("case: {trainer: grpo, batch: 8}"), HasSubstr("model: expected"));
  EXPECT_EQ(framework("case: {zero_stage: 3, batch: 8, prompt: 4, response: 4, actor: " + model + "}"),
            "deepspeed-chat");
  EXPECT_THAT(framework("{case: {batch: 8, prompt: 4, response: 4, actor: " + model + "}, engines: {}}"),
              HasSubstr("zero_stage: expected"));
  EXPECT_THAT(framework("{batch: 8, response: 4, actor: " + model + "}"), HasSubstr("prompt: expected"));
}

TEST(Detection, ListsEveryFramework) {
  const Result<ReadJob> read = test::read_case("{a: 1}");
  ASSERT_FALSE(read);
  for (const Framework& framework : frameworks())
    EXPECT_THAT(read.error().text(), HasSubstr(std::string(framework.name)));
}

TEST(Versions, OfTrlIsTheRecordersWithoutOne) {
  EXPECT_EQ(test::read_case(case_of("trl"))->job.versions.framework, "1.9.0");
}

}  // namespace
}  // namespace headroom
