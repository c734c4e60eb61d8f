#include "planner/frameworks/registry.h"

#include <fmt/format.h>

#include <array>
#include <iterator>

#include "planner/frameworks/chatlearn/read.h"
#include "planner/frameworks/chatlearn/sizes.h"
#include "planner/frameworks/colossalchat/loop.h"
#include "planner/frameworks/colossalchat/read.h"
#include "planner/frameworks/colossalchat/sizes.h"
#include "planner/frameworks/deepspeed_chat/loops.h"
#include "planner/frameworks/deepspeed_chat/read.h"
#include "planner/frameworks/deepspeed_chat/sizes.h"
#include "planner/frameworks/easyr1/read.h"
#include "planner/frameworks/easyr1/sizes.h"
#include "planner/frameworks/input.h"
#include "planner/frameworks/job/framework.h"
#include "planner/frameworks/job/sizes.h"
#include "planner/frameworks/named_configuration.h"
#include "planner/frameworks/nemo_rl/read.h"
#include "planner/frameworks/nemo_rl/sizes.h"
#include "planner/frameworks/openrlhf/read.h"
#include "planner/frameworks/openrlhf/sizes.h"
#include "planner/frameworks/recognised.h"
#include "planner/frameworks/settings/arguments.h"
#include "planner/frameworks/shell/launch.h"
#include "planner/frameworks/torch/read.h"
#include "planner/frameworks/torch/sizes.h"
#include "planner/frameworks/trl/loops.h"
#include "planner/frameworks/trl/read.h"
#include "planner/frameworks/trl/sizes.h"
#include "planner/frameworks/verl/knobs.h"
#include "planner/frameworks/verl/read.h"
#include "planner/frameworks/verl/sizes.h"
#include "planner/frameworks/verl/write.h"
#include "planner/frameworks/write_back.h"
#include "planner/frameworks/write_named.h"

