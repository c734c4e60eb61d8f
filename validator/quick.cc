#include "validator/quick.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace headroom::gpu {
namespace {

constexpr std::int64_t kFew = 2, kMore = 4;

std::shared_ptr<const Architecture> cut(const Architecture& model, std::int64_t layers) {
  auto out = std::make_shared<Architecture>(model);
  out->decoder.layers = std::min(model.decoder.layers, layers);
  std::int64_t left = out->decoder.layers;
  for (LayerGroup& group : out->decoder.groups) {
    group.count = std::min(group.count, left);
    left -= group.count;
  }
  std::erase_if(out->decoder.groups, [](const LayerGroup& group) { return group.count == 0; });
  return out;
}

/// The line through two figures.
struct Line {
  double few_layers, more_layers, layers;
  double operator()(double few, double more) const {
    return few + (more - few) * (layers - few_layers) / (more_layers - few_layers);
  }
  Bytes operator()(Bytes few, Bytes more) const {
    return static_cast<Bytes>(std::llround((*this)(static_cast<double>(few), static_cast<double>(more))));
  }
};

void draw(const Line& line, const PhaseMeasurement& few, PhaseMeasurement& out) {
  for (Bytes PhaseMeasurement::*figure :
       {&PhaseMeasurement::card_peak, &PhaseMeasurement::card_end, &PhaseMeasurement::nvml_card,
        &PhaseMeasurement::nvml_process, &PhaseMeasurement::host_resident, &PhaseMeasurement::pinned})
    out.*figure = line(few.*figure, out.*figure);
  out.seconds = line(few.seconds, out.seconds);
}

void draw(const Line& line, const PhaseReport& few, PhaseReport& out) {
  out.peak_device = line(few.peak_device, out.peak_device);
  out.peak_host = line(few.peak_host, out.peak_host);
  out.seconds = line(few.seconds, out.seconds);
  if (few.processes.empty() || out.processes.empty()) return;
  const ProcessPhase& from = few.processes.front();
  ProcessPhase& to = out.processes.front();
  for (Bytes ProcessPhase::*figure :
       {&ProcessPhase::allocated_start, &ProcessPhase::peak_allocated, &ProcessPhase::allocated_end,
        &ProcessPhase::reserved_start, &ProcessPhase::peak_reserved, &ProcessPhase::reserved_end,
        &ProcessPhase::peak_active, &ProcessPhase::inactive_split_end, &ProcessPhase::n_allocs,
        &ProcessPhase::segments})
    to.*figure = line(from.*figure, to.*figure);
}

}  // namespace

Job with_layers(const Job& job, std::int64_t layers) {
  Job out = job;
  for (Role& role : out.roles)
    if (role.model) role.model = cut(*role.model, layers);
  return out;
}

Probe extrapolate(const Probe& few, const Probe& more, double few_layers, double more_layers, double layers) {
  const Line line{few_layers, more_layers, layers};
  Probe out = more;
  out.used_by_others = few.used_by_others;
  out.outside = few.outside;
  const std::size_t phases = std::min(few.phases.size(), more.phases.size());
  out.phases.resize(phases);
  for (std::size_t i = 0; i < phases; ++i) draw(line, few.phases[i], out.phases[i]);
  for (std::size_t d = 0; d < std::min(few.report.devices.size(), out.report.devices.size()); ++d) {
    const std::vector<PhaseReport>& from = few.report.devices[d].phases;
    std::vector<PhaseReport>& to = out.report.devices[d].phases;
    to.resize(std::min(from.size(), to.size()));
    for (std::size_t i = 0; i < to.size(); ++i) draw(line, from[i], to[i]);
  }
  return out;
}

Result<Probe> quick_probe(const Job& job, const ProbeOptions& options) {
  std::int64_t layers = 0;
  for (const Role& role : job.roles) {
    if (!role.model) continue;
    if (layers != 0 && role.model->decoder.layers != layers)
      return fail(
          fmt::format("quick needs models of equal depth, found {} and {} layers: run without --quick",
                      layers, role.model->decoder.layers));
    layers = role.model->decoder.layers;
  }
  if (layers <= kMore) return probe(job, options);
  HEADROOM_ASSIGN(const Probe few, probe(with_layers(job, kFew), options));
  HEADROOM_ASSIGN(const Probe more, probe(with_layers(job, kMore), options));
  return extrapolate(few, more, kFew, kMore, static_cast<double>(layers));
}

}  // namespace headroom::gpu
