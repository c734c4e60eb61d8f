#include "planner/configuration/value_grammar.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <string>

#include "planner/configuration/interpolation.h"

namespace headroom {
namespace {

constexpr int kDeepest = 50;
constexpr std::string_view kEscapable = "\\()[]{}:=, \t";

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

bool is_number(std::string_view text) {
  const std::string word = lower(text);
  const Document probe = Document::scalar(word);
  if (probe.as_double().has_value()) return true;
  const std::string_view unsigned_word =
      !word.empty() && (word[0] == '-' || word[0] == '+') ? std::string_view(word).substr(1) : word;
  return unsigned_word == "inf" || unsigned_word == "nan";
}

/// A whole unquoted primitive: null, a boolean or a number by its look, else a string.
Document typed(const std::string& text, bool escaped, int line) {
  const std::string word = lower(text);
  if (escaped) return Document::scalar(text, line, true);
  if (word == "null") return Document::null(line);
  if (word == "true" || word == "false") return Document::scalar(word, line);
  if (is_number(text)) return Document::scalar(text, line);
  return Document::scalar(text, line, true);
}

class Parser {
 public:
  Parser(std::string_view text, int line) : text_(text), line_(line) {}

  Result<Document> whole() {
    HEADROOM_ASSIGN(Document value, element(0));
    skip_space();
    if (at_ == text_.size()) return value;
    if (text_[at_] == ',')
      return fail(
          "a comma-separated sweep stands for several runs; expected one value (quote it or use [...])");
    return fail(fmt::format("expected the end of the value, found '{}'", text_.substr(at_, 20)));
  }

 private:
  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
  }
  bool looking_at(char c) const { return at_ < text_.size() && text_[at_] == c; }

  Result<Document> element(int depth) {
    if (depth > kDeepest) return fail(fmt::format("nested deeper than {} levels", kDeepest));
    skip_space();
    if (looking_at('[')) return list(depth);
    if (looking_at('{')) return dict(depth);
    if (looking_at('\'') || looking_at('"')) return quoted();
    return primitive(depth);
  }

  Result<Document> list(int depth) {
    Document out = Document::list(line_);
    ++at_;
    skip_space();
    if (looking_at(']')) return ++at_, out;
    for (;;) {
      HEADROOM_ASSIGN(Document item, element(depth + 1));
      out.append(std::move(item));
      skip_space();
      if (looking_at(']')) return ++at_, out;
      if (!looking_at(',')) return fail("a list is not closed: expected , or ]");
      ++at_;
    }
  }

  Result<Document> dict(int depth) {
    Document out = Document::map(line_);
    ++at_;
    skip_space();
    if (looking_at('}')) return ++at_, out;
    for (;;) {
      HEADROOM_ASSIGN(const std::string key, dict_key());
      HEADROOM_ASSIGN(Document value, element(depth + 1));
      out.set(key, std::move(value));
      skip_space();
      if (looking_at('}')) return ++at_, out;
      if (!looking_at(',')) return fail("a dict is not closed: expected , or }");
      ++at_;
    }
  }

  Result<std::string> dict_key() {
    skip_space();
    if (looking_at('\'') || looking_at('"')) {
      HEADROOM_ASSIGN(const Document key, quoted());
      skip_space();
      if (!looking_at(':')) return fail("expected : after a dict's key");
      ++at_;
      return key.text();
    }
    std::string key;
    while (at_ < text_.size() && std::string_view(":,{}[]").find(text_[at_]) == std::string_view::npos) {
      if (text_[at_] == '\\' && at_ + 1 < text_.size()) ++at_;
      key += text_[at_++];
    }
    if (!looking_at(':')) return fail("expected KEY:VALUE in a dict");
    ++at_;
    while (!key.empty() && key.back() == ' ') key.pop_back();
    if (key.empty()) return fail("expected a key before : in a dict");
    return key;
  }

  Result<Document> quoted() {
    const char mark = text_[at_++];
    std::string out;
    while (at_ < text_.size() && text_[at_] != mark) {
      if (text_[at_] == '\\' && at_ + 1 < text_.size() && (text_[at_ + 1] == mark || text_[at_ + 1] == '\\'))
        ++at_;
      out += text_[at_++];
    }
    if (at_ == text_.size()) return fail(fmt::format("a quoted string is not closed: expected {}", mark));
    ++at_;
    return Document::scalar(std::move(out), line_, true);
  }

