#include <benchmark/benchmark.h>

#include <array>
#include <random>

#include "planner/cli/executors.h"
#include "planner/search/evaluator.h"
#include "planner/search/plan.h"
#include "simulator/hardware/library.h"
#include "tests/support/data.h"

namespace headroom {
namespace {

/// GRPO of a 7B model on eight H100, with every knob that keeps the training's numbers.
struct Searched {
  Searched() {
    JobOptions options;
    read = *read_job(std::array{test::source("configs/examples/verl/qwen2.5-7b-grpo-8xh100.yaml").string()},
                     options);
    setup.framework = find_framework("verl");
    setup.read = &read;
    setup.hardware = *find_hardware("h100");
    setup.limits.card = setup.limits.budget = 76 * kGiB;
    space = *search::make_space(setup.framework->knobs(read), {}, {});
  }
  ReadJob read;
  search::Setup setup;
  search::Space space;
};

/// A search from nothing, on one thread: distinct configurations, programs run for them included.
void SearchOneThread(benchmark::State& state) {
  const Searched run;
  std::int64_t configurations = 0;
  for (auto _ : state) {
    const Executor executor = cli::searching_executor();
    const search::Evaluator evaluator(run.setup, run.space, executor, 1);
    configurations += search::search(run.space, std::cref(evaluator)).evaluated;
  }
  state.counters["configs_per_second"] =
      benchmark::Counter(static_cast<double>(configurations), benchmark::Counter::kIsRate);
}
BENCHMARK(SearchOneThread)->Unit(benchmark::kMillisecond);

/// Configurations whose programs have all run before: reading choices into a job, every phase of every step,
/// host memory, time and verdict.
void EvaluateKnownOneThread(benchmark::State& state) {
  const Searched run;
  std::mt19937 random(1);
  std::vector<search::Point> points;
  for (int i = 0; i < 100; ++i) {
    search::Point& point = points.emplace_back(run.space.current());
    for (std::size_t k = 0; k < point.size(); ++k)
      if (random() % 4 == 0)
        point[k] = static_cast<std::uint16_t>(random() % run.space.dimensions[k].values.size());
  }
  const Executor executor = cli::searching_executor();
  const search::Evaluator evaluator(run.setup, run.space, executor, 1);
  benchmark::DoNotOptimize(evaluator(points));
  for (auto _ : state) benchmark::DoNotOptimize(evaluator(points));
  state.counters["configs_per_second"] =
      benchmark::Counter(static_cast<double>(state.iterations()) * static_cast<double>(points.size()),
                         benchmark::Counter::kIsRate);
}
BENCHMARK(EvaluateKnownOneThread)->Unit(benchmark::kMillisecond);

/// A plan with its proof, on all cores, over the first `state.range(0)` dimensions; the others stay.
void Plan(benchmark::State& state) {
  Searched run;
  std::vector<search::Dimension>& dimensions = run.space.dimensions;
  dimensions.resize(std::min(dimensions.size(), static_cast<std::size_t>(state.range(0))));
  double accounted = 0, evaluated = 0;
  for (auto _ : state) {
    const auto plan = search::make_plan(run.setup, run.space, cli::planning_executors(), {});
    if (!plan || !plan->proof) return state.SkipWithError("no proof");
    accounted += plan->proof->space - plan->proof->undecided;
    evaluated += static_cast<double>(plan->proof->evaluated);
    state.counters["space"] = plan->proof->space;
  }
  state.counters["accounted_per_second"] = benchmark::Counter(accounted, benchmark::Counter::kIsRate);
  state.counters["evaluated_per_second"] = benchmark::Counter(evaluated, benchmark::Counter::kIsRate);
}
BENCHMARK(Plan)->DenseRange(6, 22, 4)->Unit(benchmark::kMillisecond)->UseRealTime()->Iterations(1);

}  // namespace
}  // namespace headroom
