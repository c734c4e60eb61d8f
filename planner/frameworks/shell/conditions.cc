#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "planner/frameworks/shell/arithmetic.h"
#include "planner/frameworks/shell/interpreter.h"
#include "models/base/pattern.h"

namespace headroom::shell {
namespace {

constexpr auto kComparisons = std::to_array<std::string_view>(
    {"=", "==", "!=", "<", ">", "=~", "-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-ef", "-nt", "-ot"});

bool compares(std::string_view mark) {
  return std::find(kComparisons.begin(), kComparisons.end(), mark) != kComparisons.end();
}

Truth both(Truth a, Truth b) {
  if (a == Truth::no || b == Truth::no) return Truth::no;
  return a == Truth::unknown || b == Truth::unknown ? Truth::unknown : Truth::yes;
}

/// What nothing sets is empty in a test.
Word settled(const Word& word) {
  Word out;
  out.place = word.place;
  std::size_t at = 0;
  for (const Unknown& part : word.unknown) {
    out.append(std::string_view(word.text).substr(at, part.at - at));
    at = part.at + part.size;
    if (part.unset) continue;
    Unknown kept = part;
    kept.at = out.text.size();
    out.append(std::string_view(word.text).substr(part.at, part.size));
    out.unknown.push_back(std::move(kept));
  }
  out.append(std::string_view(word.text).substr(std::min(at, word.text.size())));
  return out;
}

/// Whether a regular expression is plain text with anchors; its text then.
std::optional<std::string> plain_expression(std::string_view expression, bool& start, bool& end) {
  start = expression.starts_with('^');
  if (start) expression.remove_prefix(1);
  end = expression.ends_with('$');
  if (end) expression.remove_suffix(1);
  if (expression.find_first_of("^$.*+?()[]{}|") != std::string_view::npos) return std::nullopt;
  std::string out;
  for (const char c : expression)
    if (c != '\\') out += c;
  return out;
}

}  // namespace

/// Recursive descent over the operands of a test.
class Conditions {
 public:
  Conditions(Interpreter& shell, const std::vector<Operand>& operands, const Place& place,
             bool double_brackets)
      : shell_(shell), operands_(operands), place_(place), double_(double_brackets) {}

  Truth run() {
    if (operands_.empty()) return Truth::no;
    const Truth truth = either();
    return at_ < operands_.size() ? Truth::unknown : truth;
  }

 private:
  bool is(std::string_view mark) const { return at_ < operands_.size() && operands_[at_].mark == mark; }

  Truth either() {
    Truth truth = all();
    while (is("||") || is("-o")) {
      ++at_;
      truth = opposite(both(opposite(truth), opposite(all())));
    }
    return truth;
  }

  Truth all() {
    Truth truth = one();
    while (is("&&") || is("-a")) {
      ++at_;
      truth = both(truth, one());
    }
    return truth;
  }

  Truth one() {
    if (++depth_ > 100) return Truth::unknown;
    const Truth truth = any();
    --depth_;
    return truth;
  }

  Truth any() {
    const std::size_t left = operands_.size() - at_;
    if (left == 0) return Truth::no;
    if (left >= 3 && compares(operands_[at_ + 1].mark)) return comparison();
    if (is("!") && left > 1) {
      ++at_;
      return opposite(one());
    }
    if (is("(") && left > 2) {
      ++at_;
      const Truth truth = either();
      if (is(")")) ++at_;
      return truth;
    }
    const std::string& mark = operands_[at_].mark;
    if (left >= 2 && mark.size() == 2 && mark[0] == '-') return unary(mark[1]);
    const Word word = settled(operands_[at_++].value);
    return word.known()                              ? as_truth(!word.text.empty())
           : word.text.size() > word.unknown[0].size ? Truth::yes
                                                     : Truth::unknown;
  }

