#include "planner/frameworks/registry.h"

#include <fmt/format.h>

#include <array>

#include "planner/configuration/override.h"
#include "planner/frameworks/chatlearn/read.h"
#include "planner/frameworks/deepspeed_chat/loop.h"
#include "planner/frameworks/deepspeed_chat/read.h"
#include "planner/frameworks/job/framework.h"
#include "planner/frameworks/nemo_rl/read.h"
#include "planner/frameworks/openrlhf/read.h"
#include "planner/frameworks/settings/arguments.h"
#include "planner/frameworks/recognised.h"
#include "planner/frameworks/torch/read.h"
#include "planner/frameworks/trl/loops.h"
#include "planner/frameworks/trl/read.h"
#include "planner/frameworks/verl/knobs.h"
#include "planner/frameworks/verl/read.h"
#include "planner/frameworks/write_back.h"

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
                .write = write_back},
      Framework{.name = "verl",
                .summary = "verl 0.3 to 0.9: Hydra YAML, whole or partial, or a list of overrides",
                .detect = verl::detect,
                .read = verl::read,
                .knobs = verl::knobs,
                .with = verl::with,
                .settings_of = verl::settings_for,
                .write = write_back},
      Framework{.name = "nemo-rl",
                .summary = "NeMo RL 0.2.1 to main: YAML with its parents, and overrides",
                .detect = nemo_rl::detect,
                .read = nemo_rl::read,
                .knobs = nemo_rl::knobs,
                .with = nemo_rl::with,
                .settings_of = nemo_rl::settings_for,
                .write = write_back},
      Framework{.name = "openrlhf",
                .summary = "OpenRLHF 0.5.9 to 0.11: command lines and scripts in both dialects",
                .detect = openrlhf::detect,
                .read = openrlhf::read,
                .knobs = openrlhf::knobs,
                .with = openrlhf::with,
                .settings_of = openrlhf::settings_for,
                .write = settings::write_arguments},
      Framework{.name = "chatlearn",
                .summary = "ChatLearn 1.2 and later: the YAML of a GRPO run, and overrides",
                .detect = chatlearn::detect,
                .read = chatlearn::read,
                .knobs = chatlearn::knobs,
                .with = chatlearn::with,
                .settings_of = chatlearn::settings_for,
                .write = write_back},
      Framework{.name = "deepspeed-chat",
                .summary = "DeepSpeed-Chat's PPO step: four DeepSpeed engines, ZeRO 0 to 3",
                .detect = deepspeed_chat::detect,
                .read = deepspeed_chat::read,
                .knobs = nullptr,
                .with = nullptr,
                .settings_of = nullptr,
                .write = nullptr,
                .loops = deepspeed_chat::kLoops},
      Framework{.name = "trl",
                .summary = "TRL's GRPOTrainer with its own generate, on one GPU",
                .detect = trl::detect,
                .read = trl::read,
                .knobs = nullptr,
                .with = nullptr,
                .settings_of = nullptr,
                .write = nullptr,
                .loops = trl::kLoops},
      Framework{.name = "torch",
                .summary = "a plain PyTorch loop: PPO or GRPO with Transformers models",
                .detect = torch::detect,
                .read = torch::read,
                .knobs = nullptr,
                .with = nullptr,
                .settings_of = nullptr,
                .write = nullptr},
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

std::string known_names() {
  std::string names;
  for (const Framework& framework : frameworks())
    names += (names.empty() ? "" : ", ") + std::string(framework.name);
  return names;
}

/// Bounds of a configuration: the largest real ones have some 3,000 values.
constexpr ReadLimits kLimits{.bytes = 8 << 20, .nodes = 400'000, .depth = 100};

/// A list of `key=value` words is no YAML: its text alone is kept, as one scalar.
Result<JobInput> read_files(std::span<const std::string> paths) {
  JobInput input;
  for (const std::string& path : paths) {
    HEADROOM_ASSIGN(std::string text, read_text(path, kLimits.bytes));
    Document document = Document::scalar("");
    if (!looks_like_overrides(text)) {
      HEADROOM_ASSIGN(document, parse_document(text, path, kLimits));
    }
    input.files.push_back({.path = path, .document = std::move(document), .text = std::move(text)});
  }
  return input;
}

}  // namespace

Result<ReadJob> read_job(std::span<const std::string> paths, const JobOptions& options) {
  if (paths.empty()) return fail("expected a configuration file, found none");
  HEADROOM_ASSIGN(const JobInput input, read_files(paths));
  return read_job(input, options);
}

Result<ReadJob> read_job(const JobInput& input, const JobOptions& options) {
  if (!options.framework.empty()) {
    const Framework* framework = find_framework(options.framework);
    if (framework == nullptr)
      return fail(fmt::format("--framework: expected one of {}, found {}", known_names(), options.framework));
    return framework->read(input, options);
  }
  for (const Framework& framework : frameworks())
    if (framework.detect(input)) return framework.read(input, options);
  if (const auto known = recognise(input))
    return fail(Error{.message = fmt::format("{}: {} is recognised but not read yet", known->framework, known->form),
                      .file = known->file.empty() ? input.files.back().path : known->file,
                      .line = known->line,
                      .key = {}});
  return fail(
      Error{.message = fmt::format("no known framework's keys are in it; expected a configuration of {} "
                                   "(--framework says which)",
                                   known_names()),
            .file = input.files.empty() ? "" : input.files.back().path,
            .key = {}});
}

}  // namespace headroom
