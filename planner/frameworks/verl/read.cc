#include "planner/frameworks/verl/read.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "models/base/nearest.h"
#include "planner/configuration/override.h"
#include "planner/configuration/value_grammar.h"
#include "planner/frameworks/settings/run.h"
#include "planner/frameworks/shell/launch.h"
#include "planner/frameworks/verl/job.h"
#include "planner/frameworks/verl/keys.h"
#include "planner/frameworks/verl/lay.h"
#include "planner/frameworks/verl/named.h"
#include "planner/frameworks/verl/recording.h"
#include "planner/frameworks/verl/release_hints.h"
#include "planner/frameworks/verl/schema.h"

namespace headroom::verl {
namespace {

constexpr std::size_t kMostSuggestions = 20;
constexpr std::string_view kOwnSection = "headroom.";

bool matches(Type type, const Document& value) {
  if (value.is_null() || (value.is_scalar() && value.text() == "None")) return true;
  const Document plain = value.is_scalar() ? Document::scalar(value.text()) : value;
  switch (type) {
    case Type::boolean:
      return plain.as_bool().has_value() || plain.as_double().has_value();  // 16 is true
    case Type::integer:
      return plain.as_int().has_value() || plain.as_bool().has_value();  // False is 0
    case Type::number:
      return plain.as_double().has_value();
    case Type::text:
      return value.is_scalar();
    case Type::list:
      return value.is_list() || value.is_scalar();
    case Type::map:
      return value.is_map();
  }
  return true;
}

std::string_view type_name(Type type) {
  switch (type) {
    case Type::boolean:
      return "true or false";
    case Type::integer:
      return "an integer";
    case Type::number:
      return "a number";
    case Type::text:
      return "text";
    case Type::list:
      return "a list";
    case Type::map:
      return "a map";
  }
  return "";
}

constexpr int kOther = 2;  ///< parts that differ by more than a slip

std::string_view last_part(std::string_view key) {
  return key.substr(key.rfind('.') == std::string_view::npos ? 0 : key.rfind('.') + 1);
}

/// The key with an effect whose section `unknown` mistypes: all parts are the same but one, which is similar.
std::string meant_in_another_section(std::string_view unknown) {
  for (std::string_view known : keys_with_effect()) {
    std::string_view a = unknown, b = known;
    int distance = 0;
    while (!a.empty() && !b.empty() && distance < kOther) {
      const std::string_view one = a.substr(0, a.find('.')), other = b.substr(0, b.find('.'));
      if (one != other) {
        const bool similar = length_difference(one, other) <= 2 &&
                             edit_distance(one, other) * 4 <= static_cast<int>(other.size());
        distance += similar ? 1 : kOther;
      }
      a.remove_prefix(std::min(a.size(), one.size() + 1));
      b.remove_prefix(std::min(b.size(), other.size() + 1));
    }
    if (a.empty() && b.empty() && distance == 1) return std::string(known);
  }
  return {};
}

/// A key with an effect that `unknown` was probably meant to be: the same place and a similar name, or, when
/// `anywhere`, the same name in another place of the same section.
std::string meant(std::string_view unknown, bool anywhere) {
  const std::string_view name = last_part(unknown);
  const std::string_view place = unknown.substr(0, unknown.size() - name.size());
  std::string_view best;
  int best_distance = 3;
  for (std::string_view known : keys_with_effect()) {
    const std::string_view known_name = last_part(known);
    if (known.substr(0, known.size() - known_name.size()) != place) continue;
    if (length_difference(name, known_name) >= best_distance) continue;
    const int distance = edit_distance(name, known_name);
    if (distance < best_distance && distance * 4 <= static_cast<int>(known_name.size())) {
      best_distance = distance;
      best = known;
    }
  }
  if (!best.empty()) return std::string(best);
  if (const std::string elsewhere = meant_in_another_section(unknown); !elsewhere.empty()) return elsewhere;
  const std::string_view section = unknown.substr(0, unknown.find('.'));
  if (!anywhere || name.size() < 6) return {};  // `n`, `path`, `name` stand in many places by right
  for (std::string_view known : keys_with_effect())
    if (last_part(known) == name && known.substr(0, known.find('.')) == section) return std::string(known);
  return {};
}

/// What to say of a key of the tool's own section that it does not have.
std::string own_key_meant(std::string_view unknown) {
  std::vector<std::string_view> known;
  std::string list;
  for (const Key& key : keys()) {
    if (!key.path.starts_with(kOwnSection)) continue;
    known.push_back(key.path);
    list += (list.empty() ? "" : ", ") + key.path;
  }
  const std::string near = nearest(unknown, known);
  return near.empty() ? "expected one of " + list : fmt::format("unknown key; did you mean '{}'?", near);
}

/// Goes through what was given and says what became of it: wrong types, keys that were probably mistyped,
/// keys of other releases, keys without a program.
class Usage {
 public:
  Usage(Values& values, const Version& version, Settings& settings, const std::vector<std::string>& words)
      : v_(values), version_(version), s_(settings) {
    for (const std::string& word : words)
      if (word.starts_with('+'))
        added_.insert(word.substr(word.find_first_not_of('+'), word.find('=') - word.find_first_not_of('+')));
  }

