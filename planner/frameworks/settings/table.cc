#include "planner/frameworks/settings/table.h"

#include <fmt/format.h>

#include <algorithm>

#include "planner/configuration/value_grammar.h"

namespace headroom::settings {

std::string shown(bool value) {
  return value ? "true" : "false";
}
std::string shown(std::int64_t value) {
  return std::to_string(value);
}
std::string shown(const std::optional<std::int64_t>& value) {
  return value ? std::to_string(*value) : "null";
}
std::string shown(double value) {
  return fmt::format("{}", value);
}
std::string shown(const std::string& value) {
  return value.empty() ? "null" : value;
}
std::string shown(DType value) {
  return std::string(name(value));
}
std::string shown(const std::vector<std::string>& value) {
  return fmt::format("[{}]", fmt::join(value, ","));
}

void append_without_effect(std::vector<Key>& keys, std::span<const std::string_view> names) {
  for (const std::string_view name : names)
    if (std::none_of(keys.begin(), keys.end(), [&](const Key& key) { return key.path == name; }))
      keys.push_back({.path = std::string(name),
                      .kind = Kind::any,
                      .fallback = "null",
                      .note = {},
                      .effect = Effect::none,
                      .since = kFirst,
                      .until = kNever});
}

bool assign_field(bool& field, const std::string& value) {
  const auto parsed = Document::scalar(value).as_bool();
  if (parsed) field = *parsed;
  return parsed.has_value();
}
bool assign_field(std::int64_t& field, const std::string& value) {
  const auto parsed = Document::scalar(value).as_int();
  if (parsed) field = *parsed;
  return parsed.has_value();
}
bool assign_field(std::optional<std::int64_t>& field, const std::string& value) {
  field = Document::scalar(value).as_int();
  return field.has_value() || value == "null";
}
bool assign_field(double& field, const std::string& value) {
  const auto parsed = Document::scalar(value).as_double();
  if (parsed) field = *parsed;
  return parsed.has_value();
}
bool assign_field(std::string& field, const std::string& value) {
  field = value == "null" ? "" : value;
  return true;
}
bool assign_field(DType& field, const std::string& value) {
  const auto parsed = parse_dtype(value);
  if (parsed) field = *parsed;
  return parsed.has_value();
}
bool assign_field(std::vector<std::string>& field, const std::string& value) {
  const Result<Document> parsed = parse_value(value);
  if (!parsed) return false;
  field.clear();
  if (parsed->is_list())
    for (const Document& item : parsed->items()) field.push_back(item.text());
  else if (parsed->is_scalar() && value != "null")
    field.push_back(parsed->text());
  return true;
}

Document defaults(std::span<const Key> keys, const Release& release) {
  Document root = Document::map();
  for (const Key& key : keys) {
    if (release < key.since || release >= key.until || key.fallback == "null" || key.fallback == "{}")
      continue;
    Result<Document> value = parse_value(key.fallback);
    if (!value) continue;
    // Numbers and words are plain in a file; what parse_value quotes is text only where the table says text.
    if (value->is_scalar() && value->quoted()) value = Document::scalar(value->text());
    static_cast<void>(root.set_path(key.path, std::move(*value)));
  }
  return root;
}

const Key* find_key(std::span<const Key> keys, std::string_view path, const Release& release) {
  const Key* found = nullptr;
  std::size_t longest = 0;
  bool in_release = false;
  for (const Key& key : keys) {
    const bool exact = key.path == path;
    const bool above =
        path.size() > key.path.size() && path.starts_with(key.path) && path[key.path.size()] == '.';
    if (!exact && !above) continue;
    const bool has = key.since <= release && release < key.until;
    if (found != nullptr && (key.path.size() < longest || (key.path.size() == longest && in_release)))
      continue;
    found = &key;
    longest = key.path.size();
    in_release = has;
  }
  return found;
}

}  // namespace headroom::settings
