/// docs/regenerate_time.sh: what Python takes a linear module and an exchange in the recordings (argument 1), for
/// `host_times` of the hardware profiles, and the seconds predicted with what the H200's profile has.
///
/// The runs are bound by the host: what they took beyond the profile's other host times, over how many modules and
/// exchanges they call. The counts are seconds that the same job takes on a device without any, where one of the figures
/// is a second. Runs shared hosts and cards, so of each figure the lower quartile over the runs is taken.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <map>

#include "simulator/hardware/library.h"
#include "tests/support/megatron_recording.h"

namespace {

using headroom::Hardware;
using headroom::HostTimes;
using headroom::test::MegatronRecording;
using headroom::test::MegatronSeconds;

using Phases = std::map<std::string, MegatronSeconds>;

Phases seconds_of(const MegatronRecording& recording, const Hardware& hardware) {
  Phases out;
  const auto rows = headroom::test::megatron_seconds(recording, hardware);
  if (!rows) {
    std::cerr << recording.name << ": " << rows.error().text() << "\n";
    std::exit(1);
  }
  for (const MegatronSeconds& row : *rows) out[row.phase] = row;
  return out;
}

/// The card with a device, a memory and links that take no time, and no time for Megatron's modules.
Hardware host_alone(Hardware card) {
  constexpr double kMuch = 1e6;
  card.matrix.bf16 *= kMuch;
  card.matrix.tf32 *= kMuch;
  card.matrix.fp32 *= kMuch;
  card.memory_bandwidth *= kMuch;
  card.links = {.pcie = card.links.pcie * kMuch, .nvlink = card.links.nvlink * kMuch, .network = card.links.network * kMuch};
  card.latencies.kernel = card.latencies.node_hop = card.latencies.network_hop = 0;
  card.host_times.megatron_linear = card.host_times.megatron_linear_gradient = card.host_times.expert_exchange = 0;
  return card;
}

double lower_quartile(std::vector<double> of) {
  std::sort(of.begin(), of.end());
  return of.empty() ? 0 : of[of.size() / 4];
}

double median(std::vector<double> of) {
  std::sort(of.begin(), of.end());
  return of.empty() ? 0 : of[of.size() / 2];
}

struct Counted {
  Phases own;
  std::map<std::string, double> linears, gradients, exchanges;
};

Counted counted(const MegatronRecording& recording, const Hardware& card) {
  const Hardware bare = host_alone(card);
  Counted out{seconds_of(recording, bare), {}, {}, {}};
  const auto count = [&](double HostTimes::*figure, std::map<std::string, double>& into) {
    Hardware one = bare;
    one.host_times.*figure = 1;
    for (const auto& [phase, row] : seconds_of(recording, one)) into[phase] = std::round(row.predicted - out.own[phase].predicted);
  };
  count(&HostTimes::megatron_linear, out.linears);
  count(&HostTimes::megatron_linear_gradient, out.gradients);
  count(&HostTimes::expert_exchange, out.exchanges);
  return out;
}

}  // namespace

int main(int count, char** arguments) {
  const auto recordings = count == 2 ? headroom::test::megatron_recordings(arguments[1])
                                     : headroom::fail("usage: megatron_times RECORDED.json");
  if (!recordings) {
    std::cerr << recordings.error().text() << "\n";
    return 2;
  }
  const Hardware card = headroom::find_hardware("h200").value();
  std::map<std::string, Counted> runs;
  std::vector<double> linear, gradient, exchange;
  const auto plain = [](const MegatronRecording& r) {  // no rank waits for another stage, no optimizer on the host
    const headroom::Role& role = r.job.roles.front();
    return r.rank == 0 && role.parallel.pipeline == 1 && role.optimizer.cpu_fraction == 0;
  };
  for (const MegatronRecording& r : *recordings) {
    if (!plain(r)) continue;
    Counted& c = runs[r.name] = counted(r, card);
    if (c.own.contains("logprob") && c.exchanges["logprob"] == 0)
      linear.push_back((c.own["logprob"].measured - c.own["logprob"].predicted) / c.linears["logprob"]);
  }
  const double a = lower_quartile(linear);
  for (auto& [name, c] : runs)
    if (c.exchanges["train"] == 0)
      gradient.push_back((c.own["train"].measured - c.own["train"].predicted - a * c.linears["train"]) / c.gradients["train"]);
  const double b = lower_quartile(gradient);
  for (auto& [name, c] : runs)
    for (auto& [phase, row] : c.own)
      if (c.exchanges[phase] > 0)
        exchange.push_back((row.measured - row.predicted - a * c.linears[phase] - b * c.gradients[phase]) / c.exchanges[phase]);
  std::cout << fmt::format("megatron_linear: {:.0f}e-6, {} runs; megatron_linear_gradient: {:.0f}e-6, {} runs; expert_exchange: "
                           "{:.2f}e-3, {} phases\n\n",
                           1e6 * a, linear.size(), 1e6 * b, gradient.size(), 1e3 * lower_quartile(exchange), exchange.size());
  std::cout << "| run | rank | phase | predicted s | recorded s | error % |\n| --- | ---: | --- | ---: | ---: | ---: |\n";
  std::vector<double> errors;
  for (const MegatronRecording& r : *recordings)
    for (const auto& [phase, row] : seconds_of(r, card)) {
      const double error = row.predicted / row.measured - 1;
      errors.push_back(std::abs(error));
      std::cout << fmt::format("| {} | {} | {} | {:.3f} | {:.3f} | {:+.0f} |\n", r.name, r.rank, phase, row.predicted,
                               row.measured, 100 * error);
    }
  std::sort(errors.begin(), errors.end());
  std::cout << fmt::format("\n{} phases: median error {:.0f} %, 90 % within {:.0f} %, worst {:.0f} %.\n", errors.size(),
                           100 * median(errors), 100 * errors[errors.size() * 9 / 10], 100 * errors.back());
  return 0;
}