  Truth unary(char what) {
    const Word word = settled(operands_[at_ + 1].value);
    at_ += 2;
    switch (what) {
      case 'z':
      case 'n': {
        Truth empty = word.known() ? as_truth(word.text.empty()) : Truth::unknown;
        std::size_t unknown = 0;
        for (const Unknown& part : word.unknown) unknown += part.size;
        if (!word.known() && word.text.size() > unknown) empty = Truth::no;
        return what == 'z' ? empty : opposite(empty);
      }
      case 'v':
        return as_truth(shell_.value(word.text, "", place_).has_value());
      case 'f':
      case 'd':
      case 'e':
      case 's':
      case 'r':
        return shell_.file_test(word);
      default:
        return Truth::unknown;
    }
  }

  Truth comparison() {
    const Operand& a = operands_[at_];
    const std::string mark = operands_[at_ + 1].mark;
    const Operand& b = operands_[at_ + 2];
    at_ += 3;
    const Word left = settled(a.value), right = settled(b.value);
    if (!left.known() || !right.known()) return Truth::unknown;
    if (mark == "==" || mark == "=")
      return as_truth(double_ ? matches(b.pattern, left.text, PatternOf::text) : left.text == right.text);
    if (mark == "!=")
      return as_truth(double_ ? !matches(b.pattern, left.text, PatternOf::text) : left.text != right.text);
    if (mark == "<") return as_truth(left.text < right.text);
    if (mark == ">") return as_truth(left.text > right.text);
    if (mark == "=~") return expression(left.text, right.text);
    const auto x = shell_.number(left, place_, nullptr), y = shell_.number(right, place_, nullptr);
    if (!x || !y) return Truth::unknown;
    if (mark == "-eq") return as_truth(*x == *y);
    if (mark == "-ne") return as_truth(*x != *y);
    if (mark == "-lt") return as_truth(*x < *y);
    if (mark == "-le") return as_truth(*x <= *y);
    if (mark == "-gt") return as_truth(*x > *y);
    if (mark == "-ge") return as_truth(*x >= *y);
    return Truth::unknown;
  }

  static Truth expression(const std::string& text, const std::string& expression) {
    if (expression == "^[0-9]+$")
      return as_truth(!text.empty() && text.find_first_not_of("0123456789") == std::string::npos);
    bool start = false, end = false;
    const auto plain = plain_expression(expression, start, end);
    if (!plain) return Truth::unknown;
    if (start && end) return as_truth(text == *plain);
    if (start) return as_truth(text.starts_with(*plain));
    if (end) return as_truth(text.ends_with(*plain));
    return as_truth(text.find(*plain) != std::string::npos);
  }

  Interpreter& shell_;
  const std::vector<Operand>& operands_;
  const Place& place_;
  bool double_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

Truth Interpreter::file_test(const Word& path) const {
  if (path.known() && path.text.empty()) return Truth::no;
  if (!path.known() || !context_.file) return Truth::unknown;
  return context_.file(path.text) ? Truth::yes : Truth::unknown;  // it may be there where the run starts
}

Truth Interpreter::judge(const std::vector<Operand>& operands, const Place& place, bool double_brackets) {
  return Conditions(*this, operands, place, double_brackets).run();
}

Truth Interpreter::test(const Node& node) {
  std::vector<Operand> operands;
  const bool outer = std::exchange(testing_, true);
  for (const RawWord& word : node.words) {
    Operand& operand = operands.emplace_back();
    operand.value = joined(word);
    operand.pattern = pattern(word);
    if (word.parts.size() == 1 && word.parts[0].kind == Part::Kind::text && !word.parts[0].quoted)
      operand.mark = word.parts[0].text;
  }
  testing_ = outer;
  return judge(operands, node.place, true);
}

Truth Interpreter::test(std::vector<Word> words, const Place& place) {
  std::vector<Operand> operands;
  for (Word& word : words) {
    Operand& operand = operands.emplace_back();
    if (word.known()) operand.mark = word.text;
    operand.value = std::move(word);
  }
  return judge(operands, place, false);
}

}  // namespace headroom::shell