  std::vector<KeyUse> all() {
    for (const Layers::Leaf& leaf : v_.layers().given_leaves()) given(leaf);
    for (const auto& [key, value] : v_.used())
      if (!value.given && !value.value.is_null())
        out_.push_back({.key = key,
                        .value = format_value(value.value),
                        .file = {},
                        .line = 0,
                        .state = KeyUse::State::defaulted});
    return std::move(out_);
  }

 private:
  void given(const Layers::Leaf& leaf) {
    if (last_part(leaf.key) == "_target_") return;
    KeyUse use{
        .key = leaf.key, .value = format_value(*leaf.value), .file = *leaf.file, .line = leaf.value->line()};
    const Key* key = find_key(leaf.key, version_);
    const bool exact = key != nullptr && key->path == leaf.key;
    if (key == nullptr || !exact) {
      use.state = key == nullptr ? KeyUse::State::unknown : KeyUse::State::ignored;
      if (v_.used().count(leaf.key) > 0) use.state = KeyUse::State::used;
      if (leaf.key.starts_with(kOwnSection) && key == nullptr)
        v_.fail_at(leaf.key, own_key_meant(leaf.key));
      else if (use.state != KeyUse::State::used && suggestions_ < kMostSuggestions)
        suggest(leaf.key, key == nullptr);
    } else {
      known(*key, leaf, use);
    }
    out_.push_back(std::move(use));
  }

  /// Whether a word added the key, or one above it, on purpose (`+key`).
  bool added(std::string key) const {
    while (!added_.contains(key)) {
      const std::size_t dot = key.rfind('.');
      if (dot == std::string::npos) return false;
      key.resize(dot);
    }
    return true;
  }

  void suggest(const std::string& key, bool anywhere) {
    if (releases_with(key) != 0 || added(key)) return;  // verl's own, or meant as it is written
    const std::string near = meant(key, anywhere);
    if (near.empty() || (v_.layers().given(near) && last_part(near) == last_part(key))) return;
    v_.warn_at(key, fmt::format("is not a key of verl that Headroom knows; did you mean {}?", near));
    s_.not_modelled.push_back(fmt::format("{}, unknown, which may be meant as {}", key, near));
    ++suggestions_;
  }

  void known(const Key& key, const Layers::Leaf& leaf, KeyUse& use) {
    const auto value = v_.layers().get(leaf.key);
    if (value && *value && !matches(key.type, (*value)->value)) {
      const Document& found = (*value)->value;
      if (key.effect != Effect::none || key.type == Type::map)
        v_.fail_at(leaf.key, fmt::format("expected {}, found {}", type_name(key.type),
                                         format_value(found).substr(0, 80)));
      return;
    }
    const bool in_release = key.since <= version_ && version_ < key.until;
    if (key.effect == Effect::none) {
      use.state = KeyUse::State::ignored;
    } else if (key.effect == Effect::unmodelled) {
      unmodelled(key, leaf, use);
    } else if (v_.used().count(leaf.key) == 0) {
      use.state = KeyUse::State::ignored;
    }
    if (!in_release && use.state != KeyUse::State::ignored && value && *value && !(*value)->value.is_null() &&
        format_value((*value)->value) != key.fallback)
      v_.warn_at(leaf.key, fmt::format("is not a key of verl {}, which this configuration is taken to be for",
                                       to_string(version_)));
  }

