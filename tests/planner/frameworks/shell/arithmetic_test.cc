#include "planner/frameworks/shell/arithmetic.h"

#include <gtest/gtest.h>

namespace headroom::shell {
namespace {

std::map<std::string, std::int64_t> variables;

Result<std::optional<std::int64_t>> value(std::string_view expression) {
  ArithmeticScope scope;
  scope.get = [](const std::string& name) -> std::optional<std::int64_t> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
  scope.set = [](const std::string& name, std::optional<std::int64_t> v) {
    if (v) variables[name] = *v;
  };
  return arithmetic(expression, scope);
}

std::int64_t number(std::string_view expression) {
  const auto result = value(expression);
  EXPECT_TRUE(result) << expression;
  return result && *result ? **result : -999;
}

TEST(ShellArithmetic, HasTheShellsPrecedence) {
  variables = {{"n", 8}};
  EXPECT_EQ(number("1 + 2 * 3"), 7);
  EXPECT_EQ(number("(1 + 2) * 3"), 9);
  EXPECT_EQ(number("2 ** 3 ** 2"), 512);
  EXPECT_EQ(number("-2 ** 2"), 4);
  EXPECT_EQ(number("1 << 2 + 1"), 8);
  EXPECT_EQ(number("7 / 2 % 2"), 1);
  EXPECT_EQ(number("n > 4 && n <= 8 ? n * 1024 : 0"), 8192);
  EXPECT_EQ(number("1 | 2 ^ 3 & 1"), 3);
  EXPECT_EQ(number("!0 + ~0"), 0);
  EXPECT_EQ(number("0x10 + 010"), 24);
  EXPECT_EQ(number(""), 0);
}

TEST(ShellArithmetic, SetsVariables) {
  variables = {{"n", 8}};
  EXPECT_EQ(number("n += 2, n++, ++n"), 12);
  EXPECT_EQ(variables["n"], 12);
  EXPECT_EQ(number("m = n / 5"), 2);
  EXPECT_EQ(variables["m"], 2);
}

TEST(ShellArithmetic, DoesNotKnowWhatItIsNotTold) {
  variables = {{"n", 8}};
  EXPECT_FALSE(value("n * unknown")->has_value());
  EXPECT_EQ(number("0 && unknown"), 0);
  EXPECT_EQ(number("1 || unknown"), 1);
}

TEST(ShellArithmetic, RefusesWhatIsNoExpression) {
  for (const char* bad : {"1 +", "(1", "1 / 0", "5 % 0", "2 ** -1", "1 2", "08", "1 ? 2", "a[1"})
    EXPECT_FALSE(value(bad)) << bad;
  EXPECT_FALSE(value(std::string(5000, '(') + "1"));
  EXPECT_FALSE(value(std::string(5000, '-') + "1"));
  EXPECT_EQ(number("9223372036854775807 + 1"), INT64_MIN);  // as the shell does
  EXPECT_EQ(number("(-9223372036854775807 - 1) / -1"), INT64_MIN);
}

}  // namespace
}  // namespace headroom::shell
