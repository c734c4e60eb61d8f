#include "models/document/document.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string>

namespace headroom {
namespace {

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

std::string without_underscores(std::string_view text) {
  std::string out;
  for (char c : text)
    if (c != '_') out += c;
  if (!out.empty() && out.front() == '+') out.erase(0, 1);
  return out;
}

}  // namespace

const Document* Document::find(std::string_view key) const {
  for (const auto& [name, value] : entries_)
    if (name == key) return &value;
  return nullptr;
}

Document* Document::find(std::string_view key) {
  return const_cast<Document*>(std::as_const(*this).find(key));
}

const Document* Document::find_path(std::string_view dotted) const {
  const Document* at = this;
  while (at != nullptr && !dotted.empty()) {
    const size_t dot = dotted.find('.');
    at = at->find(dotted.substr(0, dot));
    dotted = dot == std::string_view::npos ? std::string_view{} : dotted.substr(dot + 1);
  }
  return at;
}

std::optional<std::int64_t> Document::as_int() const {
  if (!is_scalar() || quoted_ || text_.empty()) return std::nullopt;
  const std::string digits = without_underscores(text_);
  std::int64_t value = 0;
  const char* end = digits.data() + digits.size();
  const auto [at, code] = std::from_chars(digits.data(), end, value);
  if (code == std::errc{} && at == end && !digits.empty()) return value;
  const auto real = as_double();  // 1e9 and 4.0 are whole numbers too
  if (!real || *real != std::floor(*real) || std::abs(*real) > 9.0e18) return std::nullopt;
  return static_cast<std::int64_t>(*real);
}

std::optional<double> Document::as_double() const {
  if (!is_scalar() || quoted_ || text_.empty()) return std::nullopt;
  const std::string digits = without_underscores(text_);
  double value = 0;
  const char* end = digits.data() + digits.size();
  const auto [at, code] = std::from_chars(digits.data(), end, value);
  if (code != std::errc{} || at != end || digits.empty() || !std::isfinite(value)) return std::nullopt;
  return value;
}

std::optional<bool> Document::as_bool() const {
  if (!is_scalar() || quoted_) return std::nullopt;
  const std::string word = lower(text_);
  if (word == "true" || word == "yes" || word == "on") return true;
  if (word == "false" || word == "no" || word == "off") return false;
  return std::nullopt;
}

Document Document::null(int line) {
  Document out;
  out.line_ = line;
  return out;
}

Document Document::scalar(std::string text, int line, bool quoted) {
  Document out;
  out.kind_ = Kind::scalar;
  out.text_ = std::move(text);
  out.line_ = line;
  out.quoted_ = quoted;
  return out;
}

Document Document::list(int line) {
  Document out;
  out.kind_ = Kind::list;
  out.line_ = line;
  return out;
}

Document Document::map(int line) {
  Document out;
  out.kind_ = Kind::map;
  out.line_ = line;
  return out;
}

Document& Document::set(std::string_view key, Document value) {
  if (Document* old = find(key)) {
    *old = std::move(value);
    return *old;
  }
  return entries_.emplace_back(key, std::move(value)).second;
}

bool Document::set_path(std::string_view dotted, Document value) {
  Document* at = this;
  for (;;) {
    if (at->is_null()) at->kind_ = Kind::map;
    if (!at->is_map()) return false;
    const size_t dot = dotted.find('.');
    const std::string_view key = dotted.substr(0, dot);
    if (dot == std::string_view::npos) {
      at->set(key, std::move(value));
      return true;
    }
    Document* next = at->find(key);
    at = next != nullptr ? next : &at->set(key, map(value.line()));
    dotted = dotted.substr(dot + 1);
  }
}

bool Document::erase(std::string_view key) {
  const auto at =
      std::find_if(entries_.begin(), entries_.end(), [&](const auto& e) { return e.first == key; });
  if (at == entries_.end()) return false;
  entries_.erase(at);
  return true;
}

}  // namespace headroom