namespace headroom {

std::string Notice::text() const {
  return Error{.message = message, .file = file, .line = line, .key = key}.text();
}

std::span<const Framework> frameworks() {
  static constexpr std::array table = {
      Framework{.name = "job",
                .summary = "Headroom's own job file",
                .detect = jobfile::detect,
                .read = jobfile::read,
                .knobs = jobfile::knobs,
                .with = jobfile::with,
                .settings_of = jobfile::settings_for,
                .write = write_back,
                .sizes = jobfile::kSizes},
      Framework{.name = "verl",
                .summary = "verl 0.3 to 0.9: Hydra YAML, whole or partial, or a list of overrides",
                .detect = verl::detect,
                .read = verl::read,
                .knobs = verl::knobs,
                .with = verl::with,
                .settings_of = verl::settings_for,
                .write = verl::write_yaml_file,
                .write_script = verl::write_launch_script,
                .write_overrides = verl::write_override_list,
                .sizes = verl::kSizes},
      Framework{.name = "nemo-rl",
                .summary = "NeMo RL 0.2.1 to main: YAML with its parents, overrides, commands and scripts",
                .detect = nemo_rl::detect,
                .read = nemo_rl::read,
                .knobs = nemo_rl::knobs,
                .with = nemo_rl::with,
                .settings_of = nemo_rl::settings_for,
                .write = write_back,
                .write_script = write_hydra_script,
                .write_overrides = write_hydra_overrides,
                .sizes = nemo_rl::kSizes},
      Framework{.name = "openrlhf",
                .summary = "OpenRLHF 0.5.9 to 0.11: command lines and scripts in both dialects",
                .detect = openrlhf::detect,
                .read = openrlhf::read,
                .knobs = openrlhf::knobs,
                .with = openrlhf::with,
                .settings_of = openrlhf::settings_for,
                .write = settings::write_arguments,
                .write_script = settings::write_arguments,
                .sizes = openrlhf::kSizes},
      Framework{.name = "chatlearn",
                .summary = "ChatLearn: GRPO's YAML, commands and scripts (1.2 and later), RLHF's files and scripts (up to 1.0.3)",
                .detect = chatlearn::detect,
                .read = chatlearn::read,
                .knobs = chatlearn::knobs,
                .with = chatlearn::with,
                .settings_of = chatlearn::settings_for,
                .write = chatlearn::write,
                .write_script = chatlearn::write_script,
                .write_overrides = chatlearn::write_overrides,
                .sizes = chatlearn::kSizes},
      Framework{.name = "easyr1",
                .summary = "EasyR1: its YAML, overrides, commands and scripts",
                .detect = easyr1::detect,
                .read = easyr1::read,
                .knobs = easyr1::knobs,
                .with = easyr1::with,
                .settings_of = easyr1::settings_for,
                .write = write_back,
                .write_script = write_named_script,
                .write_overrides = write_named_overrides,
                .sizes = easyr1::kSizes},
      Framework{.name = "colossalchat",
                .summary = "ColossalChat 0.2.8 to 0.5: command lines and scripts with --strategy or --plugin",
                .detect = colossalchat::detect,
                .read = colossalchat::read,
                .knobs = colossalchat::knobs,
                .with = colossalchat::with,
                .settings_of = colossalchat::settings_for,
                .write = settings::write_arguments,
                .write_script = settings::write_arguments,
                .loops = colossalchat::kLoops,
                .sizes = colossalchat::kSizes},
      Framework{.name = "deepspeed-chat",
                .summary = "DeepSpeed-Chat's three steps: DeepSpeed engines, ZeRO 0 to 3",
                .detect = deepspeed_chat::detect,
                .read = deepspeed_chat::read,
                .knobs = deepspeed_chat::knobs,
                .with = deepspeed_chat::with,
                .settings_of = deepspeed_chat::settings_for,
                .write = deepspeed_chat::write,
                .write_script = deepspeed_chat::write,
                .loops = deepspeed_chat::kLoops,
                .sizes = deepspeed_chat::kSizes},
      Framework{.name = "trl",
                .summary = "TRL 0.12 to 1.9: commands, scripts and YAML of GRPO, RLOO, PPO, DPO, SFT, reward",
                .detect = trl::detect,
                .read = trl::read,
                .knobs = trl::knobs,
                .with = trl::with,
                .settings_of = trl::settings_for,
                .write = trl::write,
                .write_script = trl::write,
                .loops = trl::kLoops,
                .sizes = trl::kSizes},
      Framework{.name = "torch",
                .summary = "a plain PyTorch loop: PPO or GRPO with Transformers models",
                .detect = torch::detect,
                .read = torch::read,
                .knobs = nullptr,
                .with = nullptr,
                .settings_of = nullptr,
                .write = nullptr,
                .sizes = torch::kSizes},
  };
  return table;
}

std::vector<const LoopKind*> loops() {
  std::vector<const LoopKind*> out;
  for (const Framework& framework : frameworks())
    out.insert(out.end(), framework.loops.begin(), framework.loops.end());
  return out;
}

const Framework* find_framework(std::string_view name) {
  for (const Framework& framework : frameworks())
    if (framework.name == name) return &framework;
  return nullptr;
}

namespace {

constexpr std::size_t kLargestConfiguration = 8 << 20;

// What is_no_run tells by.
constexpr std::string_view kNoKeys = "no known framework's keys are in it",
                           kNoProgram = "is no program of a framework that Headroom knows";

std::string known_names() {
  std::string names;
  for (const Framework& framework : frameworks())
    names += (names.empty() ? "" : ", ") + std::string(framework.name);
  return names;
}

const Framework* detected(const JobInput& input) {
  for (const Framework& framework : frameworks())
    if (framework.detect(input)) return &framework;
  return nullptr;
}

std::string lines_of(const std::vector<const JobInput::File*>& files) {
  std::string out;
  for (const JobInput::File* file : files)
    out += fmt::format("{}{} (line {})", out.empty() ? "" : ", ", file->launch->program,
                       file->launch->place.line);
  return out;
}

/// Whether a framework knows the run that a script starts, by itself or by the configuration that it names.
bool is_known(const JobInput::File& launch, const JobOptions& options) {
  JobInput alone;
  alone.files.push_back(launch);
  if (detected(alone) != nullptr) return true;
  const Result<std::optional<JobInput::File>> named = named_configuration(launch, options);
  return !named || named->has_value();
}

/// The one of a script's runs that a framework knows; the others are told.
Result<JobInput::File> choose(InputChoices choices, const std::string& path, const JobOptions& options,
                              std::vector<Notice>& notices) {
  notices.insert(notices.end(), std::make_move_iterator(choices.notices.begin()),
                 std::make_move_iterator(choices.notices.end()));
  if (!choices.script) return std::move(choices.files.front());
  const JobInput::File* chosen = nullptr;
  std::vector<const JobInput::File*> others, unknown;
  for (const JobInput::File& file : choices.files) {
    if (!is_known(file, options)) {
      unknown.push_back(&file);
    } else if (chosen == nullptr) {
      chosen = &file;
    } else {
      others.push_back(&file);
    }
  }
  if (chosen == nullptr) chosen = &choices.files.front();  // a framework named by the user may know it
  if (!others.empty())
    notices.push_back({.file = path,
                       .line = chosen->launch->place.line,
                       .key = {},
                       .message = fmt::format("only this run is judged, not {}", lines_of(others))});
  if (!chosen->launch->certain)
    notices.push_back({.file = path,
                       .line = chosen->launch->place.line,
                       .key = {},
                       .message = "a test that can't be followed decides whether this run starts"});
  return *chosen;
}

}  // namespace

namespace {

Error not_read(const Recognised& known) {
  return {.message = fmt::format("{}: {} is recognised but not read yet", known.framework, known.form),
          .file = known.file,
          .line = known.line,
          .key = {}};
}

/// Python is no configuration: its command line is, of the programs that are read.
Status refuse_program(std::string_view text, const std::string& path) {
  if (!path.ends_with(".py")) return {};
  if (const auto known = recognise_program(text, path)) {
    Error error = not_read(*known);
    error.message += fmt::format("; its command may be (headroom … -- python {} --flag value …)", path);
    return tl::unexpected<Error>(std::move(error));
  }
  return fail(Error{.message = fmt::format("expected a configuration, a launch script or a command, found a Python "
                                           "program; it {}",
                                           kNoProgram),
                    .file = path,
                    .key = {}});
}

/// The run that each of `choices` stands for, read as one.
Result<ReadJob> read_chosen(std::vector<std::pair<std::string, InputChoices>> all,
                            const JobOptions& options) {
  JobInput input;
  std::vector<Notice> notices;
  JobOptions rest = options;
  for (auto& [path, choices] : all) {
    if (choices.script) rest.words.clear();  // they were the script's
    HEADROOM_ASSIGN(JobInput::File file, choose(std::move(choices), path, options, notices));
    HEADROOM_ASSIGN(std::optional<JobInput::File> named, named_configuration(file, options));
    if (named) input.files.push_back(std::move(*named));
    input.files.push_back(std::move(file));
  }
  rest.overrides.insert(rest.overrides.end(), rest.words.begin(), rest.words.end());
  rest.words.clear();
  HEADROOM_ASSIGN(ReadJob out, read_job(input, rest));
  out.warnings.insert(out.warnings.begin(), std::make_move_iterator(notices.begin()),
                      std::make_move_iterator(notices.end()));
  return out;
}

}  // namespace

Result<ReadJob> read_job(std::span<const std::string> paths, const JobOptions& options) {
  if (paths.empty()) return fail("expected a configuration file, found none");
  std::vector<std::pair<std::string, InputChoices>> all;
  for (const std::string& path : paths) {
    if (path == kCommandLine) {
      HEADROOM_ASSIGN(InputChoices choices, read_command_line(options));
      all.emplace_back(path, std::move(choices));
      continue;
    }
    HEADROOM_ASSIGN(std::string text, read_text(path, kLargestConfiguration));
    HEADROOM_TRY(refuse_program(text, path));
    HEADROOM_ASSIGN(InputChoices choices, read_input(std::move(text), path, options));
    all.emplace_back(path, std::move(choices));
  }
  return read_chosen(std::move(all), options);
}

Result<ReadJob> read_job_text(std::string text, const std::string& name, const JobOptions& options) {
  std::vector<std::pair<std::string, InputChoices>> all;
  HEADROOM_ASSIGN(InputChoices choices, read_input(std::move(text), name, options));
  all.emplace_back(name, std::move(choices));
  return read_chosen(std::move(all), options);
}

Result<ReadJob> read_job(const JobInput& input, const JobOptions& options) {
  if (!options.framework.empty()) {
    const Framework* framework = find_framework(options.framework);
    if (framework == nullptr)
      return fail(fmt::format("--framework: expected one of {}, found {}", known_names(), options.framework));
    return framework->read(input, options);
  }
  if (const Framework* framework = detected(input)) return framework->read(input, options);
  if (auto known = recognise(input)) {
    if (known->file.empty()) known->file = input.files.back().path;
    return tl::unexpected<Error>(not_read(*known));
  }
  for (const JobInput::File& file : input.files)
    if (file.launch != nullptr)
      return fail(Error{
          .message = fmt::format("{} {}; expected one of {} (--framework says which)", file.launch->program,
                                 kNoProgram, known_names()),
          .file = file.path,
          .line = file.launch->place.line,
          .key = {}});
  return fail(
      Error{.message = fmt::format("{}; expected a configuration of {} (--framework says which)", kNoKeys, known_names()),
            .file = input.files.empty() ? "" : input.files.back().path,
            .key = {}});
}

bool is_no_run(const Error& error) {
  const std::string& message = error.message;
  return message.starts_with(kNoKeys) || message.find(kNoProgram) != std::string::npos ||
         message.starts_with(kStartsNothing) || message.find(kTrainsNothing) != std::string::npos ||
         message.find(kOwnProgram) != std::string::npos;
}

}  // namespace headroom
