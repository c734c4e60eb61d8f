#include <benchmark/benchmark.h>

#include "planner/frameworks/registry.h"
#include "simulator/hardware/library.h"
#include "simulator/phases/simulate.h"

namespace headroom {
namespace {

/// A PPO step (actor, reference, critic, reward) of Llama-2-7B shapes.
constexpr const char* kPpo = R"(
name: llama-7b-ppo
actor: {model_type: llama, vocab_size: 32000, hidden_size: 4096, intermediate_size: 11008, num_hidden_layers: 32,
        num_attention_heads: 32, num_key_value_heads: 32, tie_word_embeddings: false}
algo: ppo
precision: bf16
grad_ckpt: true
adam: fused
batch: 8
micro_batch: 4
prompt: 256
steps: 1
)";

Job job(std::int64_t response) {
  JobInput input;
  input.files.push_back(
      {.path = "ppo.yaml",
       .document = *parse_document(kPpo + ("response: " + std::to_string(response)), "ppo.yaml"),
       .text = {}});
  JobOptions options;
  options.framework = "torch";
  return read_job(input, options)->job;
}

/// One step with `range` generated tokens, every allocation executed.
void PpoStep(benchmark::State& state) {
  const Hardware hardware = load_hardware("h200").value();
  const Job ppo = job(state.range(0));
  std::int64_t events = 0;
  for (auto _ : state) {
    SimulateOptions options;
    options.leave_out_repetitions = state.range(1) != 0;
    const Result<Report> report = simulate(ppo, hardware, options);
    events = 0;
    for (const PhaseReport& phase : report->devices[0].phases) events += phase.processes[0].n_allocs;
  }
  state.counters["allocations"] = static_cast<double>(events);
  state.counters["allocations/s"] =
      benchmark::Counter(static_cast<double>(events), benchmark::Counter::kIsIterationInvariantRate);
}
BENCHMARK(PpoStep)
    ->ArgsProduct({{64, 1024}, {0, 1}})
    ->ArgNames({"tokens", "left_out"})
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace headroom
