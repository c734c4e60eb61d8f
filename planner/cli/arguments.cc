#include "planner/cli/arguments.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>

namespace headroom::cli {
namespace {

constexpr std::int64_t kMostGpus = 1'000'000;

tl::unexpected<Error> flag_error(std::string_view flag, std::string message) {
  return fail(Error{.message = std::move(message), .file = {}, .key = std::string(flag)});
}

std::optional<double> read_double(const std::string& text) {
  if (text.empty() || std::isspace(static_cast<unsigned char>(text.front()))) return {};
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (end != text.c_str() + text.size() || !std::isfinite(value)) return {};
  return value;
}

}  // namespace

Result<Limit> parse_limit(std::string_view text) {
  Limit limit;
  if (const auto equals = text.find('='); equals != std::string_view::npos) {
    limit.pool = std::string(text.substr(0, equals));
    text.remove_prefix(equals + 1);
    if (limit.pool.empty()) return fail("expected POOL=SIZE, found no pool name before '='");
  }
  const bool percent = !text.empty() && text.back() == '%';
  const std::string digits(percent ? text.substr(0, text.size() - 1) : text);
  if (const std::optional<double> number = read_double(digits)) {
    limit.fraction = percent ? *number / 100 : *number;
    if (limit.fraction > 0 && limit.fraction <= 1) return limit;
    return fail(
        fmt::format("expected a size with its unit (76GiB) or a part of the card (0.9), found '{}'", text));
  }
  HEADROOM_ASSIGN(const Bytes bytes, parse_bytes(text));
  limit.bytes = bytes;
  return limit;
}

const std::vector<std::string>& Arguments::all(std::string_view name) const {
  static const std::vector<std::string> none;
  const auto found = values_.find(name);
  return found == values_.end() ? none : found->second;
}

std::optional<std::string> Arguments::find(std::string_view name) const {
  const std::vector<std::string>& values = all(name);
  if (values.empty()) return {};
  return values.back();
}

std::string Arguments::text(std::string_view name, std::string_view fallback) const {
  return find(name).value_or(std::string(fallback));
}

Result<std::optional<std::int64_t>> Arguments::integer(std::string_view name, std::int64_t low,
                                                       std::int64_t high) const {
  const std::optional<std::string> value = find(name);
  if (!value) return std::optional<std::int64_t>{};
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(value->data(), value->data() + value->size(), number);
  if (error != std::errc{} || end != value->data() + value->size() || number < low || number > high)
    return flag_error(name,
                      fmt::format("expected a whole number from {} to {}, found '{}'", low, high, *value));
  return std::optional<std::int64_t>{number};
}

Result<std::optional<double>> Arguments::number(std::string_view name, double low, double high) const {
  const std::optional<std::string> value = find(name);
  if (!value) return std::optional<double>{};
  const std::optional<double> number = read_double(*value);
  if (!number || *number < low || *number > high)
    return flag_error(name, fmt::format("expected a number from {} to {}, found '{}'", low, high, *value));
  return number;
}

Result<std::optional<Bytes>> Arguments::bytes(std::string_view name) const {
  const std::optional<std::string> value = find(name);
  if (!value) return std::optional<Bytes>{};
  const Result<Bytes> bytes = parse_bytes(*value);
  if (!bytes) return flag_error(name, bytes.error().message);
  return std::optional<Bytes>{*bytes};
}

Result<Common> read_common(const Arguments& arguments) {
  Common common;
  common.framework = arguments.find("--framework");
  common.model = arguments.find("--model");
  common.overrides = arguments.all("--set");
  common.include_paths = arguments.all("--include-path");
  for (const std::string& text : arguments.all("--env")) {
    const std::size_t equals = text.find('=');
    if (equals == 0 || equals == std::string::npos)
      return flag_error("--env", fmt::format("expected NAME=VALUE, found '{}'", text));
    common.environment[text.substr(0, equals)] = text.substr(equals + 1);
  }
  common.words = arguments.all("--");
  common.gpu = arguments.find("--gpu");
  HEADROOM_ASSIGN(common.nodes, arguments.integer("--nodes", 1, kMostGpus));
  HEADROOM_ASSIGN(common.gpus_per_node, arguments.integer("--gpus-per-node", 1, kMostGpus));
  HEADROOM_ASSIGN(const std::optional<std::int64_t> steps, arguments.integer("--steps", 1, 1000));
  if (steps) common.steps = static_cast<int>(*steps);
  common.lengths = arguments.find("--lengths");
  HEADROOM_ASSIGN(const std::optional<double> beside, arguments.number("--other-seconds", 0, 1e6));
  common.other_seconds = beside.value_or(0);
  for (const std::string& text : arguments.all("--budget")) {
    Result<Limit> limit = parse_limit(text);
    if (!limit) return flag_error("--budget", limit.error().message);
    if (limit->bytes == 0)
      return flag_error("--budget", fmt::format("expected more than nothing, found '{}'", text));
    const bool twice = std::any_of(common.budgets.begin(), common.budgets.end(),
                                   [&](const Limit& other) { return other.pool == limit->pool; });
    if (twice) return flag_error("--budget", "expected one value a pool, found several; leave one out");
    common.budgets.push_back(*limit);
  }
  HEADROOM_ASSIGN(common.host_budget, arguments.bytes("--host-budget"));
  if (common.host_budget == 0)
    return flag_error("--host-budget",
                      fmt::format("expected more than nothing, found '{}'", arguments.text("--host-budget")));
  if (const auto text = arguments.find("--margin")) {
    Result<Limit> margin = *text == "0" ? Result<Limit>(Limit{.pool = {}, .bytes = 0}) : parse_limit(*text);
    if (!margin) return flag_error("--margin", margin.error().message);
    common.margin = *margin;
  }
  for (auto [flag, place] : {std::pair{"--json", &common.json}, std::pair{"--html", &common.html},
                             std::pair{"--csv", &common.csv}, std::pair{"--markdown", &common.markdown}})
    *place = arguments.find(flag);
  common.quiet = arguments.has("--quiet");
  common.every_phase = arguments.has("--all");
  return common;
}

}  // namespace headroom::cli
