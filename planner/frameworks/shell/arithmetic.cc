#include "planner/frameworks/shell/arithmetic.h"

#include <fmt/format.h>

#include <array>
#include <cctype>
#include <charconv>

namespace headroom::shell {
namespace {

using Number = std::optional<std::int64_t>;

constexpr int kDeepest = 100;

std::int64_t wrapped(std::uint64_t value) {
  return static_cast<std::int64_t>(value);
}

class Expression {
 public:
  Expression(std::string_view text, const ArithmeticScope& scope) : text_(text), scope_(scope) {}

  Result<Number> run() {
    blanks();
    if (at_ == text_.size()) return Number{0};
    const Number value = comma();
    blanks();
    if (error_.empty() && at_ < text_.size())
      error_ = fmt::format("expected an operator, found '{}'", text_.substr(at_, 20));
    if (!error_.empty()) return fail(fmt::format("arithmetic: {}", error_));
    return value;
  }

 private:
  struct Binary {
    std::string_view mark;
    int level;
  };
  // Longer marks first.
  static constexpr auto kBinary = std::to_array<Binary>({{"**", 11},
                                                         {"<<", 8},
                                                         {">>", 8},
                                                         {"<=", 7},
                                                         {">=", 7},
                                                         {"==", 6},
                                                         {"!=", 6},
                                                         {"&&", 2},
                                                         {"||", 1},
                                                         {"*", 10},
                                                         {"/", 10},
                                                         {"%", 10},
                                                         {"+", 9},
                                                         {"-", 9},
                                                         {"<", 7},
                                                         {">", 7},
                                                         {"&", 5},
                                                         {"^", 4},
                                                         {"|", 3}});

  void blanks() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
  }
  bool take(std::string_view mark) {
    blanks();
    if (!text_.substr(at_).starts_with(mark)) return false;
    at_ += mark.size();
    return true;
  }

  Number comma() {
    Number value = choice();
    while (error_.empty() && take(",")) value = choice();
    return value;
  }

  Number choice() {
    if (++depth_ > kDeepest) {
      error_ = "expected at most 100 levels of nesting";
      return {};
    }
    Number value = binary(1);
    if (error_.empty() && take("?")) {
      const Number yes = choice();
      if (!take(":")) error_ = "expected ':' of a choice";
      const Number no = choice();
      value = value ? (*value != 0 ? yes : no) : Number{};
    }
    --depth_;
    return value;
  }

  /// The operator at this place, none when it belongs to an assignment.
  const Binary* next() {
    blanks();
    for (const Binary& one : kBinary) {
      if (!text_.substr(at_).starts_with(one.mark)) continue;
      const char after = at_ + one.mark.size() < text_.size() ? text_[at_ + one.mark.size()] : '\0';
      if (after == '=' && one.level >= 3 && one.level != 6 && one.level != 7) return nullptr;
      return &one;
    }
    return nullptr;
  }

  Number binary(int level) {
    Number left = unary();
    while (error_.empty()) {
      const Binary* mark = next();
      if (mark == nullptr || mark->level < level) return left;
      at_ += mark->mark.size();
      const Number right = binary(mark->mark == "**" ? mark->level : mark->level + 1);
      left = apply(mark->mark, left, right);
    }
    return left;
  }

  Number apply(std::string_view mark, Number left, Number right) {
    // What decides without the other side.
    if (mark == "&&" && ((left && *left == 0) || (right && *right == 0))) return 0;
    if (mark == "||" && ((left && *left != 0) || (right && *right != 0))) return 1;
    if (!left || !right) return {};
    const std::int64_t a = *left, b = *right;
    const auto u = [](std::int64_t value) { return static_cast<std::uint64_t>(value); };
    if (mark == "+") return wrapped(u(a) + u(b));
    if (mark == "-") return wrapped(u(a) - u(b));
    if (mark == "*") return wrapped(u(a) * u(b));
    if (mark == "/" || mark == "%") {
      if (b == 0) {
        error_ = "division by zero";
        return {};
      }
      if (b == -1) return mark == "/" ? wrapped(0 - u(a)) : 0;
      return mark == "/" ? a / b : a % b;
    }
    if (mark == "**") {
      if (b < 0) {
        error_ = "expected an exponent of at least 0";
        return {};
      }
      std::uint64_t power = 1, base = u(a);
      for (std::uint64_t n = u(b); n > 0; n >>= 1, base *= base)
        if (n & 1) power *= base;
      return wrapped(power);
    }
    if (mark == "<<") return wrapped(u(a) << (b & 63));
    if (mark == ">>") return a >> (b & 63);
    if (mark == "<") return a < b;
    if (mark == ">") return a > b;
    if (mark == "<=") return a <= b;
    if (mark == ">=") return a >= b;
    if (mark == "==") return a == b;
    if (mark == "!=") return a != b;
    if (mark == "&") return a & b;
    if (mark == "|") return a | b;
    if (mark == "^") return a ^ b;
    return mark == "&&" ? (a != 0 && b != 0) : (a != 0 || b != 0);
  }

