#include "planner/frameworks/shell/parse.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <span>

#include "planner/frameworks/shell/scanner.h"

namespace headroom::shell {
namespace {

using Kind = Node::Kind;
using Words = std::span<const std::string_view>;

constexpr auto kThen = std::to_array<std::string_view>({"then"});
constexpr auto kBranch = std::to_array<std::string_view>({"elif", "else", "fi"});
constexpr auto kFi = std::to_array<std::string_view>({"fi"});
constexpr auto kDo = std::to_array<std::string_view>({"do"});
constexpr auto kDone = std::to_array<std::string_view>({"done"});
constexpr auto kBrace = std::to_array<std::string_view>({"}"});
constexpr auto kEsac = std::to_array<std::string_view>({"esac"});

bool is_name(std::string_view text) {
  if (text.empty() || std::isdigit(static_cast<unsigned char>(text.front())) != 0) return false;
  return std::all_of(text.begin(), text.end(),
                     [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; });
}

class Parser {
 public:
  Parser(std::string_view text, const std::string& file, int line, std::string_view end, int depth,
         std::optional<std::size_t> base)
      : in_(text, file, line, depth, base), end_(end), depth_(depth) {
    if (depth_ > kDeepest) in_.fail_here("expected at most 100 levels of nesting");
  }

  Result<Parsed> run() {
    Program program = list({});
    if (!in_.failed() && !at_close()) in_.fail_here(fmt::format("unexpected '{}'", in_.peek()));
    if (in_.failed()) return fail(in_.take_error());
    return Parsed{std::move(program), in_.position()};
  }

 private:
  bool at_close() const { return end_.empty() ? in_.at_end() : in_.peek() == end_.front(); }

  std::shared_ptr<Node> make(Kind kind) const {
    auto node = std::make_shared<Node>();
    node->kind = kind;
    node->place = in_.here();
    return node;
  }

  /// Commands up to one of `words` (left) or the end.
  Program list(Words words) {
    auto out = make(Kind::sequence);
    while (true) {
      in_.lines();
      if (in_.failed() || in_.at_end() || in_.peek() == ')') break;
      if (in_.starts(";;") || in_.starts(";&")) break;
      const std::string word = in_.ahead();
      if (std::find(words.begin(), words.end(), word) != words.end()) break;
      const std::size_t before = in_.position();
      Program command = and_or();
      in_.blanks();
      if (in_.peek() == '&' && in_.peek(1) != '&') {
        in_.take();
        auto background = make(Kind::group);  // it runs, with what is known here
        background->children = {std::move(command)};
        command = std::move(background);
      } else if (in_.peek() == ';' && in_.peek(1) != ';' && in_.peek(1) != '&') {
        in_.take();
      } else if (in_.peek() == '\n') {
        in_.end_line();
      }
      out->children.push_back(std::move(command));
      if (in_.position() == before) {
        in_.fail_here(fmt::format("unexpected '{}'", in_.peek()));
        break;
      }
    }
    return out;
  }

  Program and_or() {
    Program left = pipeline();
    while (true) {
      in_.blanks();
      const bool both = in_.starts("&&");
      if (!both && !in_.starts("||")) return left;
      in_.skip(2);
      in_.lines();
      auto node = make(both ? Kind::both : Kind::either);
      node->children = {left, pipeline()};
      left = std::move(node);
    }
  }

  Program pipeline() {
    in_.blanks();
    if (in_.peek() == '!' && in_.ahead() == "!") {
      auto node = make(Kind::negated);
      in_.take();
      node->children = {pipeline()};
      return node;
    }
    if (in_.ahead() == "time") {
      in_.skip(4);
      in_.blanks();
      if (in_.starts("-p")) in_.skip(2);
      in_.blanks();
    }
    Program first = command();
    in_.blanks();
    if (in_.peek() != '|' || in_.peek(1) == '|') return first;
    auto node = make(Kind::pipeline);
    node->children.push_back(std::move(first));
    while (in_.peek() == '|' && in_.peek(1) != '|' && !in_.failed()) {
      in_.take();
      if (in_.peek() == '&') in_.take();
      in_.lines();
      node->children.push_back(command());
      in_.blanks();
    }
    return node;
  }

