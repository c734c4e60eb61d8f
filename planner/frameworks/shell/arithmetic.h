#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "models/base/result.h"

namespace headroom::shell {

/// The variables of an expression. Values are taken as integers in the shell's way; nothing: not known.
struct ArithmeticScope {
  std::function<std::optional<std::int64_t>(const std::string& name)> get;
  std::function<void(const std::string& name, std::optional<std::int64_t> value)> set;
};

/// The value of an integer expression: C's operators with `**`, assignments, `++`, `--`, `?:` and commas.
/// Nothing when it depends on something unknown. Errors: broken syntax, division by zero, nesting deeper than
/// 100. Overflow wraps as in the shell.
Result<std::optional<std::int64_t>> arithmetic(std::string_view expression, const ArithmeticScope& scope);

/// A variable's text as a number: decimal, 0x…, 0…; an empty text is 0; nothing for anything else.
std::optional<std::int64_t> shell_integer(std::string_view text);

}  // namespace headroom::shell
