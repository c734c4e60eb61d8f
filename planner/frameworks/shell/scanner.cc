#include "planner/frameworks/shell/scanner.h"

#include <fmt/format.h>

#include <cctype>

#include "planner/frameworks/shell/parse.h"

namespace headroom::shell {
namespace {

bool name_start(char c) {
  return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_';
}
bool name_letter(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}
bool ends_word(char c) {
  return c == '\0' || std::string_view(" \t\n\r;&|<>()").find(c) != std::string_view::npos;
}

/// `\n`, `\t` and the like in $'…'.
char escaped(char c) {
  switch (c) {
    case 'n':
      return '\n';
    case 't':
      return '\t';
    case 'r':
      return '\r';
    default:
      return c;
  }
}

}  // namespace

void Scanner::fail_here(std::string message) {
  if (!error_) error_ = Error{.message = std::move(message), .file = file_, .line = line_, .key = {}};
  at_ = text_.size();
}

char Scanner::take() {
  if (at_end()) return '\0';
  const char c = text_[at_++];
  if (c == '\n') ++line_;
  return c;
}

void Scanner::blanks() {
  while (!at_end()) {
    const char c = peek();
    if (c == ' ' || c == '\t' || c == '\r') {
      take();
    } else if (c == '\\' && (peek(1) == '\n' || (peek(1) == '\r' && peek(2) == '\n'))) {
      skip(peek(1) == '\n' ? 2 : 3);
    } else if (c == '#') {
      while (!at_end() && peek() != '\n') take();
    } else {
      return;
    }
  }
}

void Scanner::lines() {
  while (true) {
    blanks();
    if (peek() != '\n') return;
    end_line();
  }
}

void Scanner::end_line() {
  if (peek() == '\n') take();
  std::vector<Document> open;
  open.swap(documents_);
  for (Document& document : open) {
    const int first = line_;
    std::string content;
    while (true) {
      if (at_end()) break;
      const std::size_t end = std::min(text_.find('\n', at_), text_.size());
      std::string_view line = text_.substr(at_, end - at_);
      at_ = std::min(end + 1, text_.size());
      ++line_;
      if (line.ends_with('\r')) line.remove_suffix(1);
      if (document.tabs) line.remove_prefix(std::min(line.find_first_not_of('\t'), line.size()));
      if (line == document.mark) break;
      content += std::string(line) + "\n";
    }
    if (document.literal) {
      text(*document.into, content, true);
    } else {
      *document.into = body(content, first);
    }
  }
}

void Scanner::open_document(std::shared_ptr<RawWord> into, std::string mark, bool literal, bool tabs) {
  documents_.push_back({std::move(into), std::move(mark), literal, tabs});
}

bool Scanner::at_word() const {
  if (at_end()) return false;
  if ((peek() == '<' || peek() == '>') && peek(1) == '(') return true;
  return !ends_word(peek());
}

void Scanner::text(RawWord& into, std::string_view more, bool quoted) {
  if (into.parts.empty() || into.parts.back().kind != Part::Kind::text || into.parts.back().quoted != quoted)
    into.parts.push_back({.kind = Part::Kind::text, .quoted = quoted, .text = {}});
  into.parts.back().text += more;
}

RawWord Scanner::word() {
  RawWord out;
  out.place = here();
  while (!at_end()) {
    const char c = peek();
    if ((c == '<' || c == '>') && peek(1) == '(') {
      const std::size_t start = at_;
      skip(2);
      command(out, true, start);
    } else if (ends_word(c)) {
      break;
    } else if (c == '\\') {
      take();
      if (peek() == '\n') {
        take();
      } else if (peek() == '\r' && peek(1) == '\n') {
        skip(2);
      } else if (!at_end()) {
        text(out, std::string(1, take()), true);
      }
    } else if (c == '\'') {
      take();
      single_quoted(out, false);
    } else if (c == '"') {
      take();
      double_quoted(out);
    } else if (c == '$') {
      dollar(out, false);
    } else if (c == '`') {
      backquoted(out, false);
    } else {
      text(out, std::string(1, take()), false);
    }
  }
  out.place = since(out.place);
  return out;
}

std::string Scanner::ahead() {
  if (std::string_view("{}!").find(peek()) != std::string_view::npos && ends_word(peek(1)))
    return std::string(1, peek());
  std::string out;
  for (std::size_t i = 0; !ends_word(peek(i)); ++i) {
    const char c = peek(i);
    if (name_letter(c) || c == '[') {
      out += c;
    } else {
      return {};
    }
  }
  return out;
}

void Scanner::single_quoted(RawWord& into, bool ansi) {
  std::string content;
  while (true) {
    if (at_end()) return fail_here("a quote is not closed: expected '");
    const char c = take();
    if (c == '\'') break;
    content += ansi && c == '\\' && !at_end() ? escaped(take()) : c;
  }
  text(into, content, true);
}

void Scanner::double_quoted(RawWord& into) {
  text(into, "", true);  // "" is a word
  while (true) {
    if (at_end()) return fail_here("a quote is not closed: expected \"");
    const char c = peek();
    if (c == '"') {
      take();
      return;
    }
    if (c == '\\') {
      take();
      const char next = peek();
      if (next == '\n') {
        take();
      } else if (std::string_view("$`\"\\").find(next) != std::string_view::npos && next != '\0') {
        text(into, std::string(1, take()), true);
      } else {
        text(into, "\\", true);
      }
    } else if (c == '$') {
      dollar(into, true);
    } else if (c == '`') {
      backquoted(into, true);
    } else {
      text(into, std::string(1, take()), true);
    }
  }
}

void Scanner::dollar(RawWord& into, bool quoted) {
  const std::size_t start = at_;
  take();
  const char c = peek();
  if (c == '(' && peek(1) == '(') {
    if (!closes_doubly()) {  // a command that starts with a subshell
      take();
      return command(into, quoted, start);
    }
    skip(2);
    auto expression = std::make_shared<RawWord>(arithmetic_text());
    Part part{.kind = Part::Kind::arithmetic, .quoted = quoted, .text = {}};
    part.text = std::string(text_.substr(start, at_ - start));
    part.argument = std::move(expression);
    into.parts.push_back(std::move(part));
  } else if (c == '(') {
    take();
    command(into, quoted, start);
  } else if (c == '{') {
    take();
    braced(into, quoted);
  } else if (c == '\'' && !quoted) {
    take();
    single_quoted(into, true);
  } else if (c == '"' && !quoted) {
    take();
    double_quoted(into);
  } else if (name_start(c)) {
    Part part{.kind = Part::Kind::parameter, .quoted = quoted, .text = {}};
    while (name_letter(peek())) part.text += take();
    into.parts.push_back(std::move(part));
  } else if (c != '\0' && std::string_view("@*#?$!-0123456789").find(c) != std::string_view::npos) {
    Part part{.kind = Part::Kind::parameter, .quoted = quoted, .text = std::string(1, take())};
    into.parts.push_back(std::move(part));
  } else {
    text(into, "$", quoted);
  }
}

bool Scanner::closes_doubly() const {
  int open = 0;
  for (std::size_t i = at_; i < text_.size(); ++i) {
    if (text_[i] == '(') ++open;
    if (text_[i] != ')') continue;
    if (--open == 1) return i + 1 < text_.size() && text_[i + 1] == ')';
  }
  return true;  // unclosed: told as that
}

std::shared_ptr<RawWord> Scanner::inside(std::string_view stops, bool quoted) {
  auto out = std::make_shared<RawWord>();
  out->place = here();
  while (true) {
    if (at_end()) {
      fail_here("${ is not closed: expected }");
      return out;
    }
    const char c = peek();
    if (stops.find(c) != std::string_view::npos) break;
    if (c == '\\') {
      take();
      if (peek() == '\n') {
        take();
      } else {
        text(*out, std::string(1, take()), true);
      }
    } else if (c == '\'' && !quoted) {
      take();
      single_quoted(*out, false);
    } else if (c == '"') {
      take();
      double_quoted(*out);
    } else if (c == '$') {
      dollar(*out, quoted);
    } else if (c == '`') {
      backquoted(*out, quoted);
    } else {
      text(*out, std::string(1, take()), quoted);
    }
  }
  out->place = since(out->place);
  return out;
}

/// After `${`: NAME or [#!]NAME, an index, an operation with its words, `}`.
void Scanner::braced(RawWord& into, bool quoted) {
  if (++depth_ > kDeepest) return fail_here("expected at most 100 levels of nesting");
  Part part{.kind = Part::Kind::parameter, .quoted = quoted, .text = {}};
  if (peek() == '#' && peek(1) != '}') {
    part.length = true;
    take();
  } else if (peek() == '!') {
    part.indirect = true;
    take();
  }
  if (name_start(peek())) {
    while (name_letter(peek())) part.text += take();
  } else if (std::isdigit(static_cast<unsigned char>(peek())) != 0) {
    while (std::isdigit(static_cast<unsigned char>(peek())) != 0) part.text += take();
  } else if (peek() != '}') {
    part.text += take();  // @ * # ? …
  }
  if (peek() == '[') {
    take();
    while (!at_end() && peek() != ']') part.index += take();
    take();
  }
  const auto operation = [&](std::string_view name) {
    if (!starts(name)) return false;
    part.operation = name;
    skip(name.size());
    return true;
  };
  for (const std::string_view name : {":-", ":=", ":?", ":+", "-",  "=", "?", "+",  "##", "#",
                                      "%%", "%",  "^^", "^",  ",,", ",", "@", "//", "/",  ":"})
    if (operation(name)) break;
  if (part.operation == "/" && (peek() == '#' || peek() == '%')) part.operation += take();
  if (part.operation.starts_with("/")) {
    part.argument = inside("/}", quoted);
    if (peek() == '/') {
      take();
      part.second = inside("}", quoted);
    }
  } else if (part.operation == ":") {
    part.argument = inside(":}", quoted);
    if (peek() == ':') {
      take();
      part.second = inside("}", quoted);
    }
  } else if (!part.operation.empty()) {
    part.argument = inside("}", quoted);
  }
  if (!failed() && peek() != '}') return fail_here("${ is not closed: expected }");
  take();
  --depth_;
  into.parts.push_back(std::move(part));
}

void Scanner::command(RawWord& into, bool quoted, std::size_t start) {
  // Commands are parsed where they stand, so that quotes and comments in them count as theirs.
  Part part{.kind = Part::Kind::command, .quoted = quoted, .text = {}};
  const std::size_t first = at_;
  Result<Parsed> parsed = parse_until(text_.substr(first), file_, line_, ")", depth_ + 1,
                                      base_ ? std::optional(*base_ + first) : std::nullopt);
  if (!parsed) {
    error_ = std::move(parsed.error());
    at_ = text_.size();
    return;
  }
  skip(parsed->used);
  if (peek() != ')') return fail_here("$( is not closed: expected )");
  take();
  part.text = std::string(text_.substr(start, at_ - start));
  part.program = std::move(parsed->program);
  into.parts.push_back(std::move(part));
}

void Scanner::backquoted(RawWord& into, bool quoted) {
  const std::size_t start = at_;
  const int line = line_;
  take();
  std::string inner;
  while (true) {
    if (at_end()) return fail_here("a quote is not closed: expected `");
    const char c = take();
    if (c == '`') break;
    if (c == '\\' && (peek() == '`' || peek() == '$' || peek() == '\\')) {
      inner += take();
    } else {
      inner += c;
    }
  }
  Part part{.kind = Part::Kind::command, .quoted = quoted, .text = {}};
  Result<Parsed> parsed = parse_until(inner, file_, line, "", depth_ + 1, {});
  if (!parsed) {
    error_ = std::move(parsed.error());
    at_ = text_.size();
    return;
  }
  part.text = std::string(text_.substr(start, at_ - start));
  part.program = std::move(parsed->program);
  into.parts.push_back(std::move(part));
}

RawWord Scanner::arithmetic_text() {
  const Place start = here();
  int open = 0;
  auto out = RawWord{};
  while (true) {
    if (at_end()) {
      fail_here("(( is not closed: expected ))");
      return out;
    }
    const char c = peek();
    if (c == ')' && open == 0) {
      if (peek(1) != ')') {
        fail_here("(( is not closed: expected ))");
        return out;
      }
      out.place = since(start);
      skip(2);
      return out;
    }
    if (c == '$') {
      dollar(out, true);
      continue;
    }
    if (c == '`') {
      backquoted(out, true);
      continue;
    }
    if (c == '(') ++open;
    if (c == ')') --open;
    if (c == '"' || (c == '\\' && peek(1) == '\n')) {
      skip(c == '"' ? 1 : 2);
      continue;
    }
    text(out, std::string(1, take()), true);
  }
}

RawWord Scanner::body(std::string_view content, int line) {
  Scanner inner(content, file_, line, depth_ + 1, {});
  RawWord out;
  out.place = {file_, line, 0, 0};
  while (!inner.at_end()) {
    const char c = inner.peek();
    if (c == '\\' && std::string_view("$`\\\n").find(inner.peek(1)) != std::string_view::npos) {
      inner.take();
      const char next = inner.take();
      if (next != '\n') text(out, std::string(1, next), true);
    } else if (c == '$') {
      inner.dollar(out, true);
    } else if (c == '`') {
      inner.backquoted(out, true);
    } else {
      text(out, std::string(1, inner.take()), true);
    }
  }
  if (inner.failed() && !error_) error_ = inner.take_error();
  return out;
}

}  // namespace headroom::shell
