#include "planner/search/space.h"

#include <fmt/format.h>

#include <algorithm>

#include "models/base/nearest.h"

namespace headroom::search {
namespace {

constexpr std::size_t kMostValues = 1000;

/// `KNOB` or `KNOB=VALUE,VALUE…`.
struct Request {
  std::string knob;
  std::vector<std::string> values;
};

Request parse_request(const std::string& text) {
  const std::size_t equals = text.find('=');
  Request request{text.substr(0, equals), {}};
  if (equals == std::string::npos) return request;
  for (std::size_t start = equals + 1; start <= text.size();) {
    const std::size_t end = std::min(text.find(',', start), text.size());
    request.values.push_back(text.substr(start, end - start));
    start = end + 1;
  }
  return request;
}

tl::unexpected<Error> request_error(const char* flag, std::string message) {
  return fail(Error{.message = std::move(message), .file = {}, .key = flag});
}

Result<std::size_t> find_knob(std::span<const Knob> knobs, const std::string& name, const char* flag) {
  std::vector<std::string_view> names;
  for (std::size_t i = 0; i < knobs.size(); ++i) {
    if (knobs[i].name == name) return i;
    names.push_back(knobs[i].name);
  }
  const std::string near = nearest(name, names);
  std::string known;
  for (const std::string_view one : names) known += (known.empty() ? "" : ", ") + std::string(one);
  return request_error(flag,
                       fmt::format("unknown knob '{}'{}; this run has: {}", name,
                                   near.empty() ? "" : fmt::format(", did you mean '{}'?", near), known));
}

Status check_values(const Knob& knob, const Request& request, const char* flag) {
  for (const std::string& value : request.values)
    if (std::find(knob.values.begin(), knob.values.end(), value) == knob.values.end()) {
      std::string known;
      for (const std::string& one : knob.values) known += (known.empty() ? "" : ", ") + one;
      return request_error(flag, fmt::format("{}: expected one of {}, found '{}'", knob.name, known, value));
    }
  return {};
}

Dimension dimension(const Knob& knob, std::vector<std::string> values) {
  auto found = std::find(values.begin(), values.end(), knob.current);
  if (found == values.end()) {
    // Asked-for values without the run's own: the first of them is where the search starts.
    found = values.begin();
  }
  return {knob, values, static_cast<std::size_t>(found - values.begin())};
}

}  // namespace

Point Space::current() const {
  Point point;
  for (const Dimension& dimension : dimensions)
    point.push_back(static_cast<std::uint16_t>(dimension.current));
  return point;
}

std::vector<Choice> Space::choices(const Point& point) const {
  std::vector<Choice> out = fixed;
  for (std::size_t i = 0; i < dimensions.size(); ++i) {
    const std::string& value = dimensions[i].values[point[i]];
    if (value != dimensions[i].knob.current) out.push_back({dimensions[i].knob.name, value});
  }
  return out;
}

double Space::size() const {
  double product = 1;
  for (const Dimension& dimension : dimensions) product *= static_cast<double>(dimension.values.size());
  return product;
}

Result<Space> make_space(std::span<const Knob> knobs, std::span<const std::string> vary,
                         std::span<const std::string> fix, bool algorithm) {
  enum class Use { unmentioned, varied, fixed };
  std::vector<Use> uses(knobs.size(), Use::unmentioned);
  std::vector<std::vector<std::string>> values(knobs.size());
  Space space;
  for (const std::string& text : vary) {
    Request request = parse_request(text);
    HEADROOM_ASSIGN(const std::size_t index, find_knob(knobs, request.knob, "--vary"));
    HEADROOM_TRY(check_values(knobs[index], request, "--vary"));
    uses[index] = Use::varied;
    values[index] = std::move(request.values);
  }
  for (const std::string& text : fix) {
    const Request request = parse_request(text);
    HEADROOM_ASSIGN(const std::size_t index, find_knob(knobs, request.knob, "--fix"));
    HEADROOM_TRY(check_values(knobs[index], request, "--fix"));
    if (uses[index] == Use::varied) return request_error("--fix", request.knob + " is also given to --vary");
    if (request.values.size() > 1) return request_error("--fix", request.knob + ": expected one value");
    uses[index] = Use::fixed;
    if (!request.values.empty() && request.values[0] != knobs[index].current)
      space.fixed.push_back({knobs[index].name, request.values[0]});
  }
  for (std::size_t i = 0; i < knobs.size(); ++i) {
    const bool wanted =
        uses[i] == Use::varied ||
        (vary.empty() && uses[i] == Use::unmentioned && (algorithm || !knobs[i].changes_numerics));
    const auto given = std::find_if(space.fixed.begin(), space.fixed.end(),
                                    [&](const Choice& choice) { return choice.knob == knobs[i].name; });
    if (!wanted) {
      space.standing.push_back({knobs[i].name, given == space.fixed.end() ? knobs[i].current : given->value});
      continue;
    }
    std::vector<std::string> tried = values[i].empty() ? knobs[i].values : values[i];
    if (tried.size() > kMostValues) tried.resize(kMostValues);
    if (tried.size() > 1 || (!tried.empty() && tried[0] != knobs[i].current))
      space.dimensions.push_back(dimension(knobs[i], std::move(tried)));
    else
      space.standing.push_back({knobs[i].name, knobs[i].current});
  }
  return space;
}

}  // namespace headroom::search
