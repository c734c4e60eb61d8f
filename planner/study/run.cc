#include "planner/study/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <mutex>

#include "models/base/parallel.h"
#include "planner/frameworks/registry.h"
#include "simulator/device/verdict.h"
#include "simulator/hardware/library.h"
#include "simulator/phases/simulate.h"

namespace headroom::study {
namespace {

tl::unexpected<Error> misfit(const Study& study, const Strategy& strategy, int line, const std::string& key,
                             const Error& error) {
  return fail(Error{.message = fmt::format("{}{}{}", error.key, error.key.empty() ? "" : ": ", error.message),
                    .file = study.file,
                    .line = line,
                    .key = fmt::format("{}.{}", strategy.name, key)});
}

/// The same run without the strategy, to know its framework.
Result<std::string> framework_of(const StudyJob& job) {
  if (!job.options.framework.empty()) return job.options.framework;
  HEADROOM_ASSIGN(const ReadJob read, read_job(std::array{job.file}, job.options));
  return read.job.framework;
}

Result<ReadJob> read_with(const Study& study, const StudyJob& job, const Strategy& strategy,
                          const std::string& framework) {
  JobOptions options = job.options;
  if (const auto set = strategy.set.find(framework); set != strategy.set.end())
    options.overrides.insert(options.overrides.end(), set->second.begin(), set->second.end());
  Result<ReadJob> read = read_job(std::array{job.file}, options);
  if (!read && read.error().file == "--set") return misfit(study, strategy, strategy.line, "set", read.error());
  return read;
}

Peak at(Bytes bytes, int step, const std::string& phase) {
  return {.bytes = bytes, .step = step, .phase = phase};
}

/// The training process that reserves most.
const ProcessFragmentation* largest(const std::vector<ProcessFragmentation>& all) {
  const ProcessFragmentation* out = nullptr;
  Bytes most = -1;
  for (const ProcessFragmentation& one : all)
    if (const PhaseFragmentation* peak = peak_of(one.phases); peak != nullptr && peak->reserved > most) {
      most = peak->reserved;
      out = &one;
    }
  return out;
}

const DeviceReport* device_of(const Report& report, std::int64_t index) {
  for (const DeviceReport& device : report.devices)
    if (device.device == index) return &device;
  return report.devices.empty() ? nullptr : &report.devices.front();
}

void fill_from_report(const DeviceReport& device, const std::string& process, Cell& cell) {
  const int last = device.phases.empty() ? 0 : device.phases.back().step;
  for (const PhaseReport& phase : device.phases) {
    if (phase.step == last) cell.seconds += phase.seconds;
    if (phase.peak_device > cell.device.bytes) cell.device = at(phase.peak_device, phase.step, phase.phase);
    for (const ProcessPhase& row : phase.processes) {
      if (row.out_of_memory) {
        cell.status = Cell::Status::out_of_memory;
        cell.message = fmt::format("{} stops in {} (step {}): {}", row.process, phase.phase, phase.step,
                                   *row.out_of_memory);
      }
      if (row.process != process) continue;
      cell.retries = std::max(cell.retries, row.retries);
      if (row.peak_allocated > cell.allocated.bytes)
        cell.allocated = at(row.peak_allocated, phase.step, phase.phase);
    }
  }
}

/// A peak before the first step is shown with the first step, where the run gets there.
int shown_step(int peak, int last) {
  return std::max(peak, std::min(last, 0));
}

void fill_from_process(const ProcessFragmentation& process, const DeviceReport& device, Cell& cell) {
  const PhaseFragmentation& peak = *peak_of(process.phases);
  cell.reserved = at(peak.reserved, peak.step, peak.phase);
  cell.allocated_there = peak.allocated;
  cell.kept = peak.kept();
  cell.parts = peak.parts;
  const int last = process.phases.back().step;
  for (const PhaseFragmentation& phase : process.phases) {
    if (phase.step == last) {
      cell.gets += phase.gets;
      cell.returns += phase.returns;
    }
    if (phase.step != shown_step(peak.step, last)) continue;
    CellPhase& shown = cell.step.emplace_back();
    shown.memory = phase;
    for (const PhaseReport& row : device.phases)
      if (row.step == phase.step && row.phase == phase.phase) shown.seconds = row.seconds;
  }
}

Cell cell_at(const Study& study, const Place& place) {
  Cell cell;
  cell.job = study.jobs[place.job].name;
  cell.strategy = study.strategies[place.strategy].name;
  cell.empty_cache = place.empty_cache;
  return cell;
}

Cell failed(Cell cell, const Error& error) {
  cell.status = Cell::Status::failed;
  cell.message = error.text();
  return cell;
}

Cell simulated(Cell cell, const Prepared& run) {
  cell.framework = run.job.framework;
  cell.gpu = run.hardware.name;
  for (const Pool& pool : run.job.pools) cell.gpus += pool.gpus();
  std::vector<ProcessFragmentation> processes;
  SimulateOptions options;
  options.fragmentation = &processes;
  const Result<Report> report = simulate(run.job, run.hardware, options);
  if (!report) return failed(std::move(cell), report.error());
  const ProcessFragmentation* process = largest(processes);
  if (process == nullptr) return failed(std::move(cell), {.message = "no process trains", .file = {}, .key = {}});
  const DeviceReport* device = device_of(*report, process->device);
  if (device == nullptr) return failed(std::move(cell), {.message = "no phase runs", .file = {}, .key = {}});
  fill_from_process(*process, *device, cell);
  fill_from_report(*device, process->process, cell);
  return cell;
}

}  // namespace

Result<std::optional<Prepared>> prepare(const Study& study, const Place& place) {
  const StudyJob& job = study.jobs[place.job];
  const Strategy& strategy = study.strategies[place.strategy];
  std::string framework;
  if (!strategy.set.empty()) {
    HEADROOM_ASSIGN(framework, framework_of(job));
    if (!strategy.set.contains(framework) && strategy.changes.empty()) return std::nullopt;
  }
  HEADROOM_ASSIGN(const ReadJob read, read_with(study, job, strategy, framework));
  if (read.job.gpu.empty())
    return fail(Error{.message = "expected the kind of GPU, found none; give the job a `gpu`",
                      .file = study.file,
                      .line = job.line,
                      .key = job.name});
  Prepared out;
  HEADROOM_ASSIGN(out.hardware, load_hardware(read.job.gpu));
  // The emptying takes out what the framework does, not what a strategy brings.
  out.job = emptied(read.job, place.empty_cache);
  out.job.lengths = {};  // the caps, as every prediction without --lengths
  for (const Change& change : strategy.changes) {
    Result<Job> next = changed(std::move(out.job), change);
    if (!next) return misfit(study, strategy, change.line, change.kind, next.error());
    out.job = std::move(*next);
  }
  if (const Status valid = validate_job(out.job); !valid)
    return misfit(study, strategy, strategy.line, "job " + job.name, valid.error());
  return out;
}

Cell run_cell(const Study& study, const Place& place) {
  Cell cell = cell_at(study, place);
  const Result<std::optional<Prepared>> run = prepare(study, place);
  if (!run) return failed(std::move(cell), run.error());
  if (!*run) return failed(std::move(cell), {.message = "the strategy says nothing for its framework", .file = {}, .key = {}});
  return simulated(std::move(cell), **run);
}

Result<Results> run_study(const Study& study, Finished* finished, unsigned threads,
                          const std::function<void(const Progress&)>& tell) {
  const std::vector<Place> all = places(study);
  std::vector<std::optional<Cell>> cells(all.size());
  Progress progress{.all = all.size()};
  Status written;
  std::mutex mutex;
  parallel_for(all.size(), threads, [&](std::size_t i) {
    const Result<std::optional<Prepared>> run = prepare(study, all[i]);
    Cell cell = cell_at(study, all[i]);
    bool known = false, shown = true;
    Status added;
    if (!run) {
      cell = failed(std::move(cell), run.error());
    } else if (!*run) {
      shown = false;  // nothing to run here
    } else {
      const std::string key = finished == nullptr ? "" : key_of((*run)->job, (*run)->hardware, finished->build());
      if (const Cell* earlier = finished == nullptr ? nullptr : finished->find(key)) {
        const Cell names = cell;
        cell = *earlier;  // equal runs may stand in several places
        cell.job = names.job;
        cell.strategy = names.strategy;
        cell.empty_cache = names.empty_cache;
        known = true;
      } else {
        cell = simulated(std::move(cell), **run);
        if (finished != nullptr) added = finished->add(key, cell);
      }
    }
    const std::lock_guard lock(mutex);
    if (!added && written) written = added;
    progress.known += known ? 1 : 0;
    progress.failed += cell.status == Cell::Status::failed ? 1 : 0;
    ++progress.done;
    if (shown) cells[i] = std::move(cell);
    if (tell) tell(progress);
  });
  HEADROOM_TRY(written);
  Results out{.name = study.name, .cells = {}};
  for (std::optional<Cell>& cell : cells)
    if (cell) out.cells.push_back(std::move(*cell));
  return out;
}

}  // namespace headroom::study
