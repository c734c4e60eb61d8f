#include "planner/frameworks/settings/run.h"

#include <fmt/format.h>

#include <filesystem>

#include "models/architecture/read.h"
#include "planner/configuration/override.h"
#include "planner/configuration/value_grammar.h"
#include "planner/frameworks/named_configuration.h"
#include "planner/frameworks/settings/usage.h"
#include "simulator/hardware/library.h"

namespace headroom::settings {
namespace {

constexpr std::string_view kModelConfig = "headroom.model_config";

}  // namespace

Result<Layers> lay_files(const JobInput& input, const JobOptions& options, std::string_view expected) {
  Layers layers;
  for (const JobInput::File& file : input.files) {
    if (file.document.is_scalar()) {
      HEADROOM_TRY(lay_changes(file, layers));
      continue;
    }
    if (!file.document.is_map())
      return fail(Error{.message = fmt::format("expected {}", expected),
                        .file = file.path,
                        .line = file.document.line(),
                        .key = {}});
    layers.add_file(file.path, file.document);
  }
  for (const std::string& text : options.overrides) {
    HEADROOM_ASSIGN(const Override change, parse_override(text, "--set"));
    HEADROOM_TRY(layers.apply(change));
  }
  layers.set_environment(environment_of(input, options));
  return layers;
}

Versions stated_versions(Values& values, const JobOptions& options, std::string_view framework,
                         std::string_view head) {
  Versions out = options.versions;
  const auto take = [&](std::string& field, std::string_view library) {
    const std::string key = fmt::format("headroom.versions.{}", library);
    if (field.empty()) field = values.text(key);
    if (!field.empty() && field != head && !parse_version(field))
      values.fail_at(key, fmt::format("expected a version such as 0.9.0, found {}", field.substr(0, 80)));
  };
  take(out.framework, framework);
  take(out.torch, "torch");
  take(out.transformers, "transformers");
  take(out.deepspeed, "deepspeed");
  take(out.vllm, "vllm");
  take(out.sglang, "sglang");
  take(out.cuda, "cuda");
  take(out.nccl, "nccl");
  return out;
}

void take_options(TableSettings& settings, const JobOptions& options) {
  if (!options.gpu.empty()) settings.gpu = options.gpu;
  settings.card = card_of(settings).total_memory;
  if (options.steps) settings.steps = *options.steps;
  settings.resumed = settings.resumed || options.resumed;
}

Hardware card_of(const TableSettings& settings) {
  if (!settings.gpu.empty())
    if (Result<Hardware> card = load_hardware(settings.gpu)) return std::move(*card);
  return {};
}

void leave_unmodelled(Values& values, TableSettings& settings, const std::string& key,
                      const std::string& what) {
  values.warn_at(key, what + " is not modelled: the verdict is undetermined");
  settings.not_modelled.push_back(key + ": " + what);
}

void tell_shape(Values& values, const std::string& key, const ModelRequest& request) {
  if (const std::string known = taken_for(request); !known.empty())
    values.warn_at(key, fmt::format("{}: taken to have the shape of {}, which its name mentions", request.name, known));
}

std::shared_ptr<const Architecture> model_at(Values& values, const std::string& key,
                                             const ModelRequest& request) {
  Result<std::shared_ptr<const Architecture>> found = find_model(request);
  tell_shape(values, key, request);
  if (found) return *found;
  values.fail_with(std::move(found.error()), key);
  return nullptr;
}

std::shared_ptr<const Architecture> stated_model(Values& values, HeadKind head) {
  const Document own = values.tree(kModelConfig);
  if (!own.is_map() || own.entries().empty()) return nullptr;
  ReadOptions options;
  if (head != HeadKind::language_model) {
    options.head = head;
    options.labels = 1;
  }
  Result<Architecture> made = make_architecture(own, {}, options);
  if (made) return std::make_shared<const Architecture>(std::move(*made));
  values.fail_with(std::move(made.error()), std::string(kModelConfig));
  return nullptr;
}

Key stated_model_key() {
  return {.path = std::string(kModelConfig),
          .kind = Kind::any,
          .fallback = "{}",
          .note = {},
          .effect = Effect::modelled,
          .since = kFirst,
          .until = kNever};
}

std::vector<std::string> effective_overrides(const JobOptions& options, const OptionKeys& keys) {
  std::vector<std::string> out = options.overrides;
  const auto add = [&](const std::string& key, const std::string& value) {
    if (!key.empty() && !value.empty()) out.push_back(fmt::format("++{}={}", key, value));
  };
  const auto quoted = [](const std::string& text) {
    return text.empty() ? text : format_value(Document::scalar(text, 0, true));
  };
  const auto number = [](const std::optional<std::int64_t>& value) {
    return value ? std::to_string(*value) : std::string();
  };
  for (const std::string& key : keys.models) add(key, quoted(options.model));
  add("headroom.gpu", quoted(options.gpu));
  add(keys.release, quoted(options.versions.framework));
  add("headroom.versions.torch", quoted(options.versions.torch));
  add("headroom.versions.vllm", quoted(options.versions.vllm));
  add("headroom.versions.sglang", quoted(options.versions.sglang));
  add(keys.nodes, number(options.nodes));
  add(keys.gpus_per_node, number(options.gpus_per_node));
  add("headroom.resumed", options.resumed ? "true" : "");
  return out;
}

Status state(Layers& layers, const std::string& key, const std::optional<std::int64_t>& value) {
  if (!value || !layers.given(key)) return {};
  layers.close(key);
  return layers.apply({.kind = Override::Kind::force,
                       .key = key,
                       .value = Document::scalar(std::to_string(*value)),
                       .file = "command line",
                       .line = 0});
}

Result<ReadJob> finish(Values& values, std::shared_ptr<TableSettings> settings, const Origin& origin,
                       const std::function<Result<Job>()>& make_job) {
  ReadJob out;
  out.keys =
      account_for_keys(values, origin.keys, {.framework = origin.framework, .release = settings->release},
                       settings->not_modelled);
  HEADROOM_TRY(values.status());
  for (const auto& [key, value] : values.used()) settings->used.push_back(key);
  settings->layers = std::make_shared<const Layers>(values.layers());
  Result<Job> job = make_job();
  if (!job) {
    const std::string key = job.error().key;
    values.fail_with(std::move(job.error()), key);
    HEADROOM_TRY(values.status());
  }
  out.job = std::move(*job);
  out.job.name = std::filesystem::path(origin.named_after).stem().string();
  out.warnings = values.take_warnings();
  out.input = origin.input;
  out.overrides = origin.overrides;
  out.settings = std::move(settings);
  return out;
}

}  // namespace headroom::settings
