#include "planner/cli/ascii.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace headroom::cli {

std::string in_ascii(std::string_view text) {
  using Sign = std::pair<std::string_view, std::string_view>;
  static constexpr Sign kSigns[] = {{"…", "..."}, {"×", "x"},  {"·", "-"},  {"→", "->"}, {"–", "-"}, {"—", "-"},
                                    {"−", "-"},   {"█", "#"},  {"░", "."},  {"▏", "|"},  {"≤", "<="}, {"≥", ">="},
                                    {"µ", "u"},   {"²", "^2"}, {"³", "^3"}, {"±", "+-"}, {"÷", "/"}, {"’", "'"}};
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    if (static_cast<unsigned char>(text[i]) < 0x80) {
      out += text[i++];
      continue;
    }
    const auto* sign = std::find_if(std::begin(kSigns), std::end(kSigns),
                                    [&](const Sign& one) { return text.substr(i).starts_with(one.first); });
    const bool known = sign != std::end(kSigns);
    out += known ? sign->second : text.substr(i, 1);
    i += known ? sign->first.size() : 1;
  }
  return out;
}

}  // namespace headroom::cli
