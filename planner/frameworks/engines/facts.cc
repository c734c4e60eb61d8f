#include "planner/frameworks/engines/facts.h"

#include <algorithm>
#include <array>

namespace headroom::engines {
namespace {

constexpr auto kVllm = EngineKind::vllm;
constexpr auto kSglang = EngineKind::sglang;
constexpr auto kRecorded = Standing::recorded;
constexpr auto kRead = Standing::read;
constexpr auto kInferred = Standing::inferred;

bool dense(const Engine& engine) {
  if (engine.model == nullptr) return false;
  const auto& groups = engine.model->decoder.groups;
  return std::none_of(groups.begin(), groups.end(),
                      [](const LayerGroup& group) { return group.layer.mlp.kind == MlpKind::experts; });
}

/// Sorting keeps logits, their sorted copy with 64-bit places, masks and sums; the top-k and top-p kernels
/// keep logits in 16 and 32 bits, probabilities, and noise or a masked copy.
constexpr double kSort = 9.5, kKernels = 3.5, kFlashInferV0 = 2.5;

constexpr std::array kFacts = {
    Fact{kVllm, {0, 0, 0}, "sampling sorts", kRecorded, "start-up logs of 0.6.5 to 0.16",
         [](Engine& e) {
           e.sampler_rows_factor = kSort;
           e.sampler_scratch = false;
         }},
    Fact{kVllm, {0, 0, 0}, "callers of graph pieces hold their arguments", kInferred,
         "start-up logs of 0.8 to 0.19: residual in and out, normed input, attention's output",
         [](Engine& e) { e.hidden_copies = 4; }},
    Fact{kVllm, {0, 0, 0}, "other processes' memory comes out of the KV cache", kRead,
         "memory profile of the first engine, and of the second's first releases",
         [](Engine& e) {
           e.counts_others = true;
           e.graphs_in_budget = false;
         }},
    Fact{kVllm, {0, 0, 0}, "decode graphs of one kind; nothing of the profile stays", kRead,
         "the first engine's model runner",
         [](Engine& e) {
           e.full_and_piecewise_graphs = e.split_kv_graphs = false;
           e.keeps_expert_workspace = e.keeps_profiled_graphs = false;
           e.allreduce_workspaces = e.allreduce_beside_groups = e.experts_take_adapters = false;
           e.chunks_experts = true;
           e.workspace_sleeps = false;
         }},
    Fact{kVllm, {0, 0, 0}, "the host works between two steps, twice as long as later", kRead,
         "issues 6854 and 6913 of vLLM, 2024: the GPU idles 5 to 13 ms a step of large batches",
         [](Engine& e) {
           e.schedules_ahead = false;
           e.host_work = 2;
         }},
    Fact{kVllm, {0, 7, 2}, "only what the profile added comes out of the KV cache", kRecorded,
         "a baseline snapshot; a start-up log of 0.7.3", [](Engine& e) { e.counts_others = false; }},
    Fact{kVllm, {0, 8, 0}, "the second engine's host", kRead, "its core loop; the unit of host_work",
         [](Engine& e) { e.host_work = 1; }},
    Fact{kVllm, {0, 8, 0}, "the second engine counts other processes' memory", kRead,
         "its first releases' worker: device memory that is not the allocator's",
         [](Engine& e) { e.counts_others = true; }},
    Fact{kVllm, {0, 9, 2}, "only the engine's own memory comes out of the KV cache", kRecorded,
         "start-up logs of 0.9.2 and later", [](Engine& e) { e.counts_others = false; }},
    Fact{kVllm, {0, 10, 2}, "full graphs beside piecewise ones", kRead,
         "FULL_AND_PIECEWISE as the default graph mode; 32 parts of keys and values inside full graphs",
         [](Engine& e) { e.full_and_piecewise_graphs = e.split_kv_graphs = true; }},
    Fact{kVllm, {0, 11, 0}, "GPT-OSS captures graphs to 1,024", kRecorded, "start-up logs: 83 sizes",
         [](Engine& e) {
           if (e.model == nullptr || e.model->family != "gpt_oss") return;
           e.capture_sizes = {1, 2, 4};
           for (std::int64_t size = 8; size <= 1024; size += size < 256 ? 8 : 16)
             e.capture_sizes.push_back(size);
         }},
    Fact{kVllm, {0, 11, 1}, "routed experts have slots for adapters", kRead,
         "FusedMoEWithLoRA (pull request 21229, October 2025): two pairs for gate and up, one for down",
         [](Engine& e) { e.experts_take_adapters = true; }},
    Fact{kVllm, {0, 14, 0}, "a step is scheduled while the one before runs", kRead,
         "asynchronous scheduling is the default (pull request 27614, release of January 2026)",
         [](Engine& e) { e.schedules_ahead = true; }},
    Fact{kVllm, {0, 14, 0}, "experts' workspace is kept by a manager", kInferred,
         "WorkspaceManager, early 2026; start-up logs of 0.19 hold it, one of December 2025 does not",
         [](Engine& e) { e.keeps_expert_workspace = true; }},
    Fact{kVllm, {0, 17, 0}, "Triton's top-k and top-p", kRecorded,
         "pull request 33538; 55 start-up logs of 0.17 to 0.19",
         [](Engine& e) {
           e.sampler_rows_factor = kKernels;
           e.sampler_scratch = true;
         }},
    Fact{kVllm, {0, 17, 0}, "all-reduce fused with the norm", kRecorded,
         "pull request 34299 (February 2026); 12 start-up logs of 0.19 with tensor parallelism",
         [](Engine& e) { e.allreduce_workspaces = true; }},
    Fact{kVllm, {0, 18, 0}, "a graph is captured while profiling", kRecorded,
         "profile_cudagraph_memory inside the profiling context; start-up logs of 0.18 and 0.19",
         [](Engine& e) { e.keeps_profiled_graphs = true; }},
    Fact{kVllm, {0, 18, 0}, "experts take all tokens of a step at once", kInferred,
         "pull request 34086, merged in March 2026: within one minor", [](Engine& e) { e.chunks_experts = false; }},
    Fact{kVllm, {0, 21, 0}, "the graphs' estimate comes out of the KV cache", kRecorded,
         "VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS on by default; a start-up log of 0.21",
         [](Engine& e) { e.graphs_in_budget = true; }},
    Fact{kVllm, {0, 21, 0}, "fused all-reduce beside data parallelism and pipelines", kRead,
         "pull request 41458 (May 2026)", [](Engine& e) { e.allreduce_beside_groups = true; }},
    Fact{kVllm, {0, 25, 1}, "Model Runner V2 for dense models: tighter forwards, no graph estimate", kInferred,
         "device peaks of a 0.5B to 3B model under 0.26 at 16,384 and 65,536 tokens",
         [](Engine& e) {
           if (!dense(e)) return;
           e.hidden_copies = 2;
           e.graphs_in_budget = false;
         }},
    Fact{kVllm, {0, 28, 0}, "Model Runner V2 estimates its graphs", kRead, "the runner's source",
         [](Engine& e) { e.graphs_in_budget = true; }},
    Fact{kVllm, {0, 30, 0}, "the experts' workspace lies in the sleep pool", kInferred,
         "WorkspaceManager's allocation context, September 2026; until then it outlives sleep (pull request 370 of "
         "UniRL): within one minor",
         [](Engine& e) { e.workspace_sleeps = true; }},

    Fact{kSglang, {0, 0, 0}, "samples with FlashInfer on logits and probabilities", kRead,
         "sampler source; servers of 2,048 sequences that start",
         [](Engine& e) {
           e.sampler_rows_factor = kFlashInferV0;
           e.sampler_scratch = false;
           e.hidden_copies = 2;
           e.block_size = 1;
         }},
    Fact{kSglang, {0, 0, 0}, "a step is scheduled while the one before runs", kRead,
         "the overlap scheduler, default from 0.4 on", [](Engine& e) { e.schedules_ahead = true; }},
    Fact{kSglang, {0, 0, 0}, "decode graphs to 8 on 24 GB cards, to 160 on others", kRecorded,
         "start-up logs of 0.4.2 to 0.4.9",
         [](Engine& e) {
           e.few_graphs = true;
           e.full_and_piecewise_graphs = e.split_kv_graphs = false;
           e.keeps_expert_workspace = e.keeps_profiled_graphs = false;
           e.allreduce_workspaces = e.allreduce_beside_groups = e.experts_take_adapters = false;
           e.counts_others = e.graphs_in_budget = false;
           e.chunks_experts = true;
           e.workspace_sleeps = false;
         }},
    Fact{kSglang, {0, 5, 0}, "decode graphs by the card's memory and tensor parallelism", kRecorded,
         "server arguments; start-up logs of 0.5.2 to 0.5.6: 36 and 52 graphs",
         [](Engine& e) { e.few_graphs = false; }},
};

Version of_release(const Engine& engine) {
  const auto stated = parse_version(engine.release);
  return stated ? *stated : parse_version(default_release(engine.kind)).value_or(Version{});
}

}  // namespace

std::span<const Fact> facts() {
  return kFacts;
}

std::string_view default_release(EngineKind kind) {
  return kind == EngineKind::vllm ? "0.24.0" : kind == EngineKind::sglang ? "0.5.6" : "";
}

void set_release(Engine& engine, std::string_view release, const Installation& installation) {
  if (engine.kind != kVllm && engine.kind != kSglang) return;
  engine.release = parse_version(release) ? std::string(release) : std::string(default_release(engine.kind));
  const Version version = of_release(engine);
  for (const Fact& fact : kFacts)
    if (fact.kind == engine.kind && fact.since <= version) fact.set(engine);
  // In 0.8 the second engine leaves adapters to the first.
  const bool first =
      installation.first_engine || (engine.lora_slots > 0 && version < Version{0, 9, 0});
  if (engine.kind == kVllm && first && version >= Version{0, 8, 0}) {
    engine.counts_others = false;
    engine.full_and_piecewise_graphs = engine.split_kv_graphs = false;
  }
  // Its executors for one process and several support asynchronous scheduling; Ray's does not and has it turned off with a
  // warning (config/vllm.py since 0.14), until Ray's second one, which builds on that for several, became the default.
  if (engine.kind == kVllm && installation.through_ray && version < Version{0, 25, 0}) engine.schedules_ahead = false;
  if (engine.kind == kVllm && installation.flashinfer_sampler && version < Version{0, 11, 1})
    engine.sampler_rows_factor = version < Version{0, 9, 0} ? kFlashInferV0 : kKernels;
}

Limits default_limits(const Engine& engine, const Hardware& card, EntryPoint entry,
                      const Installation& installation) {
  constexpr Bytes kUsual = 80 * kGiB;
  const Bytes memory = card.total_memory > 0 ? card.total_memory : kUsual;
  if (engine.kind == kSglang) {
    return {2048, memory < 35 * kGiB ? 2048 : memory < 60 * kGiB ? 4096 : memory < 160 * kGiB ? 8192 : 16384};
  }
  // The second engine is the default from 0.8 on; its limits by card came with pull request 16158.
  if (installation.first_engine || of_release(engine) < Version{0, 8, 3}) {
    const std::int64_t context =
        engine.max_length > 0 || engine.model == nullptr ? engine.max_length
                                                         : engine.model->decoder.max_positions;
    return {256, context > 32768 ? 2048 : std::max<std::int64_t>(context, 2048)};
  }
  const bool a100 = card.name.find("A100") != std::string::npos;
  const bool large = memory >= 70 * kGiB && !a100;
  const std::int64_t sequences = large ? 1024 : 256;
  // `EngineArgs`' tables have no row for a use that nobody states; its sequences followed with the tables.
  if (entry == EntryPoint::bare) return {of_release(engine) < Version{0, 10, 0} ? sequences : 128, 2048};
  if (entry == EntryPoint::library) return {sequences, large ? 16384 : 8192};
  return {sequences, large ? 8192 : 2048};
}

}  // namespace headroom::engines
