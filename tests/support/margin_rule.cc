#include "tests/support/margin_rule.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <sstream>
#include <vector>

#include "models/base/bytes.h"

namespace headroom::test {
namespace {

constexpr double kTimes = 2;
constexpr double kFloor = 0.025, kEngine = 0.01;             // of the card
constexpr Bytes kFloorBytes = 256 << 20, kStep = 256 << 20;  // steps that sizes are rounded up to
constexpr Bytes kEngineBytes = 512 << 20;
constexpr double kMost = 0.03, kMostEngine = 0.05;
constexpr Bytes kMostBytes = kGiB, kMostEngineBytes = 2 * kGiB;

std::vector<std::string> cells_of(const std::string& line) {
  std::vector<std::string> cells;
  std::istringstream text(line);
  for (std::string cell; std::getline(text, cell, '|');) {
    cell.erase(0, cell.find_first_not_of(' '));
    cell.erase(cell.find_last_not_of(' ') + 1);
    cells.push_back(cell);
  }
  return cells;
}

bool read(const std::string& cell, Bytes& number) {
  const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), number);
  return error == std::errc{} && end == cell.data() + cell.size();
}

struct Worst {
  int phases = 0;
  double part = 0;
  Bytes bytes = 0;
};

/// Rows of a phase: | step | phase | allocated, predicted | measured | % | reserved, predicted | measured | …
Worst worst_of(const std::string& accuracy) {
  Worst worst;
  std::istringstream lines(accuracy);
  for (std::string line; std::getline(lines, line);) {
    const std::vector<std::string> cells = cells_of(line);
    Bytes step = 0, predicted = 0, measured = 0;
    if (cells.size() < 10 || cells[2].rfind("init", 0) == 0) continue;
    if (!read(cells[1], step) || !read(cells[6], predicted) || !read(cells[7], measured)) continue;
    ++worst.phases;
    worst.bytes = std::max(worst.bytes, measured - predicted);
    worst.part = std::max(worst.part, 1 - static_cast<double>(predicted) / static_cast<double>(measured));
  }
  return worst;
}

}  // namespace

Result<std::string> margins_yaml(const std::string& accuracy) {
  const Worst worst = worst_of(accuracy);
  if (worst.phases == 0) return fail("expected tables of phases, found none");
  const double part = std::max(kFloor, std::ceil(200 * kTimes * worst.part) / 200);
  const auto twice = static_cast<Bytes>(kTimes * static_cast<double>(worst.bytes));
  const Bytes bytes = std::max(kFloorBytes, (twice + kStep - 1) / kStep * kStep);
  if (part > kMost || bytes > kMostBytes || part + kEngine > kMostEngine ||
      bytes + kEngineBytes > kMostEngineBytes)
    return fail("the errors are beyond the bounds of a margin");
  std::string out =
      "# What is kept free of a card for prediction error, by kind of phase: the larger of a part of the "
      "card "
      "and a size.\n"
      "# Twice the worst reserved peak in docs/ACCURACY.md that was predicted too low, and at least 2.5 % "
      "and "
      "256 MiB;\n"
      "# where a rollout engine is awake 1 % and 512 MiB more. Bounds: at most max(3 %, 1 GiB), with an "
      "engine "
      "max(5 %, 2 GiB).\n"
      "# Made by docs/regenerate_margins.sh; the reasons stand in tests/support/margin_rule.h.\n";
  out += fmt::format("default: {{fraction: {:g}, bytes: {}MiB}}\n", part, bytes >> 20);
  out +=
      fmt::format("engine: {{fraction: {:g}, bytes: {}MiB}}\n", part + kEngine, (bytes + kEngineBytes) >> 20);
  out += "phases:\n";
  for (const char* phase : {"engine_init", "generate", "weight_sync", "wake", "validate"})
    out += fmt::format("  {}: engine\n", phase);
  return out;
}

}  // namespace headroom::test
