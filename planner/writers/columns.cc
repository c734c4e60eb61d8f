#include "planner/writers/columns.h"

#include <algorithm>
#include <cmath>

namespace headroom::writers {

std::size_t shown_width(std::string_view text) {
  std::size_t width = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\x1b') {
      i = std::min(text.find('m', i), text.size() - 1);
      continue;
    }
    if ((static_cast<unsigned char>(text[i]) & 0xC0) != 0x80) ++width;  // not a continuation byte
  }
  return width;
}

std::string Columns::text(std::string_view indent) const {
  std::vector<std::size_t> widths(alignment_.size(), 0);
  for (const auto& row : rows_)
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], shown_width(row[i]));
  std::string out;
  for (const auto& row : rows_) {
    std::string line(indent);
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (i > 0) line += "  ";
      const std::string padding(widths[i] - shown_width(row[i]), ' ');
      line += alignment_[i] == Align::left ? row[i] + padding : padding + row[i];
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

std::string bar(double filled, int width) {
  const int solid = std::clamp(static_cast<int>(std::lround(filled * width)), 0, width);
  std::string out;
  for (int i = 0; i < width; ++i) out += i < solid ? "█" : "░";
  return out;
}

}  // namespace headroom::writers