  bool keyword(std::string_view word) {
    in_.lines();
    if (in_.failed()) return false;
    if (in_.ahead() != word) {
      in_.fail_here(fmt::format("expected {}, found '{}'", word, in_.at_end() ? "the end" : in_.ahead()));
      return false;
    }
    in_.skip(word.size());
    return true;
  }

  Program command() {
    in_.blanks();
    if (++inner_depth_ + depth_ > kDeepest) in_.fail_here("expected at most 100 levels of nesting");
    Program out = any_command();
    --inner_depth_;
    return out;
  }

  Program any_command() {
    if (in_.starts("((")) return arithmetic();
    if (in_.peek() == '(') return with_redirects(subshell());
    const std::string word = in_.ahead();
    if (word == "{") return with_redirects(braces());
    if (word == "if") return with_redirects(condition());
    if (word == "while" || word == "until") return with_redirects(loop(word == "until"));
    if (word == "for" || word == "select") return with_redirects(each(word));
    if (word == "case") return with_redirects(choose());
    if (word == "[[") return with_redirects(test());
    if (word == "function") return function();
    return simple();
  }

  Program subshell() {
    auto node = make(Kind::subshell);
    in_.take();
    node->children = {list({})};
    if (in_.peek() != ')') in_.fail_here("( is not closed: expected )");
    in_.take();
    return node;
  }

  Program braces() {
    auto node = make(Kind::group);
    in_.take();
    node->children = {list(kBrace)};
    keyword("}");
    return node;
  }

  Program arithmetic() {
    auto node = make(Kind::arithmetic);
    in_.skip(2);
    node->words.push_back(in_.arithmetic_text());
    return node;
  }

  Program condition() {
    auto node = make(Kind::condition);
    in_.skip(in_.ahead().size());  // if, elif
    Program test = list(kThen);
    keyword("then");
    Program then = list(kBranch);
    node->children = {std::move(test), std::move(then)};
    in_.lines();
    const std::string next = in_.ahead();
    if (next == "elif") {
      node->other = condition();
      return node;
    }
    if (next == "else") {
      in_.skip(4);
      node->other = list(kFi);
    }
    keyword("fi");
    return node;
  }

  Program loop(bool until) {
    auto node = make(Kind::loop);
    node->negate = until;
    in_.skip(5);
    Program test = list(kDo);
    keyword("do");
    Program body = list(kDone);
    keyword("done");
    node->children = {std::move(test), std::move(body)};
    return node;
  }

  Program each(const std::string& word) {
    auto node = make(Kind::each);
    in_.skip(word.size());
    in_.blanks();
    if (in_.starts("((")) return counted(std::move(node));
    node->text = in_.ahead();
    if (!is_name(node->text)) in_.fail_here("expected a variable's name after for");
    in_.skip(node->text.size());
    in_.lines();
    if (in_.ahead() == "in") {
      in_.skip(2);
      node->has_words = true;
      in_.blanks();
      while (in_.at_word()) {
        node->words.push_back(in_.word());
        in_.blanks();
      }
    }
    if (in_.peek() == ';') in_.take();
    node->children = {body()};
    return node;
  }

  Program counted(std::shared_ptr<Node> node) {
    node->kind = Kind::counted;
    in_.skip(2);
    RawWord all = in_.arithmetic_text();
    // a; b; c — split at the semicolons of its texts.
    node->words.emplace_back().place = all.place;
    for (Part& part : all.parts) {
      if (part.kind != Part::Kind::text) {
        node->words.back().parts.push_back(std::move(part));
        continue;
      }
      std::string_view rest = part.text;
      while (true) {
        const std::size_t cut = std::min(rest.find(';'), rest.size());
        node->words.back().parts.push_back(
            {.kind = Part::Kind::text, .quoted = true, .text = std::string(rest.substr(0, cut))});
        if (cut == rest.size()) break;
        rest.remove_prefix(cut + 1);
        node->words.emplace_back().place = all.place;
      }
    }
    if (node->words.size() != 3) in_.fail_here("expected for (( start; test; step ))");
    in_.blanks();
    if (in_.peek() == ';') in_.take();
    node->children = {body()};
    return node;
  }

  Program body() {
    in_.lines();
    if (in_.ahead() == "{") return braces();
    keyword("do");
    Program inner = list(kDone);
    keyword("done");
    return inner;
  }

