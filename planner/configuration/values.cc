#include "planner/configuration/values.h"

#include <fmt/format.h>

#include "planner/configuration/value_grammar.h"

namespace headroom {
namespace {

const std::string kMandatory(3, '?');

std::string shown(const Document& value) {
  switch (value.kind()) {
    case Document::Kind::null:
      return "null";
    case Document::Kind::scalar: {
      const std::string text = value.text().size() > 80 ? value.text().substr(0, 80) + "…" : value.text();
      return value.quoted() || text.empty() ? '"' + text + '"' : text;
    }
    case Document::Kind::list:
      return "a list";
    case Document::Kind::map:
      return "a map";
  }
  return {};
}

/// `None` in a YAML is a word; where a number is wanted, what its writer meant is null.
bool means_null(const Document& value) {
  return value.is_scalar() && !value.quoted() && value.text() == "None";
}

bool is_whole(std::string_view text) {
  return text.find_first_of(".eE") == std::string_view::npos;
}

}  // namespace

const Document* Values::get(std::string_view key) {
  const auto known = used_.find(key);
  if (known != used_.end()) return known->second.value.is_null() ? nullptr : &known->second.value;
  Result<std::optional<Layers::Value>> found = layers_.get(key);
  if (!found) {
    fail_with(std::move(found.error()), key);
    return nullptr;
  }
  Layers::Value value = *found ? std::move(**found) : Layers::Value{};
  const Document& kept = used_.emplace(std::string(key), std::move(value)).first->second.value;
  if (kept.is_null()) return nullptr;
  if (kept.is_scalar() && kept.text() == kMandatory) {
    fail_at(key, "is mandatory and not set; give a value");
    return nullptr;
  }
  return &kept;
}

/// Where a number or a boolean is wanted: without quotes, unless they matter.
Document Values::plain(const Document& value) const {
  const bool drop = value.is_scalar() && grammar_ == Grammar::lenient;
  return drop ? Document::scalar(value.text(), value.line()) : value;
}

void Values::mismatch(std::string_view key, const Document& found, std::string expected) {
  fail_at(key, fmt::format("expected {}, found {}", expected, shown(plain(found))));
}

std::optional<std::int64_t> Values::optional_integer(std::string_view key, std::int64_t least,
                                                     std::int64_t most) {
  const Document* found = get(key);
  if (found == nullptr || (grammar_ == Grammar::lenient && means_null(*found))) return std::nullopt;
  auto value = plain(*found).as_int();
  // Python counts False and True.
  if (const auto flag = found->as_bool(); flag && !value && grammar_ == Grammar::lenient)
    value = *flag ? 1 : 0;
  const bool whole = grammar_ == Grammar::lenient || is_whole(found->text());
  if (value && whole && *value >= least && *value <= most) return value;
  mismatch(key, *found, fmt::format("an integer from {} to {}", least, most));
  return std::nullopt;
}

std::int64_t Values::integer(std::string_view key, std::int64_t least, std::int64_t most,
                             std::int64_t fallback) {
  return optional_integer(key, least, most).value_or(fallback);
}

std::optional<double> Values::optional_number(std::string_view key, double least, double most) {
  const Document* found = get(key);
  if (found == nullptr || (grammar_ == Grammar::lenient && means_null(*found))) return std::nullopt;
  const auto value = plain(*found).as_double();
  if (value && *value >= least && *value <= most) return value;
  mismatch(key, *found, fmt::format("a number from {} to {}", least, most));
  return std::nullopt;
}

double Values::number(std::string_view key, double least, double most, double fallback) {
  return optional_number(key, least, most).value_or(fallback);
}

bool Values::flag(std::string_view key, bool fallback) {
  const Document* found = get(key);
  if (found == nullptr || (grammar_ == Grammar::lenient && means_null(*found))) return fallback;
  const auto value = plain(*found).as_bool();
  if (value) return *value;
  if (grammar_ == Grammar::lenient && found->is_scalar() && found->text().empty()) return false;  // as Python takes ""
  if (const auto number = plain(*found).as_double(); number && grammar_ == Grammar::lenient)
    return *number != 0;
  mismatch(key, *found, "true or false");
  return fallback;
}

std::optional<std::string> Values::optional_text(std::string_view key) {
  const Document* found = get(key);
  if (found == nullptr || (grammar_ == Grammar::lenient && means_null(*found))) return std::nullopt;
  if (found->is_scalar()) return found->text();
  mismatch(key, *found, "text");
  return std::nullopt;
}

std::string Values::text(std::string_view key, std::string fallback) {
  return optional_text(key).value_or(std::move(fallback));
}

DType Values::dtype(std::string_view key, DType fallback) {
  const auto word = optional_text(key);
  if (!word) return fallback;
  const auto value = parse_dtype(*word);
  if (value) return *value;
  fail_at(key, fmt::format("expected a dtype such as fp32, bf16 or float16, found {}", *word));
  return fallback;
}

std::vector<std::string> Values::texts(std::string_view key) {
  const Document* found = get(key);
  if (found == nullptr) return {};
  if (found->is_scalar()) return {found->text()};
  std::vector<std::string> out;
  if (found->is_list()) {
    for (const Document& item : found->items()) {
      if (!item.is_scalar()) {
        mismatch(key, item, "a list of words");
        return {};
      }
      out.push_back(item.text());
    }
    return out;
  }
  mismatch(key, *found, "a list of words");
  return {};
}

bool Values::listed(std::string_view key) {
  const Document* found = get(key);
  return found != nullptr && found->is_list();
}

std::vector<std::int64_t> Values::integers(std::string_view key, std::int64_t least) {
  const Document* found = get(key);
  if (found == nullptr) return {};
  std::vector<std::int64_t> out;
  if (!found->is_list()) {
    mismatch(key, *found, "a list of integers");
    return {};
  }
  for (const Document& item : found->items()) {
    const auto value = item.as_int();
    if (!value || *value < least) {
      mismatch(key, item, fmt::format("a list of integers of at least {}", least));
      return {};
    }
    out.push_back(*value);
  }
  return out;
}

Document Values::tree(std::string_view key) {
  const Document* found = get(key);
  if (found == nullptr) return Document::map();
  if (!found->is_map()) {
    mismatch(key, *found, "a map");
    return Document::map();
  }
  return *found;
}

std::string Values::word(std::string_view key, std::initializer_list<std::string_view> words,
                         std::string_view fallback) {
  const auto found = optional_text(key);
  if (!found) return std::string(fallback);
  std::string list;
  for (std::string_view known : words) {
    if (*found == known) return *found;
    list += (list.empty() ? "" : ", ") + std::string(known);
  }
  fail_at(key, fmt::format("expected one of {}, found {}", list, *found));
  return std::string(fallback);
}

void Values::fail_at(std::string_view key, std::string message) {
  Error error{.message = std::move(message), .file = {}, .key = std::string(key)};
  layers_.locate(key, error.file, error.line);
  if (!error_) error_ = std::move(error);
}

void Values::fail_with(Error error, std::string_view key) {
  if (error.file.empty()) layers_.locate(key, error.file, error.line);
  if (error.key.empty()) error.key = key;
  if (!error_) error_ = std::move(error);
}

void Values::warn_at(std::string_view key, std::string message) {
  Notice notice{.file = {}, .line = 0, .key = std::string(key), .message = std::move(message)};
  layers_.locate(key, notice.file, notice.line);
  warnings_.push_back(std::move(notice));
}

void Values::without_effect(std::string_view key, std::string_view why) {
  if (!ineffective_.emplace(key).second) return;
  warn_at(key, fmt::format("has no effect: {}", why));
}

Status Values::status() const {
  if (error_) return tl::unexpected<Error>(*error_);
  return {};
}

}  // namespace headroom
