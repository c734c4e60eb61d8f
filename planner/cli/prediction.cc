#include "planner/cli/prediction.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <set>
#include <tuple>
#include <utility>

#include "planner/cli/cached_memory.h"
#include "planner/cli/dataset_lengths.h"
#include "planner/cli/drawn_steps.h"
#include "planner/cli/executors.h"
#include "planner/cli/lengths.h"
#include "planner/cli/output.h"
#include "planner/cli/understood.h"
#include "planner/frameworks/input.h"
#include "planner/writers/writer.h"
#include "simulator/hardware/library.h"

namespace headroom::cli {
namespace {

constexpr const char* kStandardInput = "standard input";

JobOptions job_options(const Common& common) {
  JobOptions options;
  options.framework = common.framework.value_or("");
  options.model = common.model.value_or("");
  options.overrides = common.overrides;
  options.include_paths = common.include_paths;
  options.gpu = common.gpu.value_or("");
  options.nodes = common.nodes;
  options.gpus_per_node = common.gpus_per_node;
  options.steps = common.steps;
  options.words = common.words;
  options.environment = common.environment;
  return options;
}

Result<ReadJob> read(const std::string& path, const JobOptions& options, Streams& streams) {
  if (path != "-") return read_job(std::array{path}, options);
  HEADROOM_ASSIGN(std::string text, read_standard_input(streams));
  return read_job_text(std::move(text), kStandardInput, options);
}

/// `error` with the place of the configuration, when it has none of its own.
Error placed(Error error, const std::string& file, int line = 0, const std::string& key = "") {
  if (!error.file.empty() || error.key.starts_with("--") || error.message.starts_with("--")) return error;
  error.file = file;
  error.line = line;
  if (error.key.empty()) error.key = key;
  return error;
}

/// A name that is no GPU's is told with the place that gives it.
Error no_such_gpu(Error error, const ReadJob& read, const Common& common) {
  // A profile's file that is not there says nothing itself: the name is what is wrong.
  if (error.file == read.job.gpu && error.line == 0 && error.key.empty()) {
    error.message = error.file + ": " + error.message;
    error.file.clear();
  }
  if (common.gpu && error.file.empty()) error.key = "--gpu";
  if (!common.gpu)
    for (const KeyUse& use : read.keys)
      if (use.key == "device" && use.value == read.job.gpu)
        error = placed(std::move(error), use.file, use.line, use.key);
  for (const JobInput::File& file : read.input.files)
    for (const char* key : {"gpu", "headroom.gpu"})
      if (const Document* found = file.document.find_path(key))
        error = placed(std::move(error), file.path, found->line(), key);
  return placed(std::move(error), read.input.files.empty() ? "" : read.input.files.back().path);
}

Result<Hardware> hardware_of(const ReadJob& read, const Common& common, const std::string& path) {
  if (!read.job.gpu.empty()) {
    Result<Hardware> found = load_hardware(read.job.gpu);
    return found ? found : fail(no_such_gpu(std::move(found.error()), read, common));
  }
  return fail(
      Error{.message = "expected the kind of GPU, found none; give --gpu NAME (`headroom gpus` lists them)",
            .file = path,
            .key = {}});
}

constexpr const char* kCaps = "caps";  // of --lengths: nothing else is asked

Warning as_warning(const Notice& notice) {
  Warning warning;
  warning.code = "configuration";
  warning.message = notice.message;
  warning.file = notice.file;
  warning.line = notice.line;
  warning.key = notice.key;
  return warning;
}

void add_versions(const Versions& versions, Report& report) {
  for (const auto& [library, version] :
       {std::pair{"torch", versions.torch}, std::pair{"transformers", versions.transformers},
        std::pair{"vllm", versions.vllm}, std::pair{"sglang", versions.sglang},
        std::pair{"deepspeed", versions.deepspeed}, std::pair{"megatron", versions.megatron},
        std::pair{"cuda", versions.cuda}, std::pair{"nccl", versions.nccl}})
    if (!version.empty()) report.versions.emplace_back(library, version);
}

/// Both reports are of one job: devices and phases come in the same order.
void add_expected(const Report& expected, Report& report) {
  for (std::size_t d = 0; d < std::min(report.devices.size(), expected.devices.size()); ++d) {
    std::vector<PhaseReport>& phases = report.devices[d].phases;
    const std::vector<PhaseReport>& others = expected.devices[d].phases;
    for (std::size_t i = 0; i < std::min(phases.size(), others.size()); ++i) {
      phases[i].expected_device = others[i].peak_device;
      // Memory is decided by the longest sequences, time by the usual ones.
      phases[i].seconds = others[i].seconds;
      phases[i].spent = others[i].spent;
    }
  }
}

/// "fits, 63.10 GiB at most in train_actor"
std::string outcome(const Report& report) {
  const PeakPlace place = highest(report);
  const std::string_view word = report.fits                    ? "fits"
                                : undetermined(report).empty() ? "does not fit"
                                                               : "is undetermined";
  if (place.phase == nullptr) return std::string(word);
  return fmt::format("{}, {} at most in {}", word, format_gib(place.phase->peak_device), place.phase->phase);
}

/// "prompts of 104, responses of 313 tokens"
std::string described(const Lengths& lengths) {
  std::string out = fmt::format("prompts of {:.0f}, responses of {:.0f} tokens", lengths.mean_prompt,
                                lengths.mean_response);
  if (lengths.mean_response <= 0) out = fmt::format("prompts of {:.0f} tokens, responses of the cap's", lengths.mean_prompt);
  if (lengths.mean_prompt <= 0) out = fmt::format("prompts of the cap's, responses of {:.0f} tokens", lengths.mean_response);
  return out;
}

/// The report of known lengths in place of the caps' one, which does not fit.
void let_lengths_decide(Report& report, Report expected, const Job& job, const Lengths& lengths) {
  Warning warning;
  warning.code = "lengths";
  warning.message =
      fmt::format("decided at the lengths that are known ({}); with every sequence at its cap ({} + {} tokens) it {}",
                  described(lengths), job.batch.prompt_length, job.batch.response_length, outcome(report));
  report = std::move(expected);
  report.assumptions.push_back("lengths: " + lengths.source);
  report.warnings.push_back(std::move(warning));
}

/// Lengths are known and the caps do not fit: steps with drawn lengths decide, where lengths change anything, what one
/// step of usual lengths cannot.
Status let_draws_decide(Report& report, const Job& capped, const Lengths& lengths, const Run& run) {
  for (const DeviceReport& device : report.devices)
    if (std::any_of(device.phases.begin(), device.phases.end(), runs_out)) return {};
  const PeakPlace place = highest(report);
  if (place.phase == nullptr) return {};
  const Bytes whole = budget_of(*place.device, run.limits), room = whole - place.phase->margin;
  HEADROOM_ASSIGN(const std::optional<DrawnSteps> drawn, draw_steps(capped, lengths, run.hardware, room));
  if (!drawn) return {};
  std::erase_if(report.warnings, [](const Warning& warning) {
    return warning.code == headroom::kUndetermined || warning.code == kGivesBack;
  });
  report.fits = drawn->ran_out == 0;
  const std::string within = fmt::format("{}, within {}", text(*drawn), format_gib(room));
  const auto tell = [&](const char* code, std::string message) {
    Warning& risk = report.warnings.emplace_back();
    risk.code = code;
    risk.message = std::move(message);
  };
  if (report.fits) {
    tell(drawn->gave_back > 0 || spare(report) < 0 ? kGivesBack : kRisk, within);
    return {};
  }
  // The margin is for what a prediction misses: where it alone decides, nobody knows.
  HEADROOM_ASSIGN(const std::optional<DrawnSteps> all, draw_steps(capped, lengths, run.hardware, whole));
  if (all && all->ran_out == 0)
    leave_open(report, fmt::format("{}, and none within {}", within, format_gib(whole)));
  else
    tell(kRisk, within);
  return {};
}

/// Where nothing limits host memory, a run that needs no more of it than its node's cards have themselves is
/// hardly ever short of it: that is no warning, but said.
void quiet_about_host(Report& report, const Run& run) {
  Bytes highest = 0;
  for (const DeviceReport& device : report.devices)
    for (const PhaseReport& phase : device.phases) highest = std::max(highest, phase.peak_host);
  std::int64_t gpus = 1;
  for (const Pool& pool : run.read.job.pools) gpus = std::max(gpus, pool.gpus_per_node);
  if (highest > run.hardware.total_memory * gpus) return;
  const auto removed = std::erase_if(report.warnings, [](const Warning& warning) {
    return warning.code == "host-unchecked";
  });
  if (removed > 0)
    report.assumptions.push_back(fmt::format("host memory, {} a node at most, is enough; --host-budget checks it",
                                             format_gib(highest)));
}

/// No budget reaches beyond the card: what fits such a one need not run.
Status within_the_card(const Limits& limits) {
  const auto check = [&](Bytes budget) -> Status {
    if (budget <= limits.card) return {};
    return fail(Error{.message = fmt::format("expected at most the card's {}, found {}",
                                             format_gib(limits.card), format_gib(budget)),
                      .file = {},
                      .key = "--budget"});
  };
  for (const auto& [pool, budget] : limits.pools) HEADROOM_TRY(check(budget));
  return check(limits.budget);
}

/// What looks at a job first, and what simulates it where that decides nothing.
struct Executors {
  const Executor &first, &exact;
};

/// The judged report of `job`, one of `run`'s. Where in the closed form only memory that the allocator keeps passes the
/// budget, the simulator decides: whether it can be given back is not in a sum of live bytes.
Result<Report> decided(const Job& job, const Run& run, const Executors& executors) {
  HEADROOM_ASSIGN(Report report, executors.first(job, run.hardware));
  judge(report, run.limits);
  if (only_cached_memory_passes(report, run.limits)) {
    HEADROOM_ASSIGN(report, executors.exact(job, run.hardware));
    report.assumptions.push_back(
        "every allocation was simulated: in closed form only memory that the allocator keeps passes the budget");
    judge(report, run.limits);
  }
  HEADROOM_TRY(settle_cached_memory(report, job, run.hardware, run.limits, executors.exact));
  return report;
}

struct Cluster {
  std::int64_t nodes = 0, gpus_per_node = 0;
  bool operator==(const Cluster&) const = default;
};

Cluster cluster_of(const Job& job) {
  Cluster out;
  for (const Pool& pool : job.pools) out = {out.nodes + pool.nodes, pool.gpus_per_node};
  return out;
}

/// The cluster when a size of it is `value`: whole nodes, or a part of one.
Result<Cluster> resized(Cluster cluster, std::string_view key, std::int64_t value) {
  if (key == kNodesFlag) return Cluster{value, cluster.gpus_per_node};
  if (key == kGpusPerNodeFlag) return Cluster{cluster.nodes, value};
  if (value <= cluster.gpus_per_node) return Cluster{1, value};
  if (value % cluster.gpus_per_node != 0)
    return fail(fmt::format("expected whole nodes of {} GPUs, found {}", cluster.gpus_per_node, value));
  return Cluster{value / cluster.gpus_per_node, cluster.gpus_per_node};
}

/// Where another release that the run may be meant for ends with another verdict, that is told too.
Status tell_alternative(const ReadJob& other, const Run& run, const std::optional<Lengths>& usual,
                        const Executors& executors, Report& report) {
  Result<Report> predicted = decided(other.job, run, executors);
  if (predicted && !predicted->fits && usual)
    predicted = decided(at_expected_lengths(other.job, *usual), run, executors);
  if (!predicted) return {};  // what can't be predicted there has no verdict
  leave_undetermined(*predicted, other.job.not_modelled);
  const auto verdict = [](const Report& one) {
    return one.fits ? "fits" : undetermined(one).empty() ? "does not fit" : "is undetermined";
  };
  if (std::string_view(verdict(*predicted)) == verdict(report)) return {};
  const PeakPlace place = highest(*predicted);
  Warning warning;
  warning.code = "release";
  warning.message = fmt::format(
      "nothing tells whether this is a run of {0} {1}: there it {2} ({3} at most in {4}); --set "
      "headroom.versions.{0}=… says which",
      other.job.framework, other.job.versions.framework, verdict(*predicted),
      format_gib(place.phase == nullptr ? 0 : place.phase->peak_device),
      place.phase == nullptr ? "" : place.phase->phase);
  report.warnings.push_back(std::move(warning));
  return {};
}

}  // namespace

Limits limits_of(const Common& common, const Hardware& hardware) {
  Limits limits;
  limits.card = limits.budget = hardware.total_memory;
  for (const Limit& limit : common.budgets) {
    if (limit.pool.empty()) {
      limits.budget = limit.of(limits.card);
    } else {
      limits.pools.emplace_back(limit.pool, limit.of(limits.card));
    }
  }
  limits.host_budget = common.host_budget.value_or(hardware.host_memory);
  if (common.margin) limits.margin = common.margin->of(limits.card);
  return limits;
}

Result<Run> load_run(const std::string& path, const Common& common, Streams& streams) {
  for (const std::string& folder : common.include_paths)
    if (std::error_code error; !std::filesystem::is_directory(folder, error))
      return fail(Error{.message = fmt::format("expected a directory, found '{}'", folder),
                        .file = {},
                        .key = "--include-path"});
  Run run;
  JobOptions options = job_options(common);
  const std::string shown = path == "-" ? kStandardInput : path;
  Result<ReadJob> first = read(path, options, streams);
  if (!first) return fail(path == kCommandLine ? first.error() : placed(std::move(first.error()), shown));
  run.read = std::move(*first);
  run.options = options;
  if (path != "-")  // standard input is read once
    for (const std::string& release : run.read.alternatives) {
      options.versions.framework = release;
      Result<ReadJob> other = read(path, options, streams);
      if (other) run.alternatives.push_back(std::move(*other));
    }
  run.framework = find_framework(run.read.job.framework);
  if (Status valid = validate_job(run.read.job); !valid)
    return fail(placed(std::move(valid.error()), shown));
  if (!common.lengths) {
    run.data_lengths = lengths_of_data(run.read);
  } else if (*common.lengths != kCaps) {
    HEADROOM_ASSIGN(run.read.job.lengths, read_lengths(*common.lengths, run.read.job));
  }
  HEADROOM_ASSIGN(run.hardware, hardware_of(run.read, common, path));
  run.limits = limits_of(common, run.hardware);
  run.other_seconds = common.other_seconds;
  HEADROOM_TRY(within_the_card(run.limits));
  const auto& pools = run.read.job.pools;
  for (auto& [pool, budget] : run.limits.pools) {
    if (std::none_of(pools.begin(), pools.end(), [&](const Pool& one) { return one.name == pool; }))
      return fail(
          Error{.message = fmt::format("no pool is named '{}'", pool), .file = {}, .key = "--budget"});
    if (pool == pools.front().name) pool.clear();  // as devices of the first pool are named
  }
  return run;
}

Result<ReadJob> with_size(const Run& run, const Size& size, const std::string& value) {
  JobOptions options = run.options;
  // Words behind `--` are a script's, or overrides beside files.
  if (run.read.input.files.empty() || run.read.input.files.front().launch == nullptr)
    options.overrides.insert(options.overrides.end(), options.words.begin(), options.words.end());
  options.words.clear();
  std::optional<Cluster> cluster;
  if (size.key.starts_with("--")) {
    HEADROOM_ASSIGN(cluster, resized(cluster_of(run.read.job), size.key, std::stoll(value)));
    options.nodes = cluster->nodes;
    options.gpus_per_node = cluster->gpus_per_node;
  } else {
    options.overrides.push_back("++" + size.key + "=" + value);
  }
  HEADROOM_ASSIGN(ReadJob out, read_job(run.read.input, options));
  HEADROOM_TRY(validate_job(out.job));
  if (cluster && cluster_of(out.job) != *cluster) return fail("the configuration itself states these GPUs");
  return out;
}

/// Roles whose layers keep a state run with kernels that no key names, and that nobody has recorded.
void note_states(Report& report, const Job& job) {
  const auto keeps_state = [](const Role& role) {
    const auto& groups = role.model->decoder.groups;
    return std::any_of(groups.begin(), groups.end(),
                       [](const LayerGroup& group) { return group.layer.state.heads > 0; });
  };
  for (const Role& role : job.roles) {
    if (role.model == nullptr || !keeps_state(role)) continue;
    report.assumptions.push_back(fmt::format(
        "{}: layers that keep a state run with their fused kernels (flash-linear-attention, causal-conv1d, "
        "mamba_ssm), from their sources, unrecorded; without them they take more",
        role.model->source));
    return;
  }
}

void describe(Report& report, const Run& run) {
  if (report.title.empty()) report.title = run.read.job.name;
  if (report.file.empty() && !run.read.input.files.empty()) report.file = run.read.input.files.back().path;
  report.understood = understood(run.read.job, run.hardware);
  report.other_seconds = run.other_seconds;
  report.framework = run.read.job.framework;
  if (!run.read.job.versions.framework.empty())
    report.versions.emplace_back(run.read.job.framework, run.read.job.versions.framework);
  add_versions(run.read.job.versions, report);
  report.assumptions.insert(report.assumptions.begin(), run.read.job.assumptions.begin(),
                            run.read.job.assumptions.end());
  note_states(report, run.read.job);
  std::vector<Warning> read;
  for (const Notice& notice : run.read.warnings) read.push_back(as_warning(notice));
  report.warnings.insert(report.warnings.begin(), read.begin(), read.end());
  std::set<std::tuple<std::string, int, std::string, std::string>> told;
  std::erase_if(report.warnings, [&](const Warning& warning) {
    return !told.emplace(warning.file, warning.line, warning.key, warning.message).second;
  });
}

Result<Report> predict(const Run& run, const Executor& executor, const Executor& exact) {
  const Executors executors{executor, exact};
  // The worst case knows no lengths but the caps, unless every sequence is known.
  Job capped = run.read.job;
  const bool known = !capped.lengths.listed.empty();
  const Lengths lengths = known ? Lengths{} : std::exchange(capped.lengths, {});
  Result<Report> predicted = decided(capped, run, executors);
  if (!predicted)
    return fail(placed(std::move(predicted.error()),
                       run.read.input.files.empty() ? "" : run.read.input.files.back().path));
  Report report = std::move(*predicted);
  const bool given = !lengths.source.empty();
  const std::optional<Lengths> usual = given ? std::optional(lengths) : run.data_lengths;
  if (given || (usual && !report.fits)) {
    HEADROOM_ASSIGN(Report expected, decided(at_expected_lengths(capped, *usual), run, executors));
    if (report.fits) {
      add_expected(expected, report);
      leave_undetermined(expected, run.read.job.not_modelled);
      report.assumptions.push_back(fmt::format("at expected lengths ({}; {}) the run {}", described(*usual), usual->source, outcome(expected)));
    } else {
      const bool open = !undetermined(expected).empty();
      let_lengths_decide(report, std::move(expected), capped, *usual);
      if (report.executor == "simulator" && (given || open)) HEADROOM_TRY(let_draws_decide(report, capped, *usual, run));
    }
  }
  if (known)
    report.assumptions.push_back(
        "micro-batches are the listed ones: the prediction holds for these sequences, not for longer ones");
  describe(report, run);
  leave_undetermined(report, run.read.job.not_modelled);
  quiet_about_host(report, run);
  for (const ReadJob& other : run.alternatives) HEADROOM_TRY(tell_alternative(other, run, usual, executors, report));
  return report;
}

writers::TableStyle table_style(const Common& common, const Streams& streams) {
  return {.colour = streams.colour,
          .every_phase = common.every_phase,
          .plain = streams.plain,
          .width = streams.width};
}

int verdict_code(const Report& report) {
  if (report.fits) return kDone;
  return undetermined(report).empty() ? kOver : kUndetermined;
}

bool takes_standard_output(const Common& common) {
  return common.json == "-" || common.html == "-" || common.csv == "-" || common.markdown == "-";
}

Status write_reports(std::span<const Report> reports, const Common& common, Streams& streams) {
  const std::array<std::pair<std::string_view, const std::optional<std::string>*>, 4> places = {
      {{"--json", &common.json},
       {"--html", &common.html},
       {"--csv", &common.csv},
       {"--markdown", &common.markdown}}};
  if (reports.empty()) return {};
  Status all;  // one that fails loses no other
  for (const auto& [flag, place] : places) {
    if (!*place) continue;
    for (const writers::Writer& writer : writers::writers()) {
      if (flag != writer.flag) continue;
      if (Status one = write_output(**place, writer.write(reports), streams); !one && all) all = one;
    }
  }
  return all;
}

int gravest(int a, int b) {
  static constexpr std::array<int, 6> kOrder = {kIncomplete,   kBadInput, kDisagrees, kOver,
                                                kUndetermined, kDone};
  for (const int code : kOrder)
    if (a == code || b == code) return code;
  return a;
}

}  // namespace headroom::cli
