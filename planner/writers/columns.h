#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace headroom::writers {

/// Rows of text in aligned columns. Widths count characters, not bytes, so that bars and accents line up.
class Columns {
 public:
  enum class Align { left, right };

  explicit Columns(std::vector<Align> alignment) : alignment_(std::move(alignment)) {}

  /// Missing cells are empty; there may be no more cells than columns. What a terminal would obey is escaped.
  void add(std::vector<std::string> cells);
  /// The same of cells that hold colours and no text of others.
  void add_coloured(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }

  /// Leaves columns out, those of these titles (the first row's) first to last, until lines take no more than `width`
  /// characters after `indent`. 0: nothing is left out.
  void fit(int width, std::string_view indent, std::span<const std::string_view> titles);

  /// Each row on a line after `indent`, cells two blanks apart, without blanks at line ends.
  std::string text(std::string_view indent = "") const;

 private:
  std::vector<std::size_t> widths() const;

  std::vector<Align> alignment_;
  std::vector<std::vector<std::string>> rows_;
};

/// Characters of UTF-8 text as a terminal shows them, leaving out colour sequences (each character counts
/// one).
std::size_t shown_width(std::string_view text);

/// Lines of more than `width` characters broken between words; what follows a break is indented as the text behind a
/// line's mark (`! `, `  - `). 0: as it is.
std::string wrapped(std::string_view text, int width);

/// `width` characters of which the part `filled` (0 … 1) is solid.
std::string bar(double filled, int width);

}  // namespace headroom::writers
