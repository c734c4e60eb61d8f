#include "validator/comparison.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "simulator/device/verdict.h"

namespace headroom::gpu {
namespace {

using Key = std::pair<int, std::string>;

double relative(Bytes measured, Bytes predicted) {
  if (measured == 0) return predicted == 0 ? 0.0 : 1.0;
  return static_cast<double>(predicted - measured) / static_cast<double>(measured);
}

std::map<Key, const PhaseReport*> by_phase(const Report& report) {
  std::map<Key, const PhaseReport*> out;
  for (const DeviceReport& device : report.devices)
    for (const PhaseReport& phase : device.phases) out.emplace(Key{phase.step, phase.phase}, &phase);
  return out;
}

/// The row of the process named `trainer`; none where it did nothing in the phase.
const ProcessPhase* row_of(const PhaseReport& phase, const std::string& trainer) {
  for (const ProcessPhase& process : phase.processes)
    if (process.process == trainer) return &process;
  return nullptr;
}

/// The training process is the first that a job's phases name.
std::string trainer_of(const Report& report) {
  for (const DeviceReport& device : report.devices)
    for (const PhaseReport& phase : device.phases)
      if (!phase.processes.empty()) return phase.processes.front().process;
  return {};
}

std::optional<std::string> failure(const PhaseReport& phase) {
  for (const ProcessPhase& process : phase.processes)
    if (process.out_of_memory) return process.out_of_memory;
  return std::nullopt;
}

Bytes integer(const Document& phase, const char* key) {
  const Document* value = phase.find(key);
  return value == nullptr ? 0 : value->as_int().value_or(0);
}

void add(ErrorSummary& summary, double error) {
  ++summary.phases;
  summary.mean += (std::abs(error) - summary.mean) / static_cast<double>(summary.phases);
  summary.worst = std::max(summary.worst, std::abs(error));
}

ValidationRow::Counters counters_of(const ProcessPhase& process) {
  return {.active = process.peak_active,
          .inactive_split = process.inactive_split_end,
          .segments = process.segments,
          .retries = process.retries,
          .allocations = process.n_allocs};
}

std::string place(const Key& key) {
  return key.first < 0 ? key.second : fmt::format("step {} {}", key.first, key.second);
}

/// Phases of the GPU that is measured which `predicted` has and `probe` did not measure. A row that covers
/// others of its step is made of them, not run.
std::vector<std::string> unmeasured_phases(const Report& predicted, const Probe& probe) {
  std::vector<std::string> out;
  if (predicted.devices.empty()) return out;
  const std::vector<PhaseReport>& phases = predicted.devices.front().phases;
  for (const PhaseReport& phase : phases) {
    const auto measures = [&](const PhaseMeasurement& m) {
      return m.step == phase.step && m.phase == phase.phase;
    };
    const auto lies_within = [&](const PhaseReport& other) {
      return other.step == phase.step && other.within == phase.phase;
    };
    if (std::none_of(probe.phases.begin(), probe.phases.end(), measures) &&
        std::none_of(phases.begin(), phases.end(), lies_within))
      out.push_back(place({phase.step, phase.phase}));
  }
  return out;
}

}  // namespace

bool ran_out(const Report& report) {
  for (const DeviceReport& device : report.devices)
    for (const PhaseReport& phase : device.phases)
      if (runs_out(phase)) return true;
  return false;
}

double ValidationRow::probe_error() const {
  return relative(probe_device, predicted_device);
}

std::optional<double> ValidationRow::pytorch_error() const {
  if (!pytorch_reserved) return std::nullopt;
  return relative(*pytorch_reserved, predicted_reserved);
}

ErrorSummary Validation::probe_errors() const {
  ErrorSummary out;
  for (const ValidationRow& row : rows) add(out, row.probe_error());
  return out;
}

ErrorSummary Validation::pytorch_errors() const {
  ErrorSummary out;
  for (const ValidationRow& row : rows)
    if (const auto error = row.pytorch_error()) add(out, *error);
  return out;
}

std::vector<RecordedPhase> recorded_phases(const Document& document) {
  std::vector<RecordedPhase> out;
  const Document* phases = document.find("phases");
  if (phases == nullptr || !phases->is_list()) return out;
  for (const Document& phase : phases->items()) {
    const Document* name = phase.find("phase");
    if (name == nullptr) continue;
    out.push_back({static_cast<int>(integer(phase, "step")), name->text(), integer(phase, "peak_alloc"),
                   integer(phase, "peak_reserved")});
  }
  return out;
}

Validation compare(const Report& predicted, Probe probe, const std::vector<RecordedPhase>& recorded) {
  Validation out;
  out.title = predicted.title;
  const auto predictions = by_phase(predicted);
  const auto probes = by_phase(probe.report);
  const std::string trainer = trainer_of(predicted);
  // Predicted, of the trainer; both stay where the trainer rests.
  Bytes outside = 0, links = 0;
  std::optional<Bytes> opened;
  for (const PhaseMeasurement& measured : probe.phases) {
    const Key key{measured.step, measured.phase};
    const auto at = predictions.find(key), run = probes.find(key);
    if (run == probes.end()) continue;
    if (const auto message = failure(*run->second)) {
      out.out_of_memory = fmt::format("{}: {}", place(key), *message);
      break;
    }
    if (at == predictions.end()) {
      out.unmatched.push_back(place(key));
      continue;
    }
    ValidationRow row;
    row.step = measured.step;
    row.phase = measured.phase;
    row.predicted_seconds = at->second->seconds;
    if (const ProcessPhase* said = row_of(*at->second, trainer)) {
      row.predicted_allocated = said->peak_allocated;
      row.predicted_reserved = said->peak_reserved;
      row.predicted_counters = counters_of(*said);
      outside = said->outside;
      if (!opened) opened = said->communicators;
      if (probe.present.communicators > 0) links = said->communicators - *opened;
    }
    if (const ProcessPhase* did = row_of(*run->second, trainer)) {
      row.probe_allocated = did->peak_allocated;
      row.probe_reserved = did->peak_reserved;
      row.probe_counters = counters_of(*did);
    }
    row.predicted_device = at->second->peak_device - outside + probe.outside + links;
    row.probe_device = measured.card_peak - probe.used_by_others;
    row.measured = measured;
    for (const RecordedPhase& real : recorded)
      if (Key{real.step, real.phase} == key) {
        row.pytorch_allocated = real.allocated;
        row.pytorch_reserved = real.reserved;
      }
    out.rows.push_back(std::move(row));
  }
  if (!out.out_of_memory) out.unmeasured = unmeasured_phases(predicted, probe);
  out.notes = probe.notes;
  constexpr Bytes kBusy = 256 * kMiB;
  if (probe.used_by_others > kBusy)
    out.notes.push_back(fmt::format(
        "the card was busy: others held {} before this run and are taken off its device figures; what they "
        "took or gave back meanwhile counts as this run's",
        format_gib(probe.used_by_others)));
  out.probe = std::move(probe);
  return out;
}

RankSummary Validation::summary() const {
  RankSummary out{
      .rank = probe.present.rank, .highest = 0, .errors = probe_errors(), .out_of_memory = out_of_memory};
  for (const ValidationRow& row : rows) out.highest = std::max(out.highest, row.probe_device);
  return out;
}

bool Validation::ran_out() const {
  return out_of_memory || std::any_of(ranks.begin(), ranks.end(),
                                      [](const RankSummary& rank) { return rank.out_of_memory.has_value(); });
}

std::vector<std::string> Validation::beyond(double margin) const {
  std::vector<std::string> out;
  for (const ValidationRow& row : rows)
    if (!(std::abs(row.probe_error()) <= margin)) out.push_back(place({row.step, row.phase}));
  for (const std::string& phase : unmatched) out.push_back(phase + " (not predicted)");
  for (const std::string& phase : unmeasured) out.push_back(phase + " (not measured)");
  for (const RankSummary& rank : ranks)
    if (rank.rank != probe.present.rank && !(rank.errors.worst <= margin))
      out.push_back(fmt::format("rank {}", rank.rank));
  return out;
}

std::string verdict(const Validation& v, double margin) {
  if (v.ran_out()) return "no verdict: out of memory";
  if (v.rows.empty()) return "no verdict: no phase was both predicted and measured";
  const std::vector<std::string> beyond = v.beyond(margin);
  if (beyond.empty()) return fmt::format("within {:.3g} % in every phase", 100 * margin);
  return fmt::format("beyond {:.3g} % in: {}", 100 * margin, fmt::join(beyond, ", "));
}

std::string to_text(const RankSummary& s) {
  std::string text =
      fmt::format("{} {} {} {} {}", s.rank, s.highest, s.errors.phases, s.errors.mean, s.errors.worst);
  if (s.out_of_memory) text += "\n" + *s.out_of_memory;
  return text;
}

Result<RankSummary> rank_summary(const std::string& text) {
  RankSummary out;
  std::istringstream words(text);
  words >> out.rank >> out.highest >> out.errors.phases >> out.errors.mean >> out.errors.worst;
  if (words.fail()) return fail("a rank sent '" + text + "' instead of its result");
  if (const std::size_t end = text.find('\n'); end != std::string::npos)
    out.out_of_memory = text.substr(end + 1);
  return out;
}

namespace {

std::string mib(Bytes bytes) {
  return fmt::format("{:.0f}", static_cast<double>(bytes) / kMiB);
}

/// Who ran: ranks, their communicators, processes beside the trainer.
std::string company(const Validation& v) {
  const Present& present = v.probe.present;
  std::string text;
  if (present.of_job > 1)
    text += fmt::format("{} of the job's {} ranks, with the sizes of all {}\n", present.ranks, present.of_job,
                        present.of_job);
  if (present.communicators > 0)
    text += fmt::format("NCCL took {} MiB for {} communicators\n", mib(present.communicator_bytes),
                        present.communicators);
  for (const auto& [process, context] : v.probe.neighbours)
    text += fmt::format("beside it a process that holds what {} would; its own context is {} MiB\n", process,
                        mib(context));
  for (const RankSummary& rank : v.ranks)
    text +=
        fmt::format("rank {}: device peak {} MiB; predicted against probe: mean {:.2f} %, worst {:.2f} %\n",
                    rank.rank, mib(rank.highest), 100 * rank.errors.mean, 100 * rank.errors.worst);
  for (const RankSummary& rank : v.ranks)
    if (rank.out_of_memory && rank.rank != present.rank)
      text += fmt::format("rank {}: out of memory in {}\n", rank.rank, *rank.out_of_memory);
  return text;
}

/// How the operations were done, and whether the heaviest have kernels.
std::string work_done(const WorkSummary& work) {
  const KindCount total = work.total();
  std::string text =
      fmt::format("{} operations, {} without a kernel of their kind", total.operations, total.touched);
  if (total.host > 0) text += fmt::format(", {} done by the host", total.host);
  if (total.alone > 0) text += fmt::format(", {} collectives without another rank", total.alone);
  const std::vector<std::string> lacking = work.heaviest_touched();
  return text + (lacking.empty()
                     ? "\nthe ten that hold most memory and the ten that take most time have one\n"
                     : fmt::format("\nof the ten that hold most memory or take most time without one: {}\n",
                                   fmt::join(lacking, ", ")));
}

}  // namespace

void time_by(const Report& work, Validation& v) {
  const auto predictions = by_phase(work);
  for (ValidationRow& row : v.rows)
    if (const auto at = predictions.find(Key{row.step, row.phase}); at != predictions.end())
      row.predicted_seconds = at->second->seconds;
  v.notes.push_back(
      fmt::format("seconds are those of the work that the probe ran, from its own host: {:.1f} us a launch, no Python",
                  1e6 * v.probe.launch));
}

std::string validation_table(const Validation& v, double margin) {
  std::string text = fmt::format("{} on {}", v.title, v.probe.gpu);
  for (const auto& [what, version] : v.probe.versions) text += fmt::format(", {} {}", what, version);
  text += fmt::format("\noutside the allocator: {} MiB of this process, {} MiB of others before it\n\n",
                      mib(v.probe.outside), mib(v.probe.used_by_others));
  text.insert(text.size() - 1, company(v));
  text +=
      fmt::format("{:<4} {:<22} | {:>9} {:>9} {:>9} | {:>9} {:>9} {:>9} | {:>9} {:>9} {:>7} | {:>9} {:>9}\n",
                  "", "MiB", "allocated", "", "", "reserved", "", "", "device", "", "", "seconds", "");
  text +=
      fmt::format("{:<4} {:<22} | {:>9} {:>9} {:>9} | {:>9} {:>9} {:>9} | {:>9} {:>9} {:>7} | {:>9} {:>9}\n",
                  "step", "phase", "predicted", "probe", "PyTorch", "predicted", "probe", "PyTorch",
                  "predicted", "probe", "error", "predicted", "probe");
  for (const ValidationRow& r : v.rows) {
    text += fmt::format(
        "{:<4} {:<22} | {:>9} {:>9} {:>9} | {:>9} {:>9} {:>9} | {:>9} {:>9} {:>6.2f}% | {:>9.3f} {:>9.3f}\n",
        r.step, r.phase, mib(r.predicted_allocated), mib(r.probe_allocated),
        r.pytorch_allocated ? mib(*r.pytorch_allocated) : "-", mib(r.predicted_reserved),
        mib(r.probe_reserved), r.pytorch_reserved ? mib(*r.pytorch_reserved) : "-", mib(r.predicted_device),
        mib(r.probe_device), 100 * r.probe_error(), r.predicted_seconds, r.measured.seconds);
  }
  const ErrorSummary probe = v.probe_errors(), pytorch = v.pytorch_errors();
  text += fmt::format("\ndevice peak, predicted against probe: mean {:.2f} %, worst {:.2f} % of {} phases\n",
                      100 * probe.mean, 100 * probe.worst, probe.phases);
  if (pytorch.phases > 0)
    text +=
        fmt::format("reserved peak, predicted against PyTorch: mean {:.2f} %, worst {:.2f} % of {} phases\n",
                    100 * pytorch.mean, 100 * pytorch.worst, pytorch.phases);
  text += work_done(v.probe.work);
  for (const std::string& phase : v.unmatched) text += fmt::format("no prediction for {}\n", phase);
  for (const std::string& phase : v.unmeasured) text += fmt::format("no measurement of {}\n", phase);
  for (const std::string& note : v.notes) text += fmt::format("note: {}\n", note);
  if (v.out_of_memory) text += fmt::format("out of memory in {}\n", *v.out_of_memory);
  return text + verdict(v, margin) + "\n";
}

std::string validation_json(const Validation& v, double margin) {
  using Json = nlohmann::ordered_json;
  Json rows = Json::array(), work = Json::object();
  const auto with_counters = [](Json figures, const ValidationRow::Counters& counters) {
    figures["active"] = counters.active;
    figures["inactive_split"] = counters.inactive_split;
    figures["segments"] = counters.segments;
    figures["retries"] = counters.retries;
    figures["allocations"] = counters.allocations;
    return figures;
  };
  for (const ValidationRow& r : v.rows) {
    Json row = {{"step", r.step},
                {"phase", r.phase},
                {"predicted", with_counters({{"allocated", r.predicted_allocated},
                                             {"reserved", r.predicted_reserved},
                                             {"device", r.predicted_device},
                                             {"seconds", r.predicted_seconds}},
                                            r.predicted_counters)},
                {"probe", with_counters({{"allocated", r.probe_allocated},
                                         {"reserved", r.probe_reserved},
                                         {"device", r.probe_device},
                                         {"card_end", r.measured.card_end},
                                         {"nvml_card", r.measured.nvml_card},
                                         {"nvml_process", r.measured.nvml_process},
                                         {"nvml_others", r.measured.nvml_others},
                                         {"host_resident", r.measured.host_resident},
                                         {"pinned", r.measured.pinned},
                                         {"seconds", r.measured.seconds}},
                                        r.probe_counters)},
                {"device_error", r.probe_error()}};
    if (r.pytorch_reserved) {
      row["pytorch"] = {{"allocated", *r.pytorch_allocated}, {"reserved", *r.pytorch_reserved}};
      row["pytorch_reserved_error"] = *r.pytorch_error();
    }
    rows.push_back(std::move(row));
  }
  for (const auto& [kind, count] : v.probe.work.kinds)
    work[kind] = {{"operations", count.operations}, {"without_kernel", count.touched},
                  {"on_host", count.host},          {"alone", count.alone},
                  {"bytes", count.bytes},           {"flops", count.flops}};
  const auto summary = [](const ErrorSummary& s) {
    return Json{{"phases", s.phases}, {"mean", s.mean}, {"worst", s.worst}};
  };
  const auto heaviest = [](const std::vector<NamedOperation>& operations) {
    Json list = Json::array();
    for (const NamedOperation& one : operations)
      list.push_back({{"operation", one.name},
                      {"operations", one.operations},
                      {"without_kernel", one.touched},
                      {"held", one.held},
                      {"seconds", one.seconds}});
    return list;
  };
  Json ranks = Json::array();
  for (const RankSummary& rank : v.ranks)
    ranks.push_back({{"rank", rank.rank},
                     {"highest", rank.highest},
                     {"errors", summary(rank.errors)},
                     {"out_of_memory", rank.out_of_memory ? Json(*rank.out_of_memory) : Json(nullptr)}});
  Json out = {
      {"schema", "headroom.validation/1"},
      {"title", v.title},
      {"gpu", v.probe.gpu},
      {"versions", v.probe.versions},
      {"margin", margin},
      {"outside", v.probe.outside},
      {"used_by_others", v.probe.used_by_others},
      {"present",
       {{"ranks", v.probe.present.ranks},
        {"of_job", v.probe.present.of_job},
        {"communicators", v.probe.present.communicators},
        {"communicator_bytes", v.probe.present.communicator_bytes}}},
      {"ranks", std::move(ranks)},
      {"neighbours", v.probe.neighbours},
      {"probe_errors", summary(v.probe_errors())},
      {"pytorch_errors", summary(v.pytorch_errors())},
      {"phases", std::move(rows)},
      {"work", std::move(work)},
      {"without_kernel", v.probe.work.touched},
      {"heaviest", {{"memory", heaviest(v.probe.work.by_memory)}, {"time", heaviest(v.probe.work.by_time)}}},
      {"unmatched", v.unmatched},
      {"unmeasured", v.unmeasured},
      {"verdict", verdict(v, margin)},
      {"notes", v.notes}};
  out["out_of_memory"] = v.out_of_memory ? Json(*v.out_of_memory) : Json(nullptr);
  return out.dump(1) + "\n";
}

}  // namespace headroom::gpu
