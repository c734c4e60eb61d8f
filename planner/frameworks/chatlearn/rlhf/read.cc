#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <mutex>

#include "models/architecture/read.h"
#include "planner/configuration/model_lookup.h"
#include "planner/frameworks/chatlearn/rlhf/files.h"
#include "planner/frameworks/chatlearn/rlhf/placeholders.h"
#include "planner/frameworks/chatlearn/rlhf/settings.h"
#include "planner/frameworks/shell/launch.h"

namespace headroom::chatlearn::rlhf {
namespace {

namespace fs = std::filesystem;

constexpr settings::Release kNewest{1, 0, 3};

bool is_main(const Document& document) {
  return document.is_map() && document.find("models") != nullptr && document.find("runtime_args") == nullptr &&
         (document.find("runtime_env") != nullptr || document.find("runtime") != nullptr ||
          document.find("rlhf") != nullptr);
}

/// The configuration that a launch names: `-c FILE`, `--config FILE`.
const shell::Word* config_of(const JobInput& input) {
  for (const JobInput::File& file : input.files) {
    if (file.launch == nullptr) continue;
    const std::string name = fs::path(file.launch->program).filename().string();
    if (!name.starts_with("train_") || !name.ends_with(".py")) continue;
    const std::vector<shell::Word>& words = file.launch->words;
    for (std::size_t i = 0; i + 1 < words.size(); ++i)
      if ((words[i].text == "-c" || words[i].text == "--config") && words[i + 1].text.ends_with(".yaml") &&
          words[i + 1].text.find("rlhf") != std::string::npos)
        return &words[i + 1];
  }
  return nullptr;
}

/// The main file, and what the launch's environment holds.
struct Given {
  std::string path;
  Document document;
  std::map<std::string, std::string> environment;
  std::string script;
};

Result<Given> given(const JobInput& input, const JobOptions& options) {
  Given out;
  for (const JobInput::File& file : input.files)
    if (file.launch == nullptr && is_main(file.document)) {
      out.path = file.path;
      // The loader is PyYAML: of a key given twice the last counts.
      HEADROOM_ASSIGN(out.document, file.text.empty() ? Result<Document>(file.document)
                                                      : parse_last_wins(file.text, file.path));
      out.environment = options.environment;
      return out;
    }
  const shell::Word* config = config_of(input);
  if (config == nullptr)
    return fail(Error{.message = "expected the main file of an RLHF run (models, runtime), or a script that starts one",
                      .file = input.files.front().path,
                      .key = {}});
  for (const JobInput::File& file : input.files)
    if (file.launch != nullptr) {
      if (!config->known())
        return fail(Error{.message = "expected a file, found " + what_is_missing(*config),
                          .file = file.path,
                          .line = config->place.line,
                          .key = "-c"});
      HEADROOM_ASSIGN(out.path, find_file(config->text, file.path, config->place.line, options, "-c"));
      HEADROOM_ASSIGN(out.document, read_last_wins(out.path));
      for (const auto& [name, value] : file.launch->environment)
        if (value.known()) out.environment[name] = value.text;
      for (const auto& [name, value] : options.environment) out.environment[name] = value;
      out.script = file.text;
    }
  return out;
}

void keep_placeholders(const Document& document, const std::string& at, std::map<std::string, std::string>& out) {
  for (const auto& [name, value] : document.entries()) {
    const std::string key = at.empty() ? name : at + "." + name;
    if (value.is_map())
      keep_placeholders(value, key, out);
    else if (value.is_scalar() && !placeholder_name(value.text()).empty())
      out[key] = value.text();
  }
}

/// A Llama-like config.json of Megatron's arguments.
Result<Document> config_of(const Model& m) {
  Document out = Document::map();
  const auto put = [&](const char* key, const std::string& value) { out.set(key, Document::scalar(value)); };
  const auto missing = [&](const char* key) {
    return fail(Error{.message = "is not known: set its variable with --env, or name a model with --model",
                      .file = {},
                      .key = fmt::format("models.{}.args.{}", m.name, key)});
  };
  if (!m.layers) return missing("num_layers");
  if (!m.hidden) return missing("hidden_size");
  if (!m.heads) return missing("num_attention_heads");
  if (!m.ffn) return missing("ffn_hidden_size");
  constexpr std::int64_t kLlamaVocabulary = 32000;
  put("model_type", "llama");
  put("num_hidden_layers", std::to_string(*m.layers));
  put("hidden_size", std::to_string(*m.hidden));
  put("num_attention_heads", std::to_string(*m.heads));
  put("intermediate_size", std::to_string(*m.ffn));
  put("num_key_value_heads", std::to_string(m.groups_queries ? m.groups.value_or(*m.heads) : *m.heads));
  put("vocab_size", std::to_string(m.vocabulary.value_or(kLlamaVocabulary)));
  put("max_position_embeddings", std::to_string(m.positions));
  put("tie_word_embeddings", m.untied ? "false" : "true");
  return out;
}

/// The same arguments are the same architecture, so that jobs of two reads compare.
Result<std::shared_ptr<const Architecture>> made_of(const Document& config, const std::string& name, HeadKind head) {
  static std::map<std::string, std::shared_ptr<const Architecture>> known;
  static std::mutex mutex;
  const std::string key = fmt::format("{}|{}", static_cast<int>(head), write_yaml(config));
  const std::lock_guard lock(mutex);
  if (const auto found = known.find(key); found != known.end()) return found->second;
  ReadOptions options;
  if (head != HeadKind::language_model) {
    options.head = head;
    options.labels = 1;
  }
  HEADROOM_ASSIGN(Architecture made, make_architecture(config, name, options));
  return known[key] = std::make_shared<const Architecture>(std::move(made));
}

void find_models(Values& v, Settings& s, const JobOptions& options, const std::string& base) {
  for (std::size_t i = 0; i < kModels.size() && !v.failed(); ++i) {
    Model& m = s.models[i];
    if (!m.exists) continue;
    const std::string at = "models." + m.name + ".args.num_layers";
    ModelRequest request;
    request.base = base;
    request.head = i == kPolicy || i == kReference || i == kPpoPolicy ? HeadKind::language_model : HeadKind::scalar;
    if (!options.model.empty()) {
      request.name = options.model;
      m.architecture = settings::model_at(v, at, request);
      continue;
    }
    Result<Document> config = config_of(m);
    if (!config) {
      const std::string key = config.error().key;
      v.fail_with(std::move(config.error()), key);
      return;
    }
    Result<std::shared_ptr<const Architecture>> made = made_of(*config, m.name, request.head);
    if (!made) return v.fail_with(std::move(made.error()), at);
    m.architecture = std::move(*made);
  }
}

void check(Values& v, Settings& s) {
  for (const ModelIndex needed : {kPolicy, kPpoPolicy})
    if (!s.model(needed).exists)
      v.fail_at("models", fmt::format("expected the model {}: runs without it are not read", kModels[needed]));
  for (const Model& m : s.models) {
    if (!m.exists) continue;
    const std::string at = "models." + m.name + ".";
    const bool frees = m.free.all || m.free.weights || m.free.gradients || m.free.optimizer;
    if (frees && !s.moves(m))
      v.without_effect(at + (m.free.all ? "free_memory" : "offload_weights"),
                       "a model that shares its GPUs with none frees nothing");
    if (m.granularity != "" && m.granularity != "full" && m.granularity != "selective")
      v.fail_at(at + "args.recompute_granularity",
                fmt::format("expected full or selective, found {}", m.granularity.substr(0, 80)));
  }
  if (!v.failed() && s.model(kPolicy).utilization == 0)
    s.assumptions.push_back("Megatron generates: its weights and its static cache at full length, without temporaries");
  s.assumptions.push_back("weights leave in flat buffers of their own size; a vocabulary of 32,000 where no file says more");
}

}  // namespace

bool detect(const JobInput& input) {
  return config_of(input) != nullptr ||
         std::any_of(input.files.begin(), input.files.end(), [](const JobInput::File& file) { return is_main(file.document); });
}

Result<ReadJob> read(const JobInput& input, const JobOptions& options) {
  HEADROOM_ASSIGN(Given run, given(input, options));
  auto made = std::make_shared<Settings>();
  Settings& s = *made;
  s.script = run.script;
  keep_placeholders(run.document, "", s.placeholders);
  HEADROOM_ASSIGN(Layers layers, lay_run(run.path, run.document, options, run.environment));
  {
    Values early(layers);
    s.versions = settings::stated_versions(early, options, "chatlearn");
    HEADROOM_TRY(early.status());
  }
  s.release = parse_version(s.versions.framework).value_or(kNewest);
  if (s.versions.framework.empty()) s.assumptions.push_back("ChatLearn 1.0.3 (no key tells)");
  if (s.versions.vllm.empty()) s.versions.vllm = s.since(1, 0, 3) ? "0.6.6" : "0.5.1";
  const std::vector<settings::Key> known = keys();
  layers.set_defaults(settings::defaults(known, s.release));
  Values values(layers);
  read_settings(values, s);
  settings::take_options(s, options);
  if (options.gpus_per_node) s.gpus_per_node = *options.gpus_per_node;
  check(values, s);
  find_models(values, s, options, fs::path(run.path).parent_path().string());
  return settings::finish(values, std::move(made),
                          {.framework = "ChatLearn",
                           .keys = known,
                           .input = input,
                           .named_after = run.path,
                           .overrides = options.overrides},
                          [&] { return make_job(s); });
}

}  // namespace headroom::chatlearn::rlhf
