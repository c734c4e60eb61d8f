#include "planner/frameworks/torch/read.h"

#include <algorithm>

#include "models/base/nearest.h"
#include "planner/configuration/override.h"
#include "planner/frameworks/torch/settings.h"

namespace headroom::torch {
namespace {

/// Keys of a recording that describe the machine rather than the case.
constexpr const char* kMachineKeys[] = {"device", "total_memory", "alloc_conf"};

bool is_case(const Document& document) {
  const Document* actor = document.find("actor");
  return actor != nullptr && actor->is_map() && actor->find("model_type") != nullptr &&
         document.find("prompt") != nullptr && document.find("zero_stage") == nullptr;
}

Document case_of(const Document& document) {
  const Document* inner = document.find("case");
  if (inner == nullptr) return document;
  Document out = *inner;
  for (const char* key : kMachineKeys)
    if (const Document* value = document.find(key)) out.set(key, *value);
  return out;
}

Result<Layers> lay(const JobInput& input, const JobOptions& options) {
  Layers layers;
  for (const JobInput::File& file : input.files) {
    Document document = case_of(file.document);
    if (!document.is_map())
      return fail(Error{.message = "expected a map of the loop's keys",
                        .file = file.path,
                        .line = file.document.line(),
                        .key = {}});
    layers.add_file(file.path, std::move(document));
  }
  for (const std::string& text : options.overrides) {
    HEADROOM_ASSIGN(const Override change, parse_override(text, "--set"));
    HEADROOM_TRY(layers.apply(change));
  }
  layers.set_environment(options.environment);
  return layers;
}

/// Keys that no case has: a warning when they look like one that has an effect.
void note_unknown(const Layers& layers, ReadJob& out) {
  for (const Layers::Leaf& leaf : layers.given_leaves()) {
    const std::string top = leaf.key.substr(0, leaf.key.find('.'));
    if (std::find(known_keys().begin(), known_keys().end(), top) != known_keys().end()) continue;
    out.keys.push_back({.key = leaf.key,
                        .value = leaf.value->text(),
                        .file = *leaf.file,
                        .line = leaf.value->line(),
                        .state = KeyUse::State::unknown});
    const std::string near = nearest(top, known_keys());
    if (!near.empty())
      out.warnings.push_back(
          {*leaf.file, leaf.value->line(), leaf.key, "unknown key; nearest known: " + near});
  }
}

}  // namespace

bool detect(const JobInput& input) {
  return std::any_of(input.files.begin(), input.files.end(), [](const JobInput::File& file) {
    const Document* inner = file.document.find("case");
    return is_case(inner != nullptr ? *inner : file.document) && file.document.find("args") == nullptr;
  });
}

Result<ReadJob> read(const JobInput& input, const JobOptions& options) {
  HEADROOM_ASSIGN(const Layers layers, lay(input, options));
  Values values(layers);
  HEADROOM_ASSIGN(const std::shared_ptr<Settings> settings, read_settings(values));
  ReadJob out;
  out.job = make_job(*settings);
  if (options.steps) out.job.steps = *options.steps;
  if (!options.gpu.empty()) {
    out.job.gpu = options.gpu;
    out.job.device_memory = 0;
  }
  out.job.resumed = options.resumed;
  out.warnings = values.take_warnings();
  for (const auto& [key, value] : values.used())
    out.keys.push_back({.key = key,
                        .value = value.value.text(),
                        .file = value.file,
                        .line = value.line,
                        .state = value.given ? KeyUse::State::used : KeyUse::State::defaulted});
  note_unknown(layers, out);
  out.input = input;
  out.overrides = options.overrides;
  out.settings = settings;
  return out;
}

}  // namespace headroom::torch
