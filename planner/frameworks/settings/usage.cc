#include "planner/frameworks/settings/usage.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "models/base/nearest.h"
#include "planner/configuration/value_grammar.h"

namespace headroom::settings {
namespace {

constexpr std::size_t kMostSuggestions = 20;
constexpr std::string_view kOwnSection = "headroom.";

std::string_view last_part(std::string_view key) {
  return key.substr(key.rfind('.') == std::string_view::npos ? 0 : key.rfind('.') + 1);
}

bool matches(Kind kind, const Document& value) {
  if (value.is_null() || (value.is_scalar() && value.text() == "None")) return true;
  const Document plain = value.is_scalar() ? Document::scalar(value.text()) : value;
  switch (kind) {
    case Kind::any:
      return true;
    case Kind::boolean:
      return plain.as_bool().has_value() || plain.as_double().has_value() ||  // 16 is true
             (value.is_scalar() && value.text().empty());                     // and nothing is false
    case Kind::integer:
      return plain.as_int().has_value() || plain.as_bool().has_value();  // False is 0
    case Kind::number:
      return plain.as_double().has_value();
    case Kind::text:
      return value.is_scalar();
    case Kind::list:
      return value.is_list() || value.is_scalar();
    case Kind::map:
      return value.is_map();
  }
  return true;
}

std::string_view name_of(Kind kind) {
  constexpr std::string_view kNames[] = {"a value", "true or false", "an integer", "a number",
                                         "text",    "a list",        "a map"};
  return kNames[static_cast<std::size_t>(kind)];
}

/// Whether the value says what not giving the key does.
bool is_default(const Document& found, const Key& key) {
  const std::string text = found.is_scalar() ? found.text() : format_value(found);
  if (found.is_null() || text == "{}" || text == "[]" || text.empty() || text == key.fallback) return true;
  const Document usual = Document::scalar(std::string(key.fallback)), plain = Document::scalar(text);
  if (plain.as_bool() && usual.as_bool()) return plain.as_bool() == usual.as_bool();
  const Result<Document> fallback = parse_value(key.fallback);
  return fallback && format_value(found) == format_value(*fallback);
}

class Account {
 public:
  Account(Values& values, std::span<const Key> keys, const Owner& owner, std::vector<std::string>& missing)
      : v_(values), keys_(keys), owner_(owner), missing_(missing) {
    for (const std::string& word : owner.words)
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
  const Key* find(std::string_view path) const {
    return owner_.find ? owner_.find(path) : find_key(keys_, path, owner_.release);
  }
  bool used(const std::string& key) const { return v_.used().count(key) > 0 && v_.has_effect(key); }

  void given(const Layers::Leaf& leaf) {
    if (last_part(leaf.key) == "_target_") return;
    KeyUse use{
        .key = leaf.key, .value = format_value(*leaf.value), .file = *leaf.file, .line = leaf.value->line()};
    const Key* key = find(leaf.key);
    if (key != nullptr && key->path == leaf.key) {
      known(*key, leaf, use);
    } else if (used(leaf.key)) {
      use.state = KeyUse::State::used;
    } else {
      use.state = key == nullptr ? KeyUse::State::unknown : KeyUse::State::ignored;
      if (key == nullptr && leaf.key.starts_with(kOwnSection))
        v_.fail_at(leaf.key, own_key_meant(leaf.key));
      else
        suggest(leaf.key, key == nullptr);
    }
    out_.push_back(std::move(use));
  }

  /// A section in which a key that decides something may stand.
  bool holds_what_counts(const Key& section) const {
    const std::string within = std::string(section.path) + '.';
    return std::any_of(keys_.begin(), keys_.end(),
                       [&](const Key& key) { return key.effect != Effect::none && key.path.starts_with(within); });
  }

  void known(const Key& key, const Layers::Leaf& leaf, KeyUse& use) {
    const auto resolved = v_.layers().get(leaf.key);
    const Document* value = resolved && *resolved ? &(*resolved)->value : nullptr;
    use.state = used(leaf.key) && key.effect != Effect::none ? KeyUse::State::used : KeyUse::State::ignored;
    if (value != nullptr && !matches(key.kind, *value)) {
      const std::string wrong =
          fmt::format("expected {}, found {}", name_of(key.kind), format_value(*value).substr(0, 80));
      if (key.effect != Effect::none || holds_what_counts(key))
        v_.fail_at(leaf.key, wrong);
      else if (key.kind == Kind::map)  // a project's changed copy may have made one word of it
        v_.warn_at(leaf.key, wrong + "; it decides no memory");
      return;
    }
    if (value == nullptr || is_default(*value, key)) {
      if (key.effect == Effect::unmodelled) use.state = KeyUse::State::ignored;
      return;
    }
    if (key.effect == Effect::unmodelled) unmodelled(key, leaf, *value, use);
    const bool in_release = key.since <= owner_.release && owner_.release < key.until;
    if (!in_release && use.state != KeyUse::State::ignored)
      v_.warn_at(leaf.key, fmt::format("is not a key of {} {}, which this configuration is taken to be for",
                                       owner_.framework, to_string(owner_.release)));
  }

  void unmodelled(const Key& key, const Layers::Leaf& leaf, const Document& value, KeyUse& use) {
    use.state = KeyUse::State::not_modelled;
    v_.warn_at(leaf.key, fmt::format("is understood but not modelled{}{}: the verdict is undetermined",
                                     key.note.empty() ? "" : ": ", key.note));
    missing_.push_back(leaf.key + "=" + format_value(value).substr(0, 80));
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
    if (suggestions_ >= kMostSuggestions || (owner_.has && owner_.has(key)) || added(key)) return;
    const std::string near = meant(keys_, key, anywhere);
    // Beside the key that it may be meant as, it is most likely one of the framework's that no row names.
    if (near.empty() || (v_.layers().given(near) && (!owner_.has || last_part(near) == last_part(key))))
      return;
    v_.warn_at(
        key, fmt::format("is not a key of {} that Headroom knows; did you mean {}?", owner_.framework, near));
    missing_.push_back(fmt::format("{}, unknown, which may be meant as {}", key, near));
    ++suggestions_;
  }

  /// What to say of a key of the tool's own section that it does not have.
  std::string own_key_meant(std::string_view unknown) const {
    std::vector<std::string_view> known;
    std::string list;
    for (const Key& key : keys_) {
      if (!key.path.starts_with(kOwnSection)) continue;
      known.push_back(key.path);
      list += (list.empty() ? "" : ", ") + key.path;
    }
    const std::string near = nearest(unknown, known);
    return near.empty() ? "expected one of " + list : fmt::format("unknown key; did you mean '{}'?", near);
  }

  Values& v_;
  std::span<const Key> keys_;
  const Owner& owner_;
  std::vector<std::string>& missing_;
  std::vector<KeyUse> out_;
  std::set<std::string> added_;
  std::size_t suggestions_ = 0;
};

}  // namespace

std::vector<KeyUse> account_for_keys(Values& values, std::span<const Key> keys, const Owner& owner,
                                     std::vector<std::string>& not_modelled) {
  return Account(values, keys, owner, not_modelled).all();
}

}  // namespace headroom::settings
