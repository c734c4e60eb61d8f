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

TEST_P(EveryCase, IsSimulatedWithTheNativeAllocatorAlone) {
  EXPECT_THAT(refusal("alloc_conf: backend:cudaMallocAsync"),
              AllOf(HasSubstr("alloc_conf"), HasSubstr("cudaMallocAsync"), HasSubstr("native")));
  EXPECT_EQ(refusal("alloc_conf: backend:native"), "accepted");
}

TEST_P(EveryCase, WarnsWhereRotaryPositionsEnd) {
  const std::string key = std::string(GetParam()) == "trl" ? "model" : "actor";
  const Result<ReadJob> read = test::read_case(text, {key + ".max_position_embeddings=23"});
  ASSERT_TRUE(read) << read.error().text();
  ASSERT_EQ(read->warnings.size(), 1u);
  EXPECT_EQ(read->warnings[0].key, key);
  EXPECT_THAT(read->warnings[0].message, HasSubstr("is 23, found prompt and response of 16 + 8"));
  EXPECT_TRUE(test::read_case(text, {key + ".max_position_embeddings=24"})->warnings.empty());
}

TEST_P(EveryCase, TakesAModelFromTheCommandLine) {
  const std::string key = std::string(GetParam()) == "trl" ? "model" : "actor";
  JobInput input;
  const std::string without =
      text.substr(0, text.find(key + ":")) + (key == "actor" ? "zero_stage: 2\n" : "");
  for (const std::string& one : {text, without}) {
    input.files = {{"case.yaml", parse_document(one, "case.yaml").value(), one}};
    JobOptions options;
    options.framework = GetParam();
    options.model = "Qwen/Qwen2.5-0.5B";
    const Result<ReadJob> read = read_job(input, options);
    ASSERT_TRUE(read) << read.error().text();
    EXPECT_EQ(read->job.role("actor")->model->family, "qwen2");
    options.model = "nobody/nothing";
    const Result<ReadJob> none = read_job(input, options);
    ASSERT_FALSE(none);
    EXPECT_THAT(none.error().text(), HasSubstr("nobody/nothing"));
  }
}

TEST_P(EveryCase, WarnsOfFlagsWithoutEffect) {
  JobInput input;
  input.files = {{"case.yaml", parse_document(text, "case.yaml").value(), text}};
  JobOptions options;
  options.nodes = 2;
  options.gpus_per_node = 4;
  const Result<ReadJob> read = read_job(input, options);
  ASSERT_TRUE(read) << read.error().text();
  ASSERT_EQ(read->warnings.size(), 2u);
  EXPECT_EQ(read->warnings[0].key, "--nodes");
  EXPECT_EQ(read->warnings[1].key, "--gpus-per-node");
}

INSTANTIATE_TEST_SUITE_P(Frameworks, EveryCase, testing::Values("torch", "trl", "deepspeed-chat"));

/// Two spellings of a setting: (framework, a line, the other spelling's line, the same value in it).
struct Twice {
  const char *framework, *own, *other, *same, *trainer = "";
};

class TwoSpellings : public testing::TestWithParam<Twice> {};

TEST_P(TwoSpellings, AgreeOrAreRefused) {
  const auto [framework, own, other, same, trainer] = GetParam();
  const auto key = [](const std::string& line) { return line.substr(0, line.find(": ")); };
  std::string text = case_of(framework);
  const auto replace = [&](const std::string& line) {
    const std::size_t at = ("\n" + text).find("\n" + key(line) + ":");
    if (at != std::string::npos) text.erase(at, text.find('\n', at) - at + 1);
    text += line + "\n";
  };
  if (*trainer != '\0') replace(trainer);
  replace(own);
  const auto both = [&](const std::string& second) { return test::read_case(text + second + "\n"); };
  const Result<ReadJob> refused = both(other);
  ASSERT_FALSE(refused) << own << ", " << other;
  EXPECT_THAT(refused.error().text(), AllOf(HasSubstr(key(own)), HasSubstr(key(other))));
  const Result<ReadJob> agreed = both(same);
  ASSERT_TRUE(agreed) << agreed.error().text();
  const std::string line = other, value = line.substr(line.find(": ") + 2);
  if (value.find('{') != std::string::npos || key(other) == "total_episodes") return;
  EXPECT_TRUE(test::read_case(text, {key(other) + "=" + value})) << "the command line goes before the file";
}