  Number unary() {
    if (++depth_ > kDeepest) {
      error_ = "expected at most 100 levels of nesting";
      return {};
    }
    const Number value = any_unary();
    --depth_;
    return value;
  }

  Number any_unary() {
    blanks();
    const auto with = [](const Number& value, auto&& change) {
      return value ? Number(change(*value)) : Number{};
    };
    for (const std::string_view mark : {"++", "--"})
      if (take(mark)) {
        const std::string name = variable();
        const Number value = with(get(name), [&](std::int64_t v) { return mark == "++" ? v + 1 : v - 1; });
        scope_.set(name, value);
        return value;
      }
    if (take("!")) return with(unary(), [](std::int64_t v) { return std::int64_t{v == 0}; });
    if (take("~")) return with(unary(), [](std::int64_t v) { return ~v; });
    if (take("-"))
      return with(unary(), [](std::int64_t v) { return wrapped(0 - static_cast<std::uint64_t>(v)); });
    if (take("+")) return unary();
    if (take("(")) {
      const Number value = comma();
      if (!take(")")) error_ = "expected )";
      return value;
    }
    if (at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_])) != 0) return number();
    return name();
  }

  Number number() {
    const std::size_t start = at_;
    while (at_ < text_.size() && std::isalnum(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
    const Number value = shell_integer(text_.substr(start, at_ - start));
    if (!value) error_ = fmt::format("expected a number, found '{}'", text_.substr(start, at_ - start));
    return value;
  }

  std::string variable() {
    blanks();
    const std::size_t start = at_;
    while (at_ < text_.size() &&
           (std::isalnum(static_cast<unsigned char>(text_[at_])) != 0 || text_[at_] == '_'))
      ++at_;
    if (at_ == start)
      error_ = start == text_.size() ? "expected a value, found the end"
                                     : fmt::format("expected a value, found '{}'", text_.substr(start, 20));
    if (at_ < text_.size() && text_[at_] == '[') {
      const std::size_t close = text_.find(']', at_);
      if (close == std::string_view::npos) {
        error_ = "expected ]";
      } else {
        at_ = close + 1;
      }
    }
    return std::string(text_.substr(start, at_ - start));
  }

  Number get(const std::string& name) { return error_.empty() ? scope_.get(name) : Number{}; }

  Number name() {
    const std::string variable_name = variable();
    if (!error_.empty()) return {};
    blanks();
    for (const std::string_view mark : {"++", "--"})
      if (take(mark)) {
        const Number before = get(variable_name);
        scope_.set(variable_name, before ? Number(mark == "++" ? *before + 1 : *before - 1) : Number{});
        return before;
      }
    for (const std::string_view mark : {"+=", "-=", "*=", "/=", "%=", "<<=", ">>=", "&=", "|=", "^="})
      if (take(mark)) {
        const Number value = apply(mark.substr(0, mark.size() - 1), get(variable_name), choice());
        if (error_.empty()) scope_.set(variable_name, value);
        return value;
      }
    if (text_.substr(at_).starts_with("=") && !text_.substr(at_).starts_with("==")) {
      ++at_;
      const Number value = choice();
      if (error_.empty()) scope_.set(variable_name, value);
      return value;
    }
    return get(variable_name);
  }

  std::string_view text_;
  const ArithmeticScope& scope_;
  std::size_t at_ = 0;
  int depth_ = 0;
  std::string error_;
};

}  // namespace

Result<Number> arithmetic(std::string_view expression, const ArithmeticScope& scope) {
  return Expression(expression, scope).run();
}

std::optional<std::int64_t> shell_integer(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front())) != 0) text.remove_prefix(1);
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())) != 0) text.remove_suffix(1);
  if (text.empty()) return 0;
  const bool negative = text.front() == '-';
  if (negative || text.front() == '+') text.remove_prefix(1);
  int base = 10;
  if (text.starts_with("0x") || text.starts_with("0X")) {
    base = 16;
    text.remove_prefix(2);
  } else if (text.size() > 1 && text.front() == '0') {
    base = 8;
  }
  std::int64_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (code != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return negative ? -value : value;
}

}  // namespace headroom::shell
