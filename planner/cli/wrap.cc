#include "planner/cli/wrap.h"

#include <algorithm>
#include <vector>

namespace headroom::cli {
namespace {

constexpr std::size_t kFurtherIn = 4;

/// A stretch of a line without spaces, and where it begins: in bytes, and in characters as shown.
struct Word {
  std::size_t first = 0, last = 0, column = 0, characters = 0;
};

/// Bytes of a colour's escape at `at`; 0 where there is none.
std::size_t escape_at(std::string_view line, std::size_t at) {
  if (!line.substr(at).starts_with("\x1b[")) return 0;
  const std::size_t end = line.find_first_not_of("0123456789;", at + 2);
  return end == std::string_view::npos ? line.size() - at : end + 1 - at;
}

std::vector<Word> words_of(std::string_view line) {
  std::vector<Word> out;
  std::size_t column = 0;
  bool open = false;
  for (std::size_t i = 0; i < line.size();) {
    const std::size_t escape = escape_at(line, i);
    const bool space = line[i] == ' ';
    if (!space && !open) out.push_back({i, i, column, 0});
    open = !space;
    const bool counts = escape == 0 && (static_cast<unsigned char>(line[i]) & 0xC0) != 0x80;
    if (counts) ++column;
    i += std::max<std::size_t>(escape, 1);
    if (open) {
      out.back().last = i;
      out.back().characters += counts ? 1 : 0;
    }
  }
  return out;
}

/// Where a line goes on.
std::size_t hanging(const std::vector<Word>& words, std::size_t width) {
  std::size_t gaps = 0, under = 0;
  for (std::size_t i = 1; i < words.size(); ++i) {
    if (words[i].column < words[i - 1].column + words[i - 1].characters + 2) continue;
    ++gaps;
    under = words[i].column;
  }
  if (gaps == 1 && under <= 2 * width / 3) return under;
  return std::min(words.front().column + kFurtherIn, width / 2);
}

void wrap_line(std::string_view line, std::size_t width, std::string& out) {
  const std::vector<Word> words = words_of(line);
  if (words.empty() || words.back().column + words.back().characters <= width) {
    out += line;
    return;
  }
  const std::size_t indent = hanging(words, width);
  std::size_t moved = 0;  // columns by which what follows stands further left
  for (std::size_t i = 0; i < words.size(); ++i) {
    const Word& word = words[i];
    const std::size_t begins = i == 0 ? 0 : words[i - 1].last;
    const bool fits = word.column - moved + word.characters <= width;
    if (i > 0 && !fits && word.column - moved > indent) {
      out += "\n" + std::string(indent, ' ');
      moved = word.column - indent;
    } else {
      out += line.substr(begins, word.first - begins);
    }
    out += line.substr(word.first, word.last - word.first);
  }
}

}  // namespace

std::string wrapped(std::string_view text, std::size_t width) {
  std::string out;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    wrap_line(text.substr(0, end), width, out);
    if (end < text.size()) out += '\n';
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

}  // namespace headroom::cli
