#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace headroom::writers {

/// Rows of text in aligned columns. Widths count characters, not bytes, so that bars and accents line up.
class Columns {
 public:
  enum class Align { left, right };

  explicit Columns(std::vector<Align> alignment) : alignment_(std::move(alignment)) {}

  /// Missing cells are empty; there may be no more cells than columns.
  void add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }

  /// Each row on a line after `indent`, cells two blanks apart, without blanks at line ends.
  std::string text(std::string_view indent = "") const;

 private:
  std::vector<Align> alignment_;
  std::vector<std::vector<std::string>> rows_;
};

/// Characters of UTF-8 text as a terminal shows them, leaving out colour sequences (each character counts
/// one).
std::size_t shown_width(std::string_view text);

/// `width` characters of which the part `filled` (0 … 1) is solid.
std::string bar(double filled, int width);

}  // namespace headroom::writers