  void unmodelled(const Key& key, const Layers::Leaf& leaf, KeyUse& use) {
    const auto value = v_.layers().get(leaf.key);
    const Result<Document> fallback = parse_value(key.fallback);
    if (!value || !*value || !fallback || format_value((*value)->value) == format_value(*fallback)) {
      use.state = KeyUse::State::ignored;
      return;
    }
    use.state = KeyUse::State::not_modelled;
    v_.warn_at(leaf.key, "is understood but not modelled: its memory is missing from the prediction");
    s_.not_modelled.push_back(leaf.key + "=" + format_value((*value)->value));
  }

  Values& v_;
  Version version_;
  Settings& s_;
  std::vector<KeyUse> out_;
  std::set<std::string> added_;
  std::size_t suggestions_ = 0;
};

/// A key that `--set` changes (not adds) is one of verl's: another one is most likely mistyped.
void warn_of_unknown_changes(Values& values, const JobOptions& options, const Version& version) {
  for (const std::string& text : options.overrides) {
    const Result<Override> change = parse_override(text, "--set");
    if (!change || change->kind != Override::Kind::set || find_key(change->key, version) != nullptr) continue;
    if (!meant(change->key, true).empty()) continue;  // told with what is given
    values.warn_at(
        change->key,
        "is not a key of verl that Headroom knows, and changes nothing here (+KEY=VALUE adds one)");
  }
}

/// The engine ends a response where the model's positions end; what is asked for beyond is never there.
void warn_of_short_models(Values& values, const Settings& s) {
  const Architecture* model = s.actor.model.architecture.get();
  if (model == nullptr || model->decoder.max_positions == 0) return;
  const std::int64_t most = s.rollout.max_model_len.value_or(model->decoder.max_positions);
  if (s.rollout.prompt_length + s.rollout.response_length > most)
    values.warn_at(
        "data.max_response_length",
        fmt::format("prompts of {} and responses of {} tokens are longer than the {} that the engine "
                    "serves: verl cuts such responses, the prediction does not",
                    s.rollout.prompt_length, s.rollout.response_length, most));
}

/// Trainers of verl's recipes that do more than the step that is modelled.
void tell_unmodelled_programs(Values& values, const Laid& laid, Settings& settings) {
  const auto runs = [&](std::string_view name) {
    return laid.program.find(name) != std::string::npos ||
           std::find(laid.named.begin(), laid.named.end(), name) != laid.named.end();
  };
  const auto tell = [&](const std::string& key, const std::string& what) {
    values.warn_at(key, what + " is not modelled yet: the verdict is undetermined");
    settings.not_modelled.push_back(what);
  };
  if ((runs("main_prime") || runs("prime_trainer")) && settings.reward.exists)
    tell("reward_model.enable", "PRIME's reward model, which is trained beside the actor,");
  if (runs("main_ppo_split") || runs("ppo_trainer_split"))
    tell("trainer.n_gpus_per_node", "the split placement, with actor and critic on halves of the GPUs,");
}

std::string folder_of(const JobInput& input) {
  if (input.files.empty()) return {};
  return std::filesystem::path(input.files.front().path).parent_path().string();
}

const settings::OptionKeys kOptions{.models = {"actor_rollout_ref.model.path"},
                                    .release = "headroom.versions.verl",
                                    .nodes = "trainer.nnodes",
                                    .gpus_per_node = "trainer.n_gpus_per_node"};

}  // namespace

bool detect(const JobInput& input) {
  for (const JobInput::File& file : input.files) {
    if (file.launch != nullptr) {
      if (file.launch->module && is_trainer(file.launch->program)) return true;
      for (const shell::Word& word : file.launch->words)
        if (word.text.find("actor_rollout_ref.") < word.text.find('=')) return true;
      continue;
    }
    if (is_list_of_overrides(file)) {
      if (file.text.find("actor_rollout_ref.") != std::string::npos) return true;
      continue;
    }
    if (file.document.find("actor_rollout_ref") != nullptr || is_recording(file.document)) return true;
  }
  return false;
}

Result<ReadJob> read(const JobInput& input, const JobOptions& given) {
  HEADROOM_ASSIGN(Laid laid, lay(input, given));
  Layers& layers = laid.layers;
  JobOptions options = given;
  options.environment = laid.environment;
  if (!options.model.empty()) layers.close("actor_rollout_ref.model.path");
  auto settings = std::make_shared<Settings>();
  ReadJob out;
  Versions stated;
  Version version;
  std::vector<std::string> assumptions;
  {
    Values early(layers);
    stated = settings::stated_versions(early, options, "verl");
    HEADROOM_TRY(early.status());
    const ReleaseHints hints = stated.framework.empty() ? release_hints(input) : ReleaseHints{};
    const bool settled = !hints.verl.empty() && hints.verl.find("dev") == std::string::npos;
    ReleaseClues clues{.vllm = stated.vllm.empty() ? hints.vllm : stated.vllm,
                       .development = settled ? "" : hints.verl,
                       .program = laid.program,
                       .words = laid.words};
    InferredVersion inferred = infer_version(layers, clues);
    version = !stated.framework.empty() ? *parse_version(stated.framework)
              : settled                 ? *parse_version(hints.verl)
                                        : inferred.version;
    if (version >= kUnread)
      assumptions.push_back(
          fmt::format("verl {} works like the newest release that was read", to_string(version)));
    if (settled) assumptions.push_back(fmt::format("verl {} ({})", to_string(version), hints.because));
    if (stated.framework.empty() && !settled) {
      out.warnings = std::move(inferred.conflicts);
      std::string because = hints.verl.empty() && hints.vllm.empty() ? "" : hints.because + ", ";
      because += inferred.because.empty() ? "the newest known; no key tells" : inferred.because;
      assumptions.push_back(fmt::format("verl {} ({})", to_string(version), because));
      if (inferred.oldest) out.alternatives.push_back(to_string(*inferred.oldest));
    }
    if (stated.vllm.empty()) stated.vllm = hints.vllm;
  }
  // A name of the first releases for what is the asynchronous SGLang rollout.
  const std::string rollout_name = "actor_rollout_ref.rollout.name";
  if (const auto engine = layers.get(rollout_name); engine && *engine && (*engine)->value.is_scalar() &&
                                                    (*engine)->value.text() == "sglang_async" &&
                                                    version < Version{0, 5, 0})
    HEADROOM_TRY(layers.apply({.kind = Override::Kind::set,
                               .key = rollout_name,
                               .value = Document::scalar("sglang", (*engine)->line, true),
                               .file = (*engine)->file,
                               .line = (*engine)->line}));
  Document below = defaults(version);
  for (const std::string& name : laid.named) lay_over(below, named_settings(name, version));
  layers.set_defaults(std::move(below));
  Values values(layers);
  *settings = read_settings(values, version, options, folder_of(input));
  settings->versions = settings::stated_versions(values, options, "verl");
  if (settings->versions.vllm.empty()) settings->versions.vllm = stated.vllm;
  complete_versions(version, settings->versions);
  tell_unmodelled_programs(values, laid, *settings);
  if (stated.vllm.empty() && settings->rollout.name == "vllm")
    assumptions.push_back(fmt::format("vLLM {}, PyTorch {} (the release's container image)",
                                      settings->versions.vllm, settings->versions.torch));
  settings->assumptions.insert(settings->assumptions.begin(), assumptions.begin(), assumptions.end());
  out.keys = Usage(values, version, *settings, laid.words).all();
  warn_of_unknown_changes(values, options, version);
  HEADROOM_TRY(values.status());
  Result<Job> job = make_job(*settings);
  if (!job) {
    const std::string key = job.error().key;
    values.fail_with(std::move(job.error()), key);
    HEADROOM_TRY(values.status());
  }
  out.job = std::move(*job);
  HEADROOM_TRY(take_batches(input, out.job));
  warn_of_short_models(values, *settings);
  if (!input.files.empty()) out.job.name = std::filesystem::path(input.files.back().path).stem().string();
  for (Notice& notice : values.take_warnings()) out.warnings.push_back(std::move(notice));
  out.input = input;
  out.overrides = settings::effective_overrides(options, kOptions);
  out.settings = std::move(settings);
  return out;
}

const Settings& settings_of(const ReadJob& read) {
  return static_cast<const Settings&>(*read.settings);
}

}  // namespace headroom::verl