constexpr const char *kTorch = "torch", *kTrl = "trl", *kDeepSpeed = "deepspeed-chat";
INSTANTIATE_TEST_SUITE_P(
    OfASetting, TwoSpellings,
    testing::Values(
        Twice{kTorch, "algo: grpo", "algorithm: ppo", "algorithm: grpo"},
        Twice{kTorch, "_conf: max_split_size_mb:64", "alloc_conf: ''", "alloc_conf: max_split_size_mb:64"},
        Twice{kTrl, "batch: 8", "per_device_train_batch_size: 4", "per_device_train_batch_size: 8"},
        Twice{kTrl, "accum: 2", "gradient_accumulation_steps: 4", "gradient_accumulation_steps: 2"},
        Twice{kTrl, "response: 8", "max_completion_length: 4", "max_completion_length: 8"},
        Twice{kTrl, "steps: 2", "max_steps: 4", "max_steps: 2"},
        Twice{kTrl, "grad_ckpt: true", "gradient_checkpointing: false", "gradient_checkpointing: true"},
        Twice{kTrl, "response: 8", "response_length: 4", "response_length: 8", "trainer: ppo"},
        Twice{kTrl, "epochs: 2", "num_ppo_epochs: 1", "num_ppo_epochs: 2", "trainer: ppo"},
        Twice{kTrl, "rollout_batch: 4", "local_rollout_forward_batch_size: 2",
              "local_rollout_forward_batch_size: 4", "trainer: ppo"},
        Twice{kTrl, "steps: 2", "total_episodes: 4", "total_episodes: 8", "trainer: ppo"},
        Twice{kDeepSpeed, "reduce_bucket_size: 1000", "zero_extra: {reduce_bucket_size: 2000}",
              "zero_extra: {reduce_bucket_size: 1000}"},
        Twice{kDeepSpeed, "overlap_comm: true", "zero_extra: {overlap_comm: false}",
              "zero_extra: {overlap_comm: true}"}));

/// A critic reads the actor's tokens.
TEST(Critic, HasARowForEachOfTheActorsTokens) {
  for (const std::string framework : {"torch", "deepspeed-chat"}) {
    const std::string text = case_of(framework) + "critic: " + kModel + "\n";
    EXPECT_TRUE(test::read_case(text));
    EXPECT_TRUE(test::read_case(text, {"critic.vocab_size=600"}));
    test::expect_refused(text, {{"critic.vocab_size=511", "critic"}});
  }
  const std::string scored = case_of("torch") + "algo: grpo\nuse_reward: true\ncritic: " + kModel + "\n";
  test::expect_refused(scored, {{"critic.vocab_size=511", "critic"}});
}

/// Transformers falls back to eager attention where a family has no other and nothing is asked for.
TEST(Attention, OfAFamilyWithoutAFusedForm) {
  const std::string bloom = "{model_type: bloom, vocab_size: 512, hidden_size: 64, n_layer: 2, n_head: 2}";
  const auto of = [&](const std::string& framework, const std::string& more = "") {
    std::string text = case_of(framework);
    text.replace(text.find(kModel), std::string(kModel).size(), bloom);
    return test::read_case(text + more);
  };
  for (const char* framework : {"trl", "deepspeed-chat"}) {
    const Result<ReadJob> read = of(framework);
    ASSERT_TRUE(read) << read.error().text();
    EXPECT_EQ(read->job.role("actor")->attention, AttentionImplementation::eager);
  }
  EXPECT_TRUE(of("torch", "attn: eager\n"));
  const Result<ReadJob> fused = of("torch", "attn: sdpa\n");
  ASSERT_FALSE(fused);
  EXPECT_THAT(fused.error().text(), AllOf(HasSubstr("case.json:5: attn"), HasSubstr("expected eager")));
}

TEST(MicroBatches, AreTheBatchsFault) {
  const std::string text = "batch: 16777216\nmicro_batch: 1\nprompt: 16\nresponse: 8\nactor: ";
  const Result<ReadJob> read = test::read_case(text + kModel);
  ASSERT_FALSE(read);
  EXPECT_THAT(read.error().text(), AllOf(HasSubstr("case.json:1: batch: "), HasSubstr("micro-batches")));
}

TEST(DeepSpeedSections, AreMaps) {
  test::expect_refused(case_of("deepspeed-chat"),
                       {{"fp16_extra=7", "fp16_extra"}, {"zero_extra=[1]", "zero_extra"}});
}

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