  /// Up to a character that ends it; spaces inside stay, those around it do not.
  Result<Document> primitive(int depth) {
    std::string out;
    std::size_t kept = 0;  // length of `out` without trailing spaces
    bool escaped = false;
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '\\' && at_ + 1 < text_.size() && kEscapable.find(text_[at_ + 1]) != std::string_view::npos) {
        out += text_[at_ + 1];
        at_ += 2;
        escaped = true;
        kept = out.size();
        continue;
      }
      if (c == '$' && at_ + 1 < text_.size() && text_[at_ + 1] == '{') {
        const std::size_t end = interpolation_end(text_, at_);
        if (end == std::string_view::npos) return fail("an interpolation is not closed: expected }");
        out.append(text_.substr(at_, end - at_));
        at_ = end;
        kept = out.size();
        continue;
      }
      if (c == '(') return cast(lower(out), depth);
      if (c == ',' || c == ']' || c == '}') break;
      if (c == '[' || c == '{' || c == ')')
        return fail(fmt::format("'{}' inside a plain value: quote the value", c));
      out += c;
      ++at_;
      if (c != ' ' && c != '\t') kept = out.size();
    }
    out.resize(kept);
    return typed(out, escaped, line_);
  }

  Result<Document> cast(const std::string& function, int depth) {
    if (function != "int" && function != "float" && function != "str" && function != "bool")
      return fail(fmt::format("function '{}(...)' is not supported: write its result", function));
    ++at_;
    HEADROOM_ASSIGN(const Document inner, cast_argument(depth + 1));
    if (!inner.is_scalar()) return fail(fmt::format("{}(...) expects one plain value", function));
    const Document plain = Document::scalar(inner.text(), line_);
    if (function == "str") return Document::scalar(inner.text(), line_, true);
    if (function == "bool") {
      const auto number = plain.as_double();
      const auto word = plain.as_bool();
      if (!number && !word) return fail(fmt::format("bool(...) expects a boolean, found '{}'", inner.text()));
      return Document::scalar(word.value_or(number.value_or(0) != 0) ? "true" : "false", line_);
    }
    const auto number = plain.as_double();
    if (!number) return fail(fmt::format("{}(...) expects a number, found '{}'", function, inner.text()));
    if (function == "float") return Document::scalar(inner.text(), line_);
    return Document::scalar(fmt::format("{:.0f}", *number < 0 ? -std::floor(-*number) : std::floor(*number)),
                            line_);
  }

  Result<Document> cast_argument(int depth) {
    const std::size_t close = text_.find(')', at_);
    if (close == std::string_view::npos) return fail("a cast is not closed: expected )");
    Parser inside(text_.substr(at_, close - at_), line_);
    at_ = close + 1;
    if (depth > kDeepest) return fail(fmt::format("nested deeper than {} levels", kDeepest));
    return inside.whole();
  }

  std::string_view text_;
  int line_;
  std::size_t at_ = 0;
};

bool plain_text(std::string_view text) {
  if (text.empty() || text.front() == ' ' || text.back() == ' ') return false;
  for (char c : text)
    if (std::string_view("\\()[]{},'\"=\n\t").find(c) != std::string_view::npos) return false;
  const std::string word = lower(text);
  return word != "null" && word != "true" && word != "false" && !is_number(text);
}

}  // namespace

Result<Document> parse_value(std::string_view text, int line) {
  const std::size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return Document::scalar("", line, true);
  return Parser(text, line).whole();
}

std::string format_value(const Document& value) {
  switch (value.kind()) {
    case Document::Kind::null:
      return "null";
    case Document::Kind::scalar: {
      const std::string& text = value.text();
      if (!value.quoted() || plain_text(text) || text.rfind("${", 0) == 0) return text;
      std::string out = "'";
      for (char c : text) {
        if (c == '\'' || c == '\\') out += '\\';
        out += c;
      }
      return out + "'";
    }
    case Document::Kind::list: {
      std::string out = "[";
      for (const Document& item : value.items()) out += (out.size() > 1 ? "," : "") + format_value(item);
      return out + "]";
    }
    case Document::Kind::map: {
      std::string out = "{";
      for (const auto& [key, entry] : value.entries())
        out += (out.size() > 1 ? "," : "") + format_value(Document::scalar(key, 0, true)) + ":" +
               format_value(entry);
      return out + "}";
    }
  }
  return {};
}

}  // namespace headroom
