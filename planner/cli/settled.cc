#include "planner/cli/settled.h"

#include <algorithm>

namespace headroom::cli {
namespace {

constexpr double kFarBelow = 0.28, kFarOver = 0.05;  // parts of the card
constexpr double kOfReserved = 1.25;
constexpr Bytes kBesideReserved = kGiB;
/// Tokens that the simulator takes one by one, for seconds.
constexpr std::int64_t kLongResponse = 2048;

bool far(const Report& report, const Run& run) {
  const auto card = static_cast<double>(run.hardware.total_memory);
  bool below = true;
  for (const DeviceReport& device : report.devices)
    for (const PhaseReport& phase : device.phases) {
      if (runs_out(phase)) return false;
      double reserved = static_cast<double>(kBesideReserved);
      for (const ProcessPhase& process : phase.processes)
        if (run.read.job.engine(process.process) == nullptr)  // an engine's share is an account, not an allocator's
          reserved += kOfReserved * static_cast<double>(process.peak_reserved);
      below = below && static_cast<double>(spare(report, device, phase)) >= std::min(kFarBelow * card, reserved);
    }
  return below || static_cast<double>(spare(report)) <= -kFarOver * card;
}

}  // namespace

bool generates_long(const Job& job) {
  const bool by_itself = std::any_of(job.engines.begin(), job.engines.end(), [](const Engine& engine) {
    return engine.kind != EngineKind::vllm && engine.kind != EngineKind::sglang;
  });
  return by_itself && job.batch.response_length > kLongResponse;
}

Result<Report> predict_settled(const Run& run, const Executor& quick, const Executor& exact) {
  Result<Report> report = predict(run, quick, exact);
  if (!report || far(*report, run)) return report;
  report = predict(run, exact, exact);
  if (report)
    report->assumptions.push_back("every allocation was simulated: so near the limit fragmentation could decide");
  return report;
}

}  // namespace headroom::cli
