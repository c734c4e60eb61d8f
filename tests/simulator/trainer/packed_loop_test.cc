#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "planner/frameworks/registry.h"
#include "simulator/hardware/library.h"
#include "simulator/phases/simulate.h"

/// How long logits stay in the packed loop, through the job file: one GPU, micro-batches of some sequences of 512 tokens.

namespace headroom {
namespace {

constexpr Bytes kSequence = 512ll * 151936 * 4;  // a sequence's logits
/// Sequences of a micro-batch whose logits outweigh the optimizer's step, and of one whose logits do not.
constexpr int kMany = 16, kFew = 4;

/// The trainer's peak in the second step's update.
Bytes peak(const std::string& loss, int sequences = kMany) {
  const std::string text = fmt::format(
      "headroom: job/1\nname: packed\nalgorithm: ppo\ngpu: H200\nsteps: 2\npools: [{{gpus_per_node: 1}}]\n"
      "batch: {{prompts: 32, prompt_length: 256, response_length: 256}}\nroles:\n"
      "  - name: actor\n    model: Qwen/Qwen2.5-0.5B\n    trained: true\n    packed: true\n"
      "    attention: flash_varlen\n    recompute: {{kind: full}}\n    sharding: {{kind: zero2, reduce_bucket: 1000}}\n"
      "    train: {{sequences: {1}}}\n    forward: {{sequences: {1}}}\n"
      "    loss: {{token_logprob: flash_cross_entropy, logits_fp32: true, {0}}}\n"
      "  - name: ref\n    model: Qwen/Qwen2.5-0.5B\n    packed: true\n    attention: flash_varlen\n"
      "    sharding: {{kind: zero0}}\n    train: {{sequences: {1}}}\n    forward: {{sequences: {1}}}\n"
      "    loss: {{token_logprob: flash_cross_entropy, logits_fp32: true, divides_logits: false}}\n"
      "processes: [{{name: trainer, roles: [actor, ref]}}]\n"
      "start:\n  - phase: init\n    actions: [{{do: build, role: actor}}, {{do: build_optimizer, role: actor}}, "
      "{{do: build, role: ref}}]\n"
      "step:\n  - phase: train_actor\n    actions: [{{do: train, role: actor}}]\n",
      loss, sequences);
  JobInput input;
  input.files.push_back({.path = "job.yaml", .document = *parse_document(text, "job.yaml"), .text = text});
  const Result<ReadJob> read = read_job(input, {});
  EXPECT_TRUE(read) << read.error().text();
  if (!read) return 0;
  const Result<Report> report = simulate(read->job, *load_hardware("h200"));
  EXPECT_TRUE(report) << report.error().text();
  Bytes out = 0;
  if (report)
    for (const PhaseReport& phase : report->devices.front().phases)
      if (phase.step == 1) out = std::max(out, phase.processes.front().peak_allocated);
  return out;
}

const std::string kKept = "overwrites_logits: false, keeps_logits: true, ";

/// In-place division keeps a graph whose backward makes one more copy.
TEST(PackedLoop, DividesLogitsOnlyWhereAsked) {
  EXPECT_GT(peak(kKept + "divides_logits: true"), peak(kKept + "divides_logits: false") + kMany * kSequence / 4);
}

TEST(PackedLoop, OverwritesLogitsOnlyWhereAsked) {
  EXPECT_GT(peak("divides_logits: false, overwrites_logits: false"),
            peak("divides_logits: false, overwrites_logits: true") + kMany * kSequence / 4);
}

/// The optimizer's step finds the last micro-batch's logits where their variable outlives the backward.
TEST(PackedLoop, KeepsLogitsAsLongAsTheirVariableLives) {
  const std::string kept = kKept + "divides_logits: false, logits_end: ";
  const Bytes backward = peak(kept + "backward", kFew), logits = kFew * kSequence;
  for (const char* end : {"step", "next"}) EXPECT_GT(peak(kept + end, kFew), backward + logits / 2) << end;
}

/// The reference's logits stand beside those of the policy's graph.
TEST(PackedLoop, LetsAReferenceScoreBetweenForwardAndBackward) {
  const std::string plain = "divides_logits: false";  // in place: a backward of little more than the logits
  EXPECT_GT(peak(plain + ", reference: ref"), peak(plain) + kMany * kSequence / 4);
}

}  // namespace
}  // namespace headroom