  Program choose() {
    auto node = make(Kind::choose);
    in_.skip(4);
    in_.blanks();
    node->words.push_back(in_.word());
    keyword("in");
    while (true) {
      in_.lines();
      if (in_.failed() || in_.ahead() == "esac") break;
      if (in_.peek() == '(') in_.take();
      Node::Case entry;
      while (!in_.failed()) {
        in_.blanks();
        if (!in_.at_word()) {
          in_.fail_here("expected a pattern of case");
          break;
        }
        entry.patterns.push_back(in_.word());
        in_.blanks();
        if (in_.peek() != '|') break;
        in_.take();
      }
      if (in_.peek() != ')') {
        in_.fail_here("expected ) after a pattern of case");
        break;
      }
      in_.take();
      entry.body = list(kEsac);
      if (in_.starts(";;") || in_.starts(";&")) {
        entry.falls_through = in_.starts(";&") || in_.starts(";;&");
        in_.skip(in_.starts(";;&") ? 3 : 2);
      }
      node->cases.push_back(std::move(entry));
    }
    keyword("esac");
    return node;
  }

  /// Words up to `]]`; operators that end words elsewhere are words here.
  Program test() {
    auto node = make(Kind::test);
    in_.skip(2);
    while (!in_.failed()) {
      in_.lines();
      if (in_.at_end()) {
        in_.fail_here("[[ is not closed: expected ]]");
        break;
      }
      if (in_.starts("]]")) {
        in_.skip(2);
        break;
      }
      const Place start = in_.here();
      std::string mark;
      for (const std::string_view known : {"&&", "||", "(", ")", "<", ">"})
        if (mark.empty() && in_.starts(known)) mark = known;
      if (!mark.empty() && !in_.at_word()) {
        in_.skip(mark.size());
        node->words.push_back(
            {{{.kind = Part::Kind::text, .quoted = false, .text = mark}}, in_.since(start)});
        continue;
      }
      if (!in_.at_word()) {
        in_.fail_here(fmt::format("unexpected '{}' in [[ ]]", in_.peek()));
        break;
      }
      node->words.push_back(in_.word());
      const RawWord& last = node->words.back();
      if (last.parts.size() == 1 && last.parts[0].text == "=~" && !last.parts[0].quoted)
        node->words.push_back(regular_expression());
    }
    return node;
  }

  /// What follows `=~`: parentheses and bars belong to it.
  RawWord regular_expression() {
    in_.blanks();
    RawWord out;
    out.place = in_.here();
    int open = 0;
    while (!in_.at_end() && !in_.failed()) {
      const char c = in_.peek();
      if ((c == ' ' || c == '\t' || c == '\n') && open == 0) break;
      if (c == '(') ++open;
      if (c == ')') --open;
      if (in_.at_word()) {
        RawWord more = in_.word();
        out.parts.insert(out.parts.end(), more.parts.begin(), more.parts.end());
      } else {
        out.parts.push_back({.kind = Part::Kind::text, .quoted = false, .text = std::string(1, in_.take())});
      }
    }
    out.place = in_.since(out.place);
    return out;
  }

  Program function() {
    in_.skip(8);
    in_.blanks();
    const Place start = in_.here();
    const RawWord name = in_.word();
    in_.blanks();
    if (in_.starts("()")) in_.skip(2);
    return define(name.parts.empty() ? "" : name.parts[0].text, start);
  }

  Program define(std::string name, const Place& place) {
    auto node = make(Kind::function);
    node->place = place;
    node->text = std::move(name);
    in_.lines();
    node->children = {command()};
    return node;
  }

  /// `NAME=…`, `NAME+=…`, `NAME[i]=…` at the start of a command.
  bool at_assignment() const {
    std::size_t i = 0;
    while (std::isalnum(static_cast<unsigned char>(in_.peek(i))) != 0 || in_.peek(i) == '_') ++i;
    if (i == 0 || std::isdigit(static_cast<unsigned char>(in_.peek())) != 0) return false;
    if (in_.peek(i) == '[') {
      while (in_.peek(i) != ']' && in_.peek(i) != '\0' && in_.peek(i) != '\n') ++i;
      if (in_.peek(i) != ']') return false;
      ++i;
    }
    return in_.peek(i) == '=' || (in_.peek(i) == '+' && in_.peek(i + 1) == '=');
  }

