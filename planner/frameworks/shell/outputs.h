#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/frameworks/shell/word.h"

namespace headroom::shell {

/// What the program `name` prints, where that follows from its words and its input: echo, printf, dirname,
/// basename, realpath, seq, expr, and tr, cut, wc, head, tail, cat of a known input. Nothing when it does
/// not.
std::optional<Word> known_output(const std::string& name, const std::vector<Word>& words, const Word* input,
                                 const std::string& directory, const Place& place);

/// `path` as seen from `directory`, with `.` and `..` resolved.
std::string joined_path(const std::string& directory, const std::string& path);

}  // namespace headroom::shell
