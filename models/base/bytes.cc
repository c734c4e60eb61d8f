#include "models/base/bytes.h"

#include <fmt/format.h>

#include <array>
#include <cctype>
#include <charconv>
#include <cmath>

namespace headroom {
namespace {

struct Unit {
  std::string_view name;
  double factor;
};

/// A letter alone counts as the schedulers and containers of such runs count it (Slurm, Docker): by 1024.
constexpr std::array kUnits = {
    Unit{"K", 1024.0},      Unit{"M", 1048576.0},      Unit{"G", 1073741824.0}, Unit{"T", 1099511627776.0},
    Unit{"B", 1.0},         Unit{"KB", 1e3},           Unit{"MB", 1e6},
    Unit{"GB", 1e9},        Unit{"TB", 1e12},          Unit{"KiB", 1024.0},
    Unit{"MiB", 1048576.0}, Unit{"GiB", 1073741824.0}, Unit{"TiB", 1099511627776.0},
};

bool same(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i)
    if (std::tolower(static_cast<unsigned char>(a[i])) != std::tolower(static_cast<unsigned char>(b[i])))
      return false;
  return true;
}

}  // namespace

Result<Bytes> parse_bytes(std::string_view text) {
  const auto bad = [&](std::string_view why) {
    return fail(fmt::format("expected a size with its unit such as 80GiB or 80GB, found '{}'{}", text, why));
  };
  double number = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (code != std::errc{} || !std::isfinite(number)) return bad("");
  if (number < 0) return bad(" (negative)");
  std::string_view unit(end, static_cast<size_t>(text.data() + text.size() - end));
  while (!unit.empty() && unit.front() == ' ') unit.remove_prefix(1);
  if (unit.empty()) return bad(" (no unit)");
  for (const Unit& known : kUnits) {
    if (!same(unit, known.name)) continue;
    const double bytes = std::round(number * known.factor);
    if (bytes >= 9.2e18) return bad(" (too large)");
    return static_cast<Bytes>(bytes);
  }
  return bad(" (unknown unit)");
}

std::string format_gib(Bytes bytes) {
  return fmt::format("{:.2f} GiB", static_cast<double>(bytes) / static_cast<double>(kGiB));
}

std::string format_bytes(Bytes bytes) {
  const double value = std::abs(static_cast<double>(bytes));
  if (value < 1024) return fmt::format("{} B", bytes);
  const char* const names[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double scaled = static_cast<double>(bytes) / 1024;
  int unit = 0;
  while (std::abs(scaled) >= 1024 && unit < 5) scaled /= 1024, ++unit;
  return fmt::format("{:.2f} {}", scaled, names[unit]);
}

}  // namespace headroom
