#include "planner/writers/saved.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "models/base/printable.h"
#include "planner/writers/table.h"

namespace headroom::writers {
namespace {

constexpr std::size_t kFiguresShown = 3;

}  // namespace

std::string saved_text(std::vector<std::pair<std::string, Bytes>> saved) {
  std::vector<std::pair<std::string, std::vector<std::string>>> groups;
  std::stable_sort(saved.begin(), saved.end(),
                   [](const auto& a, const auto& b) { return std::abs(a.second) > std::abs(b.second); });
  for (const auto& [phase, bytes] : saved) {
    if (groups.empty() || groups.back().first != gib(bytes)) groups.emplace_back(gib(bytes), std::vector<std::string>{});
    groups.back().second.push_back(phase);
  }
  std::string out;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    if (i == kFiguresShown) return out + " …";
    const auto& [figure, phases] = groups[i];
    out += fmt::format("{}{} {}", i == 0 ? "" : ", ", figure, phases.front());
    if (phases.size() > 1) out += fmt::format(" and {} more", phases.size() - 1);
  }
  return out;
}

std::string would_fit_text(std::span<const search::Would> would) {
  std::string out = would.empty() ? "" : "What would, all else as it is:\n";
  for (const search::Would& one : would)
    out += fmt::format("  - {}: {} to spare in {}\n", printable(one.what), format_gib(one.outcome.spare),
                       one.outcome.limiting_phase);
  return out;
}

}  // namespace headroom::writers
