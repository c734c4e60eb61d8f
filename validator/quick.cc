#include "validator/quick.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "validator/comparison.h"

namespace headroom::gpu {
namespace {

constexpr std::int64_t kFew = 4, kMore = 8;

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

constexpr Bytes ProcessPhase::*kFigures[] = {
    &ProcessPhase::allocated_start, &ProcessPhase::peak_allocated,    &ProcessPhase::allocated_end,
    &ProcessPhase::reserved_start,  &ProcessPhase::peak_reserved,     &ProcessPhase::reserved_end,
    &ProcessPhase::peak_active,     &ProcessPhase::inactive_split_end};

const PhaseReport* find(const Report& report, int step, const std::string& phase) {
  for (const DeviceReport& device : report.devices)
    for (const PhaseReport& row : device.phases)
      if (row.step == step && row.phase == phase) return &row;
  return nullptr;
}

const ProcessPhase* find(const PhaseReport& phase, const std::string& process) {
  for (const ProcessPhase& row : phase.processes)
    if (row.process == process) return &row;
  return nullptr;
}

/// What all layers take beyond their prediction, by what both depths took beyond theirs (see quick.h).
Bytes deviation(Bytes few, Bytes more, const Line& line) {
  if ((few < 0) != (more < 0)) return 0;
  const double grew = static_cast<double>(more) / static_cast<double>(few == 0 ? 1 : few),
               layers_grew = line.more_layers / line.few_layers;
  if (few != 0 && std::abs(grew / layers_grew - 1) <= 0.25)
    return static_cast<Bytes>(std::llround(static_cast<double>(more) * line.layers / line.more_layers));
  return std::abs(few) < std::abs(more) ? few : more;
}

/// A figure of all layers: its prediction and what the measured depths were beyond theirs.
Bytes corrected(Bytes few, Bytes said_few, Bytes more, Bytes said_more, Bytes said_all, const Line& line) {
  return said_all + deviation(few - said_few, more - said_more, line);
}

bool measured_phase(const Probe& probe, const PhaseMeasurement& phase) {
  return std::any_of(probe.phases.begin(), probe.phases.end(), [&](const PhaseMeasurement& other) {
    return other.step == phase.step && other.phase == phase.phase;
  });
}

/// What a reader needs to see that scaling hides nothing: how far each depth itself was from its prediction.
std::string scaled(const Validation& few, const Validation& more, double few_layers, double more_layers,
                   double layers) {
  return fmt::format(
      "quick: {} and {} layers were run, and were {:.2f} % and {:.2f} % from their own predictions at worst; "
      "device, allocator figures and seconds of {} layers are scaled from both (`probe` is no measurement of "
      "them)",
      few_layers, more_layers, 100 * few.probe_errors().worst, 100 * more.probe_errors().worst, layers);
}

const ValidationRow* find(const Validation& validation, const PhaseMeasurement& phase) {
  for (const ValidationRow& row : validation.rows)
    if (row.step == phase.step && row.phase == phase.phase) return &row;
  return nullptr;
}

/// One phase of all layers from the same phase of few and of more: `out` holds the latter's.
void correct(const PhaseReport& few, const PhaseReport& said_few, const PhaseReport& said_more,
             const PhaseReport& said_all, const Line& line, PhaseReport& out) {
  for (ProcessPhase& row : out.processes) {
    const ProcessPhase *a = find(few, row.process), *b = find(said_few, row.process),
                       *c = find(said_more, row.process), *d = find(said_all, row.process);
    if (a == nullptr || b == nullptr || c == nullptr || d == nullptr) continue;
    for (const auto figure : kFigures)
      row.*figure = corrected(a->*figure, b->*figure, row.*figure, c->*figure, d->*figure, line);
  }
}

/// Of a depth that ran out of memory, the phase in which it did: the others have fewer layers than the job,
/// and the ranks that did not run out wait.
Probe without_room(Probe probe, std::int64_t layers) {
  std::erase_if(probe.phases, [&](const PhaseMeasurement& m) {
    const PhaseReport* phase = find(probe.report, m.step, m.phase);
    return phase == nullptr ||
           std::none_of(phase->processes.begin(), phase->processes.end(),
                        [](const ProcessPhase& p) { return p.out_of_memory.has_value(); });
  });
  probe.notes.push_back(fmt::format("quick: {} layers ran out of memory already", layers));
  return probe;
}

}  // namespace

Job with_layers(const Job& job, std::int64_t layers) {
  Job out = job;
  for (Role& role : out.roles)
    if (role.model) role.model = cut(*role.model, layers);
  return out;
}

Probe extrapolate(const Measured& few, const Measured& more, const Report& predicted, double few_layers,
                  double more_layers, double layers) {
  const Line line{few_layers, more_layers, layers};
  const Validation of_few = compare(few.predicted, few.probe, {}),
                   of_more = compare(more.predicted, more.probe, {}),
                   of_all = compare(predicted, more.probe, {});
  Probe out = more.probe;
  out.notes.push_back(scaled(of_few, of_more, few_layers, more_layers, layers));
  // A phase without a prediction of all layers stays as it is, and one that cannot be scaled is not measured:
  // comparing finds both.
  std::erase_if(out.phases, [&](const PhaseMeasurement& m) {
    if (find(predicted, m.step, m.phase) == nullptr) return false;
    return !measured_phase(few.probe, m) || find(few.probe.report, m.step, m.phase) == nullptr ||
           find(few.predicted, m.step, m.phase) == nullptr ||
           find(more.predicted, m.step, m.phase) == nullptr;
  });
  for (PhaseMeasurement& m : out.phases) {
    if (find(predicted, m.step, m.phase) == nullptr) continue;
    const auto at = std::find_if(few.probe.phases.begin(), few.probe.phases.end(), [&](const auto& other) {
      return other.step == m.step && other.phase == m.phase;
    });
    if (at == few.probe.phases.end()) continue;
    const PhaseReport &said_few = *find(few.predicted, m.step, m.phase),
                      &said_more = *find(more.predicted, m.step, m.phase),
                      &said_all = *find(predicted, m.step, m.phase);
    const ValidationRow *a = find(of_few, m), *b = find(of_more, m), *all = find(of_all, m);
    if (a != nullptr && b != nullptr && all != nullptr)
      m.card_peak = out.used_by_others + corrected(a->probe_device, a->predicted_device, b->probe_device,
                                                   b->predicted_device, all->predicted_device, line);
    for (Bytes PhaseMeasurement::*figure :
         {&PhaseMeasurement::card_end, &PhaseMeasurement::nvml_card, &PhaseMeasurement::nvml_process,
          &PhaseMeasurement::host_resident, &PhaseMeasurement::pinned})
      m.*figure = line((*at).*figure, m.*figure);
    m.seconds = std::max(m.seconds, line(at->seconds, m.seconds));  // the first run also loads libraries
    for (DeviceReport& device : out.report.devices)
      for (PhaseReport& row : device.phases)
        if (row.step == m.step && row.phase == m.phase)
          correct(*find(few.probe.report, m.step, m.phase), said_few, said_more, said_all, line, row);
  }
  return out;
}

Result<Probe> quick_probe(const Job& job, const ProbeOptions& options, const Predict& predict) {
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
  ProbeOptions probing = options;
  const auto measure = [&](std::int64_t count) -> Result<Measured> {
    const Job cut = with_layers(job, count);
    Measured out;
    HEADROOM_ASSIGN(out.predicted, predict(cut));
    HEADROOM_ASSIGN(out.probe, probe(cut, probing));
    // From now on this process is among those that use the card.
    probing.used_by_others = out.probe.used_by_others;
    return out;
  };
  HEADROOM_ASSIGN(const Report predicted, predict(job));
  HEADROOM_ASSIGN(const Measured few, measure(kFew));
  if (ran_out(few.probe.report)) return without_room(few.probe, kFew);
  HEADROOM_ASSIGN(const Measured more, measure(kMore));
  if (ran_out(more.probe.report)) return without_room(more.probe, kMore);
  return extrapolate(few, more, predicted, kFew, kMore, static_cast<double>(layers));
}

}  // namespace headroom::gpu
