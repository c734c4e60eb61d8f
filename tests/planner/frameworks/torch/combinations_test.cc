#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "simulator/phases/simulate.h"
#include "tests/planner/frameworks/case_reading.h"

namespace headroom {
namespace {

/// Keys of the loop with values that every other key may stand beside.
struct Choice {
  const char* key;
  std::vector<const char*> values;
};

const std::vector<Choice>& choices() {
  static const std::vector<Choice> table = {
      {"algo", {"ppo", "grpo"}},
      {"use_ref", {"true", "false"}},
      {"use_reward", {"true", "false"}},
      {"precision", {"bf16", "fp16", "fp32", "amp", "master", "fsdp"}},
      {"precision", {"master", "fsdp"}},
      {"frozen_dtype", {"bfloat16", "float16", "float32"}},
      {"adam", {"foreach", "fused", "loop"}},
      {"clip", {"true", "false"}},
      {"dropout_off", {"true", "false"}},
      {"token_logprob", {"log_softmax", "cross_entropy", "logsumexp", "fused"}},
      {"logits_fp32", {"true", "false"}},
      {"grad_ckpt", {"true", "false"}},
      {"reentrant", {"true", "false"}},
      {"lora", {"0", "4"}},
      {"lora_targets", {"all-linear", R"('.*\.\d+\..*')"}},
      {"activation_offload", {"true", "false"}},
      {"ems", {"true", "false"}},
      {"empty_cache", {"none", "inference", "training", "all"}},
      {"empty_after_init", {"true", "false"}},
      {"attn", {"sdpa", "eager"}},
      {"no_generate", {"true", "false"}},
      {"pass_mask", {"true", "false"}},
      {"cpu_offload", {"true", "false"}},
      {"ref_offload", {"true", "false"}},
      {"shard_frozen", {"true", "false"}},
      {"reshard_after_forward", {"true", "false"}},
      {"_conf", {"''", "'expandable_segments:True'", "'max_split_size_mb:64'"}},
      {"_world", {"1", "2", "4"}},
      {"epochs", {"1", "2"}},
      {"trace", {"true", "frames", "false"}},
      {"logprob_micro_batch", {"1", "2", "3", "8"}},
      {"micro_batch", {"1", "2", "3", "6"}},
      {"critic",
       {"{model_type: gpt2, vocab_size: 256, n_embd: 32, n_layer: 1, n_head: 2, n_positions: 64}",
        "{model_type: qwen2, vocab_size: 256, hidden_size: 32, intermediate_size: 64, num_hidden_layers: 1, "
        "num_attention_heads: 2, num_key_value_heads: 1}"}},
  };
  return table;
}

std::string drawn(std::mt19937& random) {
  static const char* const kActors[] = {
      "{model_type: llama, vocab_size: 256, hidden_size: 32, intermediate_size: 64, num_hidden_layers: 2, "
      "num_attention_heads: 2, num_key_value_heads: 1}",
      "{model_type: opt, vocab_size: 256, hidden_size: 32, word_embed_proj_dim: 32, ffn_dim: 64, "
      "num_hidden_layers: 2, num_attention_heads: 2, max_position_embeddings: 64}",
      "{model_type: gpt_neox, vocab_size: 256, hidden_size: 32, intermediate_size: 64, num_hidden_layers: 2, "
      "num_attention_heads: 2}"};
  std::string text = fmt::format("actor: {}\nbatch: 6\nprompt: 8\nresponse: 4\n", kActors[random() % 3]);
  std::string last;
  for (const Choice& choice : choices()) {
    if (random() % 3 != 0 || choice.key == last) continue;
    last = choice.key;
    text += fmt::format("{}: {}\n", choice.key, choice.values[random() % choice.values.size()]);
  }
  return text;
}

/// What the loop runs is predicted: no key forbids another.
TEST(CombinationsOfKeys, AreAllPredicted) {
  std::mt19937 random(7);
  for (int i = 0; i < 80; ++i) {
    const std::string text = drawn(random);
    SCOPED_TRACE(text);
    const Result<ReadJob> read = test::read_case(text);
    ASSERT_TRUE(read) << read.error().text();
    ASSERT_TRUE(validate_job(read->job)) << validate_job(read->job).error().text();
    const Result<Report> report = simulate(read->job, {});
    ASSERT_TRUE(report) << report.error().text();
    for (const PhaseReport& phase : report->devices.at(0).phases) {
      const ProcessPhase& row = phase.processes.at(0);
      ASSERT_GT(row.peak_allocated, 0) << phase.phase;
      ASSERT_EQ(row.at_peak_allocated.total(), row.peak_allocated) << phase.phase;
    }
  }
}

}  // namespace
}  // namespace headroom
