#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "models/document/document.h"
#include "planner/frameworks/registry.h"
#include "simulator/phases/simulate.h"
#include "simulator/replay/text_file.h"
#include "tests/support/data.h"

namespace headroom {
namespace {

using testing::HasSubstr;

/// Cases of the plain PyTorch loop: what contradicts itself is refused by its key, and each key does
/// something.

constexpr const char* kModel =
    R"(model_type: llama, vocab_size: 1000, hidden_size: 128, intermediate_size: 256,
        num_hidden_layers: 4, num_attention_heads: 4, num_key_value_heads: 2)";

Result<ReadJob> read(const std::string& keys) {
  std::string text = "actor: {" + std::string(kModel) + "}\n";
  if (keys.find("actor:") != std::string::npos) text.clear();
  for (const char* size : {"batch: 4", "prompt: 16", "response: 16"}) {
    const std::string key = std::string(size).substr(0, std::string(size).find(':') + 1);
    if (("\n" + keys).find("\n" + key) == std::string::npos) text += std::string(size) + "\n";
  }
  JobInput input;
  input.files.push_back(
      {.path = "case.yaml", .document = parse_document(text + keys, "case.yaml").value(), .text = {}});
  JobOptions options;
  options.framework = "torch";
  return read_job(input, options);
}

/// The highest allocated bytes of any phase.
Bytes peak(const std::string& keys) {
  const Result<ReadJob> job = read(keys);
  EXPECT_TRUE(job) << (job ? "" : job.error().text());
  const Result<Report> report = simulate(job->job, {});
  EXPECT_TRUE(report) << (report ? "" : report.error().text());
  Bytes out = 0;
  for (const PhaseReport& phase : report->devices.front().phases)
    out = std::max(out, phase.processes.front().peak_allocated);
  return out;
}

struct Bad {
  const char* keys;
  const char* key;      ///< that the error names
  const char* message;  ///< a part of it
};

class Contradiction : public testing::TestWithParam<Bad> {};

TEST_P(Contradiction, IsRefusedByItsKey) {
  const Result<ReadJob> job = read(GetParam().keys);
  ASSERT_FALSE(job) << GetParam().keys;
  EXPECT_THAT(job.error().text(), HasSubstr(GetParam().key));
  EXPECT_THAT(job.error().text(), HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    OfACase, Contradiction,
    testing::Values(Bad{"micro_batch: 3", "micro_batch", "divisor of the batch of 4"},
                    Bad{"precision: tf32", "precision", "tf32"}, Bad{"adam: adafactor", "adam", "adafactor"},
                    Bad{"token_logprob: softmax", "token_logprob", "softmax"},
                    Bad{"attn: xformers", "attn", "xformers"},
                    Bad{"empty_cache: always", "empty_cache", "always"}, Bad{"batch: 0", "batch", "0"},
                    Bad{"batch: four", "batch", "four"}, Bad{"steps: -1", "steps", "-1"},
                    Bad{"actor: {model_type: gpt2, n_layer: 2, n_head: 2, n_embd: 64, n_positions: 24}",
                        "response", "24 positions"},
                    Bad{"actor: {model_type: gpt2, n_layer: 2, n_head: 2, n_embd: 64, n_positions: 8}",
                        "prompt", "8 positions"},
                    Bad{"actor: {model_type: lama}", "actor", "lama"},
                    Bad{"lora: 8\nlora_targets: [query_proj]", "lora_targets", "query_proj"},
                    Bad{"lora: 8\nlora_targets: q_proj", "lora_targets", "whole names"},
                    Bad{"lora: 8\nlora_targets: []", "lora_targets", "an empty list"},
                    Bad{"lora: 8\nlora_targets: [lm_head]", "lora_targets", "the head lm_head"},
                    Bad{"lora: 8\nlora_targets: [q_proj, lm_head]", "lora_targets", "the head lm_head"},
                    Bad{"lora: 8\nlora_targets: '.*(q_proj|head)'", "lora_targets", "the head lm_head"},
                    Bad{"lora: 8\nlora_targets: '(q_proj'", "lora_targets", "(q_proj"},
                    Bad{"frozen_dtype: float64", "frozen_dtype", "bfloat16, float16 or float32"},
                    Bad{"_conf: max_split_size_mb:x", "_conf", "max_split_size_mb"},
                    Bad{"alloc_conf: 'expandable:True'", "alloc_conf", "expandable"},
                    Bad{"grad_ckpt_every: 2", "grad_ckpt_every", "grad_ckpt"},
                    Bad{"algo: rloo", "algo", "rloo"},
                    Bad{"algo: sft\nno_generate: true", "no_generate", "sft"},
                    Bad{"algo: dpo\nuse_ref: false", "use_ref", "dpo"},
                    Bad{"algo: dpo\nbatch: 3", "batch", "even"}, Bad{"amp_dtype: fp16", "amp_dtype", "amp"},
                    Bad{"precision: fp16\ngrad_scaler: true", "grad_scaler", "never unscaled"},
                    Bad{"adam: 8bit\nprecision: fsdp", "adam", "8bit"}));

/// Keys that the loop does not come to read: the run is the same without them, and a warning says so.
class NoEffect : public testing::TestWithParam<Bad> {};

TEST_P(NoEffect, IsAWarning) {
  const Result<ReadJob> with = read(GetParam().keys);
  ASSERT_TRUE(with) << with.error().text();
  ASSERT_EQ(with->warnings.size(), 1u) << GetParam().keys;
  EXPECT_EQ(with->warnings[0].key, GetParam().key);
  EXPECT_THAT(with->warnings[0].message, HasSubstr(GetParam().message));
  EXPECT_GT(with->warnings[0].line, 0);
  for (const KeyUse& use : with->keys)
    EXPECT_EQ(use.state == KeyUse::State::ignored, use.key == GetParam().key) << use.key;
  std::string others = GetParam().keys;
  others.erase(others.rfind('\n') + 1);
  EXPECT_EQ(peak(GetParam().keys), peak(others));
}

INSTANTIATE_TEST_SUITE_P(
    OfACase, NoEffect,
    testing::Values(Bad{"lora_targets: [q_proj]", "lora_targets", "`lora`"},
                    Bad{"reentrant: true", "reentrant", "`grad_ckpt: true`"},
                    Bad{"cpu_offload: true", "cpu_offload", "fsdp"},
                    Bad{"ref_offload: true", "ref_offload", "fsdp"},
                    Bad{"reshard_after_forward: false", "reshard_after_forward", "fsdp"},
                    Bad{"shard_frozen: false", "shard_frozen", "fsdp"},
                    Bad{"fused_chunk: 64", "fused_chunk", "fused"},
                    Bad{"token_logprob: fused\nlogits_fp32: true", "logits_fp32", "no logits"},
                    Bad{"precision: fsdp\nshard_frozen: false\nref_offload: true", "ref_offload", "frozen"},
                    Bad{"algo: grpo\ncritic: {model_type: gpt2, n_layer: 2, n_head: 2, n_embd: 64}", "critic",
                        "neither"}));

/// fp32 copies of the adapters, which PEFT keeps in fp32 already: two matrices of rank 4 on 128 x 128 a
/// layer.
TEST(Lora, AdaptersHaveMasterCopiesToo) {
  const std::string lora = "algo: grpo\nlora: 4\nlora_targets: [q_proj]\n";
  const auto init = [&](const std::string& keys) {
    return simulate(read(keys)->job, {})->devices[0].phases[0].processes[0];
  };
  const ProcessPhase with = init(lora + "precision: master"), without = init(lora);
  EXPECT_EQ(with.n_allocs, without.n_allocs + 2 * 4);
  EXPECT_EQ(with.allocated_end, without.allocated_end + 4 * 2 * (4 * 128 * 4));
}

TEST(Lora, TargetsAreReadAsPeftReadsThem) {
  const auto of = [&](const std::string& targets, const std::string& role) {
    const Result<ReadJob> job = read("lora: 4\nlora_targets: " + targets);
    EXPECT_TRUE(job) << job.error().text();
    return job ? job->job.role(role)->lora->targets : std::vector<std::string>{};
  };
  const std::vector<std::string> first = {"model.layers.0.self_attn.q_proj",
                                          "model.layers.0.self_attn.v_proj"};
  EXPECT_EQ(of("'model\\.layers\\.0\\..*(q|v)_proj'\nalgo: grpo", "actor"), first)
      << "a text is an expression";
  EXPECT_EQ(of("'.*\\.0\\..*[qv]_proj|v_head'", "critic").back(), "v_head");
  EXPECT_EQ(of("'(model|body)\\.layers\\.0\\..*[qv]_proj'", "critic"), first) << "its body's names";
  const Result<ReadJob> some = read("algo: grpo\nlora: 4\nlora_targets: [q_proj, c_attn]");
  ASSERT_TRUE(some) << some.error().text();
  EXPECT_EQ(some->job.role("actor")->lora->targets, std::vector<std::string>{"q_proj"});
  ASSERT_EQ(some->warnings.size(), 1u);
  EXPECT_THAT(some->warnings[0].message, HasSubstr("c_attn"));
}

/// Logits of some positions at a time: the log-prob pass holds three fp32 values a number of one chunk.
TEST(FusedLogprobs, HoldOneChunkOfLogits) {
  const auto held = [&](const std::string& keys) {
    const Report report =
        *simulate(read("algo: grpo\nno_generate: true\nbatch: 2\nprompt: 1024\n" + keys)->job, {});
    for (const PhaseReport& phase : report.devices[0].phases)
      if (phase.phase == "ref_logprob") return phase.processes[0].at_peak_allocated[Component::logits];
    return Bytes{0};
  };
  EXPECT_EQ(held("token_logprob: fused\nfused_chunk: 2048"), 24 * kMiB) << "2048 x 1000 x 12, in 2 MiB";
  EXPECT_GT(held("token_logprob: log_softmax"), 2 * 1039 * 1000 * 2);
}

/// Every rank runs its own copy: only the barrier's number is more.
TEST(SeveralRanks, WithoutShardingAreCopies) {
  EXPECT_EQ(peak("_world: 4"), peak("") + 512);
}

TEST(Reward, HasTheCriticsShapeWithoutACritic) {
  const std::string wide =
      "algo: grpo\nuse_reward: true\ncritic: {model_type: gpt2, n_layer: 4, n_head: 8, n_embd: 512}\n";
  const Result<ReadJob> job = read(wide);
  ASSERT_TRUE(job) << job.error().text();
  EXPECT_TRUE(job->warnings.empty());
  EXPECT_EQ(job->job.role("reward")->model->family, "gpt2");
  EXPECT_GT(peak(wide), peak("algo: grpo\nuse_reward: true"));
}

/// Sequences are scored slice by slice; the last slice is what remains of the batch.
TEST(ScoringSlices, NeedNotDivideTheBatch) {
  const auto scored = [&](const std::string& keys) {
    const Report report = *simulate(read("algo: grpo\n" + keys)->job, {});
    for (const PhaseReport& phase : report.devices[0].phases)
      if (phase.phase == "ref_logprob") return phase.processes[0];
    return ProcessPhase{};
  };
  const ProcessPhase whole = scored("logprob_micro_batch: 4"), parts = scored("logprob_micro_batch: 3");
  EXPECT_EQ(parts.n_allocs, 2 * whole.n_allocs - 1) << "one tensor joins the parts";
  EXPECT_LT(parts.peak_allocated, whole.peak_allocated);
  EXPECT_GT(parts.peak_allocated, scored("logprob_micro_batch: 2").peak_allocated);
  EXPECT_EQ(scored("logprob_micro_batch: 9").peak_allocated, whole.peak_allocated);
}

/// Each key, as it changes the peak of a run that has none.
struct Effect {
  const char* without;
  const char* with;
  int sign;  ///< of the change
};

class Key : public testing::TestWithParam<Effect> {};

TEST_P(Key, MovesThePeak) {
  const Bytes before = peak(GetParam().without), after = peak(GetParam().with);
  const int sign = (after > before) - (after < before);
  EXPECT_EQ(sign, GetParam().sign) << before << " became " << after;
}

// Long sequences without generation: activations and logits decide.
#define SIZES "prompt: 512\nresponse: 512\nbatch: 8\nmicro_batch: 4\n"
#define LONG "no_generate: true\n" SIZES
#define WIDE                                                                             \
  "no_generate: true\nactor: {model_type: llama, vocab_size: 32000, hidden_size: 1024, " \
  "intermediate_size: 2048, num_hidden_layers: 4, num_attention_heads: 8, tie_word_embeddings: false}\n"
INSTANTIATE_TEST_SUITE_P(
    OfTheLoop, Key,
    testing::Values(
        Effect{LONG, LONG "grad_ckpt: true", -1},
        Effect{LONG "grad_ckpt: true", LONG "grad_ckpt: true\ngrad_ckpt_every: 2", 1},
        Effect{LONG "grad_ckpt: true\ngrad_ckpt_every: 2", LONG, 1}, Effect{LONG, LONG "attn: eager", 1},
        Effect{LONG, LONG "activation_offload: true", -1}, Effect{LONG, LONG "logits_fp32: true", 1},
        Effect{LONG, LONG "token_logprob: logsumexp", 1}, Effect{LONG, LONG "entropy: eager", 1},
        Effect{LONG "entropy: eager", LONG "entropy: chunked\nentropy_chunk: 256", -1},
        Effect{LONG, LONG "token_logprob: selective", -1}, Effect{LONG, LONG "token_logprob: fused", -1},
        Effect{LONG "token_logprob: fused", LONG "token_logprob: fused\nfused_chunk: 4096", 1},
        Effect{LONG "token_logprob: fused\nentropy: eager", LONG "entropy: eager", 1},
        Effect{LONG, LONG "logprob_micro_batch: 1", 0},
        Effect{LONG, "no_generate: true\nprompt: 512\nresponse: 512\nbatch: 8\nmicro_batch: 2", -1},
        Effect{WIDE, WIDE "precision: fp32", 1}, Effect{WIDE, WIDE "precision: master", 1},
        Effect{WIDE, WIDE "precision: fp16", 0}, Effect{WIDE, WIDE "adam: fused", -1},
        Effect{WIDE "adam: fused", WIDE "adam: 8bit", -1}, Effect{WIDE, WIDE "algo: grpo", -1},
        Effect{WIDE "algo: grpo", WIDE "algo: grpo\nuse_ref: false", -1},
        Effect{WIDE, WIDE "frozen_dtype: float32", 1}, Effect{WIDE, WIDE "lora: 8", -1},
        Effect{WIDE, WIDE "ems: true", -1},
        Effect{WIDE "precision: amp", WIDE "precision: amp\namp_dtype: fp16", 0},
        Effect{WIDE "precision: amp\namp_dtype: fp16",
               WIDE "precision: amp\namp_dtype: fp16\ngrad_scaler: true", 1}));

/// Losses on given sequences: the actor alone, with a reference, or with a scalar head.
TEST(GivenSequences, TrainOneModel) {
  struct Expected {
    const char* algo;
    std::vector<std::string> phases;
  };
  for (const Expected& expected :
       {Expected{"sft", {"init", "train_actor"}}, Expected{"dpo", {"init", "ref_logprob", "train_actor"}},
        Expected{"reward_model", {"init", "train_critic"}}, Expected{"rm", {"init", "train_critic"}}}) {
    const Result<ReadJob> job = read("steps: 1\nalgo: " + std::string(expected.algo));
    ASSERT_TRUE(job) << job.error().text();
    const Result<Report> report = simulate(job->job, {});
    ASSERT_TRUE(report) << report.error().text();
    std::vector<std::string> phases;
    for (const PhaseReport& phase : report->devices.front().phases) phases.push_back(phase.phase);
    EXPECT_EQ(phases, expected.phases);
    const ProcessPhase& last = report->devices.front().phases.back().processes.front();
    EXPECT_EQ(last.at_peak_allocated.total(), last.peak_allocated);
  }
  EXPECT_LT(peak("algo: sft"), peak("algo: dpo"));
  EXPECT_LT(peak(SIZES "algo: reward_model"), peak(LONG "algo: grpo\nuse_ref: false"));
}

TEST(MaskOfOnes, IsHeldForTheStep) {
  const Bytes mask = 8 * 1024 * 8;
  EXPECT_GE(peak(LONG "pass_mask: true"), peak(LONG) + mask / 2);
}

/// Of a recording only the case, the device, its memory and the allocator's settings are read: not what was
/// measured.
TEST(Recording, IsReadWithoutItsMeasurements) {
  const std::string path = test::data("rlhf/fr-llama.json").string();
  const Document recording = parse_document(replay::read_text_file(path).value(), path).value();
  const auto predicted = [&](const Document& document) {
    JobInput input;
    input.files.push_back({.path = path, .document = document, .text = {}});
    JobOptions options;
    options.framework = "torch";
    const Result<ReadJob> job = read_job(input, options);
    EXPECT_TRUE(job) << (job ? "" : job.error().text());
    const Result<Report> report = simulate(job->job, {});
    std::vector<Bytes> peaks;
    for (const PhaseReport& phase : report->devices.front().phases) {
      peaks.push_back(phase.processes.front().peak_allocated);
      peaks.push_back(phase.processes.front().peak_reserved);
    }
    return peaks;
  };
  Document rubbish = recording;
  const Document nonsense =
      parse_document(R"([{"phase": "nowhere", "peak_alloc": -1}, 7, null, "peak"])", "rubbish").value();
  for (const char* key : {"phases", "final", "params", "context_used"}) rubbish.set(key, nonsense);
  EXPECT_EQ(predicted(rubbish), predicted(recording));
}

}  // namespace
}  // namespace headroom
