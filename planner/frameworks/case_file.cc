#include "planner/frameworks/case_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "models/architecture/read.h"
#include "models/base/nearest.h"
#include "planner/configuration/model_lookup.h"
#include "planner/configuration/override.h"
#include "simulator/allocator/simulated_settings.h"
#include "simulator/tape/modules/decoder_form.h"

namespace headroom::cases {
namespace {

/// Keys of a recording that describe the machine rather than the case.
constexpr const char* kMachineKeys[] = {"device", "total_memory", "alloc_conf"};

Document case_of(const Document& document) {
  const Document* own = document.find("case");
  if (own == nullptr) return document;
  Document out = *own;
  for (const char* key : kMachineKeys)
    if (const Document* value = document.find(key)) out.set(key, *value);
  return out;
}

/// Where overrides of the command line say that they come from.
constexpr const char* kSet = "--set";

/// Labels that every loop's case may carry.
constexpr std::array<std::string_view, 4> kLabels = {"name", "group", "seed", "trace"};

/// Keys that no case has: a closed set, so each may be a misspelt one.
void note_unknown(const Layers& layers, std::span<const std::string_view> known, ReadJob& out) {
  for (const Layers::Leaf& leaf : layers.given_leaves()) {
    const std::string top = leaf.key.substr(0, leaf.key.find('.'));
    const auto names = [&](std::span<const std::string_view> keys) {
      return std::find(keys.begin(), keys.end(), top) != keys.end();
    };
    if (names(known) || names(kLabels)) continue;
    out.keys.push_back({.key = leaf.key,
                        .value = leaf.value->text(),
                        .file = *leaf.file,
                        .line = leaf.value->line(),
                        .state = KeyUse::State::unknown});
    const std::string near = nearest(top, known);
    out.warnings.push_back(
        {*leaf.file, leaf.value->line(), leaf.key,
         "unknown key, without effect" + (near.empty() ? std::string() : "; nearest known: " + near)});
  }
}

/// Flags of the command line that a case does not read.
void note_flags(const JobOptions& options, ReadJob& out) {
  const auto note = [&](bool given, const char* flag, const char* why) {
    if (given)
      out.warnings.push_back(
          {.file = {}, .line = 0, .key = flag, .message = fmt::format("has no effect: {}", why)});
  };
  const char* ranks = out.job.framework == "trl"     ? "the case is of one GPU"
                      : out.job.framework == "torch" ? "the case states its ranks in `_world`"
                                                     : "the case states its GPUs in `world`";
  note(options.nodes.has_value(), "--nodes", ranks);
  note(options.gpus_per_node.has_value(), "--gpus-per-node", ranks);
  note(!options.include_paths.empty(), "--include-path", "a case refers to no files");
}

/// What is wrong with a job that single keys do not show: too much work, which the batch makes.
Status check_job(const Job& job, Values& values) {
  Status valid = validate_job(job);
  if (valid) return {};
  Error error = std::move(valid.error());
  error.key.clear();
  values.fail_with(std::move(error),
                   values.given("per_device_train_batch_size") ? "per_device_train_batch_size" : "batch");
  return values.status();
}

}  // namespace

void read_machine(Values& values, MachineSettings& settings, std::string_view own_conf) {
  const std::string_view conf = own_conf.empty() ? "alloc_conf" : either(values, "alloc_conf", own_conf);
  settings.allocator_settings = values.text(conf);
  if (const auto parsed = allocator::parse_simulated_settings(settings.allocator_settings); !parsed) {
    const std::string& option = parsed.error().key;
    values.fail_at(
        conf,
        fmt::format("expected allocator settings as PYTORCH_CUDA_ALLOC_CONF has them, found \"{}\"{}",
                    settings.allocator_settings,
                    fmt::format(" ({}{}{})", option, option.empty() ? "" : ": ", parsed.error().message)));
  }
  settings.device = values.text("device");
  settings.total_memory = values.integer("total_memory", 0, std::int64_t{1} << 50);
}

Job frame(const std::string& name, const char* framework, const MachineSettings& settings,
          std::int64_t gpus) {
  Job job;
  job.name = name;
  job.framework = framework;
  job.gpu = settings.device;
  job.device_memory = settings.total_memory;
  job.pools.emplace_back().gpus_per_node = gpus;
  return job;
}

Process trainer_of(const Job& job, const MachineSettings& settings) {
  Process trainer;
  trainer.name = "trainer";
  for (const Role& role : job.roles) trainer.roles.push_back(role.name);
  trainer.allocator_settings = settings.allocator_settings;
  return trainer;
}

Engine generation_by(std::shared_ptr<const Architecture> model) {
  Engine engine;
  engine.kind = EngineKind::transformers;
  engine.model = std::move(model);
  return engine;
}

const Document& inner(const Document& document) {
  const Document* own = document.find("case");
  return own != nullptr ? *own : document;
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
    HEADROOM_ASSIGN(const Override change, parse_override(text, kSet));
    HEADROOM_TRY(layers.apply(change));
  }
  layers.set_environment(options.environment);
  return layers;
}

