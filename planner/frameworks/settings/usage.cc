#include "planner/frameworks/settings/usage.h"

#include <fmt/format.h>

#include "models/base/nearest.h"
#include "planner/configuration/value_grammar.h"

namespace headroom::settings {
namespace {

constexpr std::size_t kMostSuggestions = 20;

std::string_view last_part(std::string_view key) {
  return key.substr(key.rfind('.') == std::string_view::npos ? 0 : key.rfind('.') + 1);
}

/// A key with an effect that `unknown` was probably meant to be: in the same place, with a similar name.
std::string meant(std::span<const Key> keys, std::string_view unknown) {
  const std::string_view name = last_part(unknown);
  const std::string_view place = unknown.substr(0, unknown.size() - name.size());
  std::string_view best;
  int best_distance = 3;
  for (const Key& key : keys) {
    if (key.effect == Effect::none) continue;
    const std::string_view known = last_part(key.path);
    if (std::string_view(key.path).substr(0, key.path.size() - known.size()) != place) continue;
    const int distance = edit_distance(name, known);
    if (distance >= best_distance || distance * 4 > static_cast<int>(known.size())) continue;
    best_distance = distance;
    best = key.path;
  }
  return std::string(best);
}

bool matches(Kind kind, const Document& value) {
  if (value.is_null() || kind == Kind::any) return true;
  const Document plain = value.is_scalar() ? Document::scalar(value.text()) : value;
  if (kind == Kind::boolean) return plain.as_bool().has_value();
  if (kind == Kind::integer) return plain.as_int().has_value();
  if (kind == Kind::number) return plain.as_double().has_value();
  if (kind == Kind::list) return value.is_list() || value.is_scalar();
  return value.is_scalar();
}

class Account {
 public:
  Account(Values& values, std::span<const Key> keys, const Owner& owner, std::vector<std::string>& missing)
      : v_(values), keys_(keys), owner_(owner), missing_(missing) {}

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
    KeyUse use{
        .key = leaf.key, .value = format_value(*leaf.value), .file = *leaf.file, .line = leaf.value->line()};
    const Key* key = find_key(keys_, leaf.key, owner_.release);
    if (v_.used().count(leaf.key) > 0 && v_.has_effect(leaf.key)) {
      use.state = KeyUse::State::used;
      if (key != nullptr && key->path == leaf.key) other_release(*key, leaf);
    } else if (key == nullptr || (key->path != leaf.key && key->effect != Effect::none)) {
      use.state = key == nullptr ? KeyUse::State::unknown : KeyUse::State::ignored;
      suggest(leaf.key);
    } else if (key->effect == Effect::unmodelled) {
      unmodelled(*key, leaf, use);
    } else {
      use.state = KeyUse::State::ignored;
    }
    out_.push_back(std::move(use));
  }

  void suggest(const std::string& key) {
    if (suggestions_ >= kMostSuggestions) return;
    const std::string near = meant(keys_, key);
    if (near.empty() || v_.layers().given(near)) return;
    v_.warn_at(
        key, fmt::format("is not a key of {} that Headroom knows; did you mean {}?", owner_.framework, near));
    ++suggestions_;
  }

  void other_release(const Key& key, const Layers::Leaf& leaf) {
    if (key.since <= owner_.release && owner_.release < key.until) return;
    v_.warn_at(leaf.key, fmt::format("is not a key of {} {}, which this configuration is taken to be for",
                                     owner_.framework, to_string(owner_.release)));
  }

  void unmodelled(const Key& key, const Layers::Leaf& leaf, KeyUse& use) {
    const auto value = v_.layers().get(leaf.key);
    use.state = KeyUse::State::ignored;
    if (!value || !*value) return;
    const Document& found = (*value)->value;
    const std::string text = found.is_scalar() ? found.text() : format_value(found);
    const bool empty = found.is_null() || text == "{}" || text == "[]" || text.empty();
    const auto plain = Document::scalar(text).as_bool(),
               usual = Document::scalar(std::string(key.fallback)).as_bool();
    if (empty || text == key.fallback || (plain && usual && *plain == *usual)) return;
    if (!matches(key.kind, found)) return;
    use.state = KeyUse::State::not_modelled;
    v_.warn_at(leaf.key, fmt::format("is understood but not modelled{}{}: the verdict is undetermined",
                                     key.note.empty() ? "" : ": ", key.note));
    missing_.push_back(leaf.key + "=" + text.substr(0, 80));
  }

  Values& v_;
  std::span<const Key> keys_;
  Owner owner_;
  std::vector<std::string>& missing_;
  std::vector<KeyUse> out_;
  std::size_t suggestions_ = 0;
};

}  // namespace

std::vector<KeyUse> account_for_keys(Values& values, std::span<const Key> keys, const Owner& owner,
                                     std::vector<std::string>& not_modelled) {
  return Account(values, keys, owner, not_modelled).all();
}

}  // namespace headroom::settings
