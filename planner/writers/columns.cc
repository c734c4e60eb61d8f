#include "planner/writers/columns.h"

#include <algorithm>
#include <cmath>

#include "models/base/printable.h"

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

void Columns::add(std::vector<std::string> cells) {
  for (std::string& cell : cells) cell = printable(cell);
  rows_.push_back(std::move(cells));
}

std::vector<std::size_t> Columns::widths() const {
  std::vector<std::size_t> out(alignment_.size(), 0);
  for (const auto& row : rows_)
    for (std::size_t i = 0; i < row.size(); ++i) out[i] = std::max(out[i], shown_width(row[i]));
  return out;
}

void Columns::fit(int width, std::string_view indent, std::span<const std::string_view> titles) {
  if (width == 0 || rows_.empty()) return;
  for (const std::string_view title : titles) {
    std::size_t taken = indent.size() - 2;
    for (const std::size_t one : widths()) taken += one == 0 ? 0 : one + 2;
    if (taken <= static_cast<std::size_t>(width)) return;
    const auto found = std::find(rows_.front().begin(), rows_.front().end(), title);
    if (found == rows_.front().end()) continue;
    const auto column = found - rows_.front().begin();
    alignment_.erase(alignment_.begin() + column);
    for (std::vector<std::string>& row : rows_)
      if (static_cast<std::ptrdiff_t>(row.size()) > column) row.erase(row.begin() + column);
  }
}

std::string Columns::text(std::string_view indent) const {
  const std::vector<std::size_t> widths = this->widths();
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

std::string wrapped(std::string_view text, int width) {
  if (width == 0) return std::string(text);
  std::string out;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    const std::size_t mark = line.find_first_not_of(" -!");
    const std::size_t indent = mark == std::string_view::npos ? 0 : mark;
    std::size_t taken = 0;
    for (std::size_t at = 0; at < line.size();) {
      std::size_t next = line.find(' ', std::max(at, indent));
      if (next == std::string_view::npos) next = line.size();
      const std::string_view word = line.substr(at, next - at);
      const std::size_t size = shown_width(word);
      if (taken > indent && taken + 1 + size > static_cast<std::size_t>(width)) {
        out += "\n" + std::string(indent, ' ');
        taken = indent;
      } else if (taken > 0) {
        out += ' ';
        ++taken;
      }
      out += word;
      taken += size;
      at = next + 1;
    }
    if (end < text.size()) out += '\n';
    text.remove_prefix(std::min(end + 1, text.size()));
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
