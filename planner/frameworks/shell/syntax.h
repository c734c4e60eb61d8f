#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "models/base/result.h"
#include "planner/frameworks/shell/word.h"

namespace headroom::shell {

// The tree of a script, as bash's grammar has it. What is parsed here and what it means is in evaluate.h.

struct Node;
using Program = std::shared_ptr<const Node>;

struct RawWord;

/// A piece of a word before expansion.
struct Part {
  enum class Kind {
    text,
    parameter,   ///< $NAME, ${NAME…}
    command,     ///< $(…), `…`, <(…)
    arithmetic,  ///< $((…)): `argument` is the expression, itself expanded first
  };
  Kind kind = Kind::text;
  bool quoted = false;
  std::string text;            ///< the text; a parameter's name; how a command was written
  std::string index = {};      ///< of a parameter: `@`, `*` or an expression; empty: none
  bool length = false;         ///< ${#NAME}
  bool indirect = false;       ///< ${!NAME}
  std::string operation = {};  ///< `:-`, `##`, `//`, `,,`, `:` (a slice) …; empty: the value itself
  std::shared_ptr<const RawWord> argument = {}, second = {};
  Program program = {};
};

/// A word before expansion.
struct RawWord {
  std::vector<Part> parts;
  Place place;
};

struct Assignment {
  std::string name, index;
  bool append = false;  ///< NAME+=…
  bool array = false;
  RawWord value;
  std::vector<RawWord> items;  ///< of an array; `[key]=value` items start with a text part `[key]=`
  Place place;
};

/// A here-document or here-string is what a command reads; other redirections change nothing here.
struct Node {
  enum class Kind {
    simple,
    sequence,    ///< children one after the other
    both,        ///< a && b
    either,      ///< a || b
    negated,     ///< ! a
    pipeline,    ///< a | b | …
    condition,   ///< if: children = test, then; else_
    loop,        ///< while, until (`negate`): children = test, body
    each,        ///< for NAME in words: children = body
    counted,     ///< for ((a; b; c)): words = a, b, c; children = body
    choose,      ///< case words[0] in cases
    group,       ///< { … }
    subshell,    ///< ( … ), and what runs in the background
    test,        ///< [[ … ]]: words
    arithmetic,  ///< (( … )): words[0]
    function,    ///< text = name, children = body
  };
  Kind kind = Kind::simple;
  Place place;
  std::string text;
  std::vector<Assignment> assignments;
  std::vector<RawWord> words;
  std::vector<Program> children;
  Program other;           ///< else
  bool negate = false;     ///< until
  bool has_words = false;  ///< `for` with `in`
  std::shared_ptr<const RawWord> input;
  struct Case {
    std::vector<RawWord> patterns;
    Program body;
    bool falls_through = false;
  };
  std::vector<Case> cases;
};

/// Parses a script. `file` and `first_line` only name places. Errors: FILE:LINE with what was expected (an
/// unclosed quote, `fi` without `if` …), nesting deeper than 100.
Result<Program> parse_script(std::string_view text, const std::string& file, int first_line = 1);

}  // namespace headroom::shell
