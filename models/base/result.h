#pragma once

#include <string>
#include <tl/expected.hpp>
#include <utility>

#include "models/base/error.h"

namespace headroom {

/// A value, or why there is none. Functions inside Headroom do not throw for bad input.
template <typename T>
using Result = tl::expected<T, Error>;

/// Success without a value, or why not.
using Status = tl::expected<void, Error>;

/// An error with only a message: `return fail("expected …, found …");`
inline tl::unexpected<Error> fail(std::string message) {
  return tl::unexpected<Error>(Error{.message = std::move(message), .file = {}, .key = {}});
}

/// An error with its place.
inline tl::unexpected<Error> fail(Error error) {
  return tl::unexpected<Error>(std::move(error));
}

}  // namespace headroom

/// Returns from the enclosing function with the error of `expression`, if it has one.
#define HEADROOM_TRY(expression)                                                      \
  do {                                                                                \
    if (auto headroom_status = (expression); !headroom_status)                        \
      return ::tl::unexpected<::headroom::Error>(std::move(headroom_status).error()); \
  } while (false)

#define HEADROOM_CONCAT_INNER(a, b) a##b
#define HEADROOM_CONCAT(a, b) HEADROOM_CONCAT_INNER(a, b)

/// `HEADROOM_ASSIGN(auto x, f());` — x is the value of f(), or the enclosing function returns its error.
#define HEADROOM_ASSIGN(declaration, expression) \
  HEADROOM_ASSIGN_INNER(HEADROOM_CONCAT(headroom_result_, __LINE__), declaration, expression)
#define HEADROOM_ASSIGN_INNER(name, declaration, expression)                      \
  auto name = (expression);                                                       \
  if (!name) return ::tl::unexpected<::headroom::Error>(std::move(name).error()); \
  declaration = std::move(*name)
