#pragma once

#include <string_view>

#include "models/base/result.h"
#include "models/document/document.h"

namespace headroom {

/// A value in the grammar that Hydra's overrides and OmegaConf's resolver arguments share:
///
///   null, true, 12, 1e-6, inf        typed when the whole value is one such word (any letter case)
///   'a, b'  "it's"                   quoted: always a string; \' and \\ inside
///   [a, 2, [b]]  {lr: 1e-6, n: {}}   lists and dicts, nested
///   text with spaces, a/b-c_d:e      everything else is a string; \ escapes , [ ] { } ( ) : = \ and space
///   ${a.b}                           kept as text; resolved later (planner/configuration/interpolation.h)
///   int(3) float(3) str(3) bool(1)   casts
///
/// An empty value is an empty string. Strings come back as quoted scalars, so that `'1'` stays a string.
/// `line` is given to every node. Errors: unclosed brackets or quotes, text after the end, a sweep
/// (`a,b`: one run has one value), nesting deeper than 50, functions other than casts. Linear time.
Result<Document> parse_value(std::string_view text, int line = 0);

/// `value` in the same grammar, on one line: what `key=` may be followed by on a command line (without shell
/// quoting). `parse_value(format_value(x))` equals x.
std::string format_value(const Document& value);

}  // namespace headroom
