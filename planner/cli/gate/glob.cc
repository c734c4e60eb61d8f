#include "planner/cli/gate/glob.h"

#include <cstddef>
#include <vector>

namespace headroom::cli {
namespace {

/// One piece of a pattern: what it takes of a path.
struct Piece {
  enum class Kind { one, any, set, star, deep } kind = Kind::one;
  char character = 0;
  std::string_view set;  ///< between the brackets
};

std::vector<Piece> pieces_of(std::string_view pattern) {
  std::vector<Piece> out;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern.substr(i).starts_with("**/")) {
      out.push_back({Piece::Kind::deep, '/', {}});  // also nothing at all: `**/a` means `a` too
      i += 2;
    } else if (pattern.substr(i).starts_with("**")) {
      out.push_back({Piece::Kind::deep, 0, {}});
      i += 1;
    } else if (pattern[i] == '*') {
      out.push_back({Piece::Kind::star, 0, {}});
    } else if (pattern[i] == '?') {
      out.push_back({Piece::Kind::any, 0, {}});
    } else if (const std::size_t end = pattern.find(']', i + 2);
               pattern[i] == '[' && end != std::string_view::npos) {
      out.push_back({Piece::Kind::set, 0, pattern.substr(i + 1, end - i - 1)});
      i = end;
    } else {
      out.push_back({Piece::Kind::one, pattern[i], {}});
    }
  }
  return out;
}

bool in_set(std::string_view set, char c) {
  const bool not_in = set.starts_with('!') || set.starts_with('^');
  if (not_in) set.remove_prefix(1);
  bool found = false;
  for (std::size_t i = 0; i < set.size(); ++i) {
    if (i + 2 < set.size() && set[i + 1] == '-') {
      found = found || (set[i] <= c && c <= set[i + 2]);
      i += 2;
    } else {
      found = found || set[i] == c;
    }
  }
  return found != not_in;
}

bool takes(const Piece& piece, char c) {
  switch (piece.kind) {
    case Piece::Kind::one:
      return piece.character == c;
    case Piece::Kind::any:
      return c != '/';
    case Piece::Kind::set:
      return c != '/' && in_set(piece.set, c);
    default:
      return false;
  }
}

}  // namespace

bool is_pattern(std::string_view text) {
  return text.find_first_of("*?[") != std::string_view::npos;
}

bool matches(std::string_view pattern, std::string_view path) {
  const std::vector<Piece> pieces = pieces_of(pattern);
  // reached[i]: the path so far can be taken by the first i pieces.
  std::vector<bool> reached(pieces.size() + 1, false);
  const auto skip_empty = [&](bool at_part) {
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      const Piece& piece = pieces[i];
      const bool empty = piece.kind == Piece::Kind::star ||
                         (piece.kind == Piece::Kind::deep && (piece.character == 0 || at_part));
      if (reached[i] && empty) reached[i + 1] = true;
    }
  };
  reached[0] = true;
  skip_empty(true);
  for (const char c : path) {
    std::vector<bool> next(pieces.size() + 1, false);
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      if (!reached[i]) continue;
      const Piece& piece = pieces[i];
      if (piece.kind == Piece::Kind::deep || (piece.kind == Piece::Kind::star && c != '/')) {
        next[i] = true;
      } else if (takes(piece, c)) {
        next[i + 1] = true;
      }
    }
    reached = std::move(next);
    skip_empty(c == '/');
  }
  return reached[pieces.size()];
}

}  // namespace headroom::cli
