#include "models/base/nearest.h"

#include <algorithm>
#include <cctype>
#include <limits>
#include <numeric>
#include <vector>

namespace headroom {
namespace {

bool same_letter(char a, char b) {
  return std::tolower(static_cast<unsigned char>(a)) == std::tolower(static_cast<unsigned char>(b));
}

}  // namespace

int edit_distance(std::string_view a, std::string_view b) {
  std::vector<int> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (size_t i = 0; i < a.size(); ++i) {
    int diagonal = row[0];
    row[0] = static_cast<int>(i) + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const int replaced = diagonal + (same_letter(a[i], b[j]) ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

int length_difference(std::string_view a, std::string_view b) {
  return static_cast<int>(std::max(a.size(), b.size()) - std::min(a.size(), b.size()));
}

std::string nearest(std::string_view text, std::span<const std::string_view> candidates) {
  std::string_view best;
  int best_distance = std::numeric_limits<int>::max();
  for (std::string_view candidate : candidates) {
    const int allowed = std::max<int>(2, static_cast<int>(std::max(text.size(), candidate.size())) / 3);
    if (length_difference(text, candidate) > allowed) continue;
    const int distance = edit_distance(text, candidate);
    if (distance <= allowed && distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return std::string(best);
}

}  // namespace headroom