void require(Values& values, std::initializer_list<std::string_view> keys, std::string_view expected) {
  for (const std::string_view key : keys) {
    const Result<std::optional<Layers::Value>> found = values.layers().get(key);
    if (!found) continue;  // reading it tells why
    if (!*found || (*found)->value.is_null())
      values.fail_at(key, fmt::format("expected {}, found {}", expected, *found ? "null" : "none"));
  }
}

std::string_view either(Values& values, std::string_view own, std::string_view other) {
  if (!values.given(other)) return own;
  if (!values.given(own)) return other;
  const auto set = [&](std::string_view key) {
    std::string file;
    int line = 0;
    values.layers().locate(key, file, line);
    return file == kSet;
  };
  if (set(own) != set(other)) return set(own) ? own : other;
  const auto text = [&](std::string_view key) {
    const Result<std::optional<Layers::Value>> found = values.layers().get(key);
    return found && *found && (*found)->value.is_scalar() ? (*found)->value.text() : std::string();
  };
  if (text(own) != text(other))
    values.fail_at(other,
                   fmt::format("expected one value with {}, which is the same setting; found {} and {}", own,
                               text(other), text(own)));
  return own;
}

std::shared_ptr<const Architecture> model(Values& values, std::string_view key, const std::string& named) {
  if (!named.empty()) {
    auto found = find_model({.name = named, .config = {}, .base = {}, .overrides = {}});
    if (found) return *found;
    Error error = std::move(found.error());
    if (error.file.empty()) error.key = "--model";
    values.fail_with(std::move(error), key);
    return nullptr;
  }
  require(values, {key}, "the model's config values (model_type and sizes)");
  const Document config = values.tree(key);
  if (values.failed()) return nullptr;
  std::string file;
  int line = 0;
  values.layers().locate(key, file, line);
  Result<Architecture> made = make_architecture(config, file);
  if (!made) {
    Error error = std::move(made.error());
    error.key = error.key.empty() ? std::string(key) : fmt::format("{}.{}", key, error.key);
    values.fail_with(std::move(error), key);
    return nullptr;
  }
  return std::make_shared<const Architecture>(std::move(*made));
}

void check_positions(Values& values, std::string_view key, const Architecture* model, std::int64_t prompt,
                     std::int64_t response) {
  if (model == nullptr || prompt + response <= model->decoder.max_positions) return;
  const std::int64_t most = model->decoder.max_positions;
  if (model->decoder.position == PositionKind::rotary && most > 0)
    values.warn_at(key, fmt::format("its max_position_embeddings is {}, found prompt and response of {} + {} "
                                    "tokens: Transformers computes such positions too, of no use untrained",
                                    most, prompt, response));
  if (model->decoder.position == PositionKind::learned)
    values.fail_at(prompt > most ? "prompt" : "response",
                   fmt::format("expected prompt and response within the {} positions of {}, found {} + {}",
                               most, key, prompt, response));
}

void check_vocabulary(Values& values, std::string_view key, const Architecture* model,
                      const Architecture* actor) {
  if (model == nullptr || actor == nullptr) return;
  const std::int64_t own = model->decoder.vocabulary, others = actor->decoder.vocabulary;
  if (own < others)
    values.fail_at(key,
                   fmt::format("expected a vocab_size of at least the actor's {}, whose tokens it reads, "
                               "found {}",
                               others, own));
}

void check_program(Values& values, std::string_view key, const Architecture* model,
                   AttentionImplementation attention, std::string_view attention_key) {
  if (model == nullptr) return;
  Status runs = tape::check_program(*model, attention);
  if (runs) return;
  const bool of_attention = !runs.error().key.empty() && !attention_key.empty();
  values.fail_at(of_attention ? attention_key : key,
                 of_attention
                     ? fmt::format("expected eager: {} has no other attention, found sdpa", model->family)
                     : std::move(runs.error().message));
}

AttentionImplementation default_attention(const Architecture& model) {
  const tape::DecoderForm* form = tape::find_decoder_form(model);
  return form != nullptr && form->eager_only ? AttentionImplementation::eager : AttentionImplementation::sdpa;
}

Result<ReadJob> finish(Job job, const JobInput& input, const JobOptions& options, const Layers& layers,
                       Values& values, std::span<const std::string_view> known_keys,
                       std::shared_ptr<const FrameworkSettings> settings) {
  HEADROOM_TRY(check_job(job, values));
  ReadJob out;
  out.job = std::move(job);
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
                        .state = !value.given             ? KeyUse::State::defaulted
                                 : values.has_effect(key) ? KeyUse::State::used
                                                          : KeyUse::State::ignored});
  note_unknown(layers, known_keys, out);
  note_flags(options, out);
  out.input = input;
  out.overrides = options.overrides;
  out.settings = std::move(settings);
  return out;
}

}  // namespace headroom::cases
