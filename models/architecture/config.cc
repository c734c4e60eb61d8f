#include "models/architecture/config.h"

#include <fmt/format.h>

#include <algorithm>

namespace headroom {
namespace {

/// No model has a size beyond this; larger ones would overflow products before anything could check them.
constexpr std::int64_t kLargestSize = std::int64_t{1} << 28;
constexpr std::int64_t kMostLayers = 4096;
constexpr std::size_t kShown = 80;  // characters of a wrong value

/// As much of a value as tells which it is.
std::string shown(const Document& value) {
  if (value.is_map()) return "a mapping";
  if (value.is_list()) return "a list";
  const std::string start = value.text().substr(0, kShown) + (value.text().size() > kShown ? "…" : "");
  return value.quoted() ? fmt::format("\"{}\"", start) : start;
}

/// Families make a list of as many, before anything can look at the whole.
bool counts_layers(const Key& key) {
  return std::any_of(key.names.begin(), key.names.end(), [](std::string_view name) {
    return name == "n_layer" || name == "num_layers" || name == "num_hidden_layers";
  });
}

}  // namespace

Config::Config(const Document& map, std::string file)
    : map_(&map), file_(std::move(file)), error_(std::make_shared<std::optional<Error>>()) {
  if (!map.is_map())
    *error_ = Error{.message = fmt::format("expected a mapping of configuration keys, found {}",
                                           map.is_list() ? "a list" : "a text that is none"),
                    .file = file_,
                    .line = map.line(),
                    .key = {}};
}

const Document* Config::find(Key key) const {
  if (map_ == nullptr) return nullptr;
  for (std::string_view name : key.names) {
    if (name.empty()) break;
    const Document* value = map_->find(name);
    if (value != nullptr && !value->is_null()) return value;
  }
  return nullptr;
}

bool Config::is_null(Key key) const {
  const Document* value = map_ == nullptr ? nullptr : map_->find(key.names[0]);
  return value != nullptr && value->is_null();
}

void Config::reject(Key key, std::string message) {
  if (error_->has_value()) return;
  const Document* value = find(key);
  if (value == nullptr) value = map_;
  *error_ = Error{.message = std::move(message),
                  .file = file_,
                  .line = value == nullptr ? 0 : value->line(),
                  .key = path_ + std::string(key.names[0])};
}

Status Config::status() const {
  if (error_->has_value()) return fail(**error_);
  return {};
}

Config Config::section(std::string_view name) const {
  Config out;
  out.file_ = file_;
  out.path_ = path_ + std::string(name) + ".";
  out.error_ = error_;
  const Document* value = map_ == nullptr ? nullptr : map_->find(name);
  if (value == nullptr || value->is_null()) return out;
  if (value->is_map()) {
    out.map_ = value;
  } else if (!error_->has_value()) {
    *error_ = Error{.message = "expected a mapping, found " + shown(*value),
                    .file = file_,
                    .line = value->line(),
                    .key = path_ + std::string(name)};
  }
  return out;
}

std::int64_t Config::bounded(Key key, std::int64_t fallback, std::int64_t least) {
  const Document* value = find(key);
  if (value == nullptr) return fallback;
  const auto number = value->as_int();
  const std::int64_t most = counts_layers(key) ? kMostLayers : kLargestSize;
  if (!number || *number < least || *number > most) {
    reject(key, fmt::format("expected a whole number from {} to {}, found {}", least, most, shown(*value)));
    return fallback;
  }
  for (std::string_view other : key.names) {
    const Document* twin = other.empty() ? nullptr : map_->find(other);
    if (twin != nullptr && !twin->is_null() && twin->as_int() != number)
      reject(key,
             fmt::format("expected one value, found {} here and {} at {}", *number, shown(*twin), other));
  }
  return *number;
}

std::int64_t Config::essential(Key key, std::int64_t nested_default) {
  if (!has(key) && !nested())
    reject(key, "expected a size that every complete config states, found none; a default would be a guess");
  return bounded(key, nested_default, 1);
}

std::int64_t Config::size(Key key, std::int64_t fallback) {
  return bounded(key, fallback, 1);
}

std::int64_t Config::size_or_none(Key key, std::int64_t fallback) {
  return is_null(key) ? 0 : bounded(key, fallback, 1);
}

std::int64_t Config::count(Key key, std::int64_t fallback) {
  return bounded(key, fallback, 0);
}

double Config::number(Key key, double fallback) {
  const Document* value = find(key);
  if (value == nullptr) return fallback;
  const auto number = value->as_double();
  if (!number) reject(key, "expected a number, found " + shown(*value));
  return number.value_or(fallback);
}

double Config::number_or_none(Key key, double fallback) {
  return is_null(key) ? 0 : number(key, fallback);
}

bool Config::flag(Key key, bool fallback) {
  const Document* value = find(key);
  if (value == nullptr) return fallback;
  const auto word = value->as_bool();
  if (!word) reject(key, "expected true or false, found " + shown(*value));
  return word.value_or(fallback);
}

std::string Config::text(Key key, std::string_view fallback) {
  const Document* value = find(key);
  if (value == nullptr) return std::string(fallback);
  if (!value->is_scalar()) {
    reject(key, "expected a word, found " + shown(*value));
    return std::string(fallback);
  }
  return value->text();
}

std::optional<std::vector<std::string>> Config::words(Key key) {
  const Document* value = find(key);
  if (value == nullptr) return std::nullopt;
  std::vector<std::string> out;
  for (const Document& item : value->items()) {
    if (!item.is_scalar()) reject(key, "expected a list of words, found " + shown(item) + " in it");
    out.push_back(item.text());
  }
  if (!value->is_list()) reject(key, "expected a list of words, found " + shown(*value));
  return out;
}

std::optional<std::vector<std::int64_t>> Config::sizes(Key key) {
  const Document* value = find(key);
  if (value == nullptr) return std::nullopt;
  std::vector<std::int64_t> out;
  for (const Document& item : value->items()) {
    const auto number = item.as_int();
    if (!number) reject(key, "expected a list of whole numbers, found " + shown(item) + " in it");
    out.push_back(number.value_or(0));
  }
  if (!value->is_list()) reject(key, "expected a list of whole numbers, found " + shown(*value));
  return out;
}

}  // namespace headroom
