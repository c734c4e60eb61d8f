#include <benchmark/benchmark.h>
#include <sys/resource.h>

#include "planner/study/run.h"
#include "tests/support/data.h"

namespace headroom::study {
namespace {

/// The shipped study on two threads. Target: at least 300 cells in 60 s, with at most 2 GiB of resident memory.
void ShippedStudy(benchmark::State& state) {
  const Study study = read_study(test::source("configs/studies/rlhf-fragmentation.yaml")).value();
  std::size_t cells = 0;
  for (auto _ : state) cells = run_study(study, nullptr, 2).value().cells.size();
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  state.counters["cells"] = static_cast<double>(cells);
  state.counters["rss_MiB"] = static_cast<double>(usage.ru_maxrss) / 1024;
}
BENCHMARK(ShippedStudy)->Unit(benchmark::kSecond)->Iterations(1)->UseRealTime();

}  // namespace
}  // namespace headroom::study