  Assignment assignment() {
    Assignment out;
    out.place = in_.here();
    while (in_.peek() != '=' && in_.peek() != '+' && in_.peek() != '[') out.name += in_.take();
    if (in_.peek() == '[') {
      in_.take();
      while (in_.peek() != ']') out.index += in_.take();
      in_.take();
    }
    if (in_.peek() == '+') {
      out.append = true;
      in_.take();
    }
    in_.take();
    if (in_.peek() == '(') {
      out.array = true;
      in_.take();
      while (true) {
        in_.lines();
        if (in_.peek() == ')') break;
        if (!in_.at_word()) {
          in_.fail_here(in_.at_end() ? "an array is not closed: expected )"
                                     : fmt::format("unexpected '{}' in an array", in_.peek()));
          return out;
        }
        out.items.push_back(in_.word());
      }
      in_.take();
    } else {
      out.value = in_.word();
    }
    out.place = in_.since(out.place);
    return out;
  }

  static bool declares(const RawWord& word) {
    static constexpr auto kBuiltins =
        std::to_array<std::string_view>({"export", "local", "declare", "typeset", "readonly"});
    return word.parts.size() == 1 && !word.parts[0].quoted &&
           std::find(kBuiltins.begin(), kBuiltins.end(), word.parts[0].text) != kBuiltins.end();
  }

  Program simple() {
    auto node = make(Kind::simple);
    while (!in_.failed()) {
      in_.blanks();
      if (redirect(*node)) continue;
      if (!in_.at_word()) break;
      const bool assigns = node->words.empty() || declares(node->words.front());
      if (assigns && at_assignment()) {
        node->assignments.push_back(assignment());
        continue;
      }
      node->words.push_back(in_.word());
      if (node->words.size() == 1 && in_.peek() == '(' && node->assignments.empty()) {
        in_.take();
        in_.blanks();
        if (in_.peek() != ')') {
          in_.fail_here("unexpected '('");
          break;
        }
        in_.take();
        return define(node->words[0].parts.empty() ? "" : node->words[0].parts[0].text, node->place);
      }
    }
    node->place = in_.since(node->place);
    return node;
  }

  Program with_redirects(Program inner) {
    auto node = std::make_shared<Node>(*inner);
    while (!in_.failed()) {
      in_.blanks();
      if (!redirect(*node)) break;
    }
    return node;
  }

  /// `2>&1`, `> file`, `<<EOF` …; what is written to is of no interest.
  bool redirect(Node& node) {
    std::size_t i = 0;
    while (std::isdigit(static_cast<unsigned char>(in_.peek(i))) != 0) ++i;
    const bool both = in_.peek(i) == '&' && in_.peek(i + 1) == '>' && i == 0;
    if (!both && in_.peek(i) != '<' && in_.peek(i) != '>') return false;
    if (!both && in_.peek(i + 1) == '(') return false;
    in_.skip(i + (both ? 1 : 0));
    const bool input = in_.peek() == '<';
    in_.take();
    if (input && in_.starts("<<")) {
      in_.skip(2);
      in_.blanks();
      node.input = std::make_shared<RawWord>(in_.word());
      return true;
    }
    if (input && in_.peek() == '<') {
      in_.take();
      const bool tabs = in_.peek() == '-';
      if (tabs) in_.take();
      in_.blanks();
      const RawWord mark = in_.word();
      std::string text;
      bool literal = false;
      for (const Part& part : mark.parts) {
        text += part.text;
        literal = literal || part.quoted;
      }
      auto document = std::make_shared<RawWord>();
      in_.open_document(document, text, literal, tabs);
      node.input = std::move(document);
      return true;
    }
    while (in_.peek() == '>' || in_.peek() == '|' || in_.peek() == '&') in_.take();
    in_.blanks();
    if (in_.at_word()) in_.word();
    return true;
  }

  Scanner in_;
  std::string_view end_;
  int depth_;
  int inner_depth_ = 0;  ///< commands within commands
};

}  // namespace

Result<Parsed> parse_until(std::string_view text, const std::string& file, int line, std::string_view end,
                           int depth, std::optional<std::size_t> base) {
  return Parser(text, file, line, end, depth, base).run();
}

Result<Program> parse_script(std::string_view text, const std::string& file, int first_line) {
  HEADROOM_ASSIGN(Parsed parsed, parse_until(text, file, first_line, "", 0, std::size_t{0}));
  return std::move(parsed.program);
}

}  // namespace headroom::shell
