#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "models/base/result.h"
#include "planner/frameworks/read_job.h"

namespace headroom::search {

/// One knob with the values to try; `current` is the run's own.
struct Dimension {
  Knob knob;
  std::vector<std::string> values;
  std::size_t current = 0;
};

/// A configuration of the space: an index into each dimension's values.
using Point = std::vector<std::uint16_t>;

/// What a search may vary.
struct Space {
  std::vector<Dimension> dimensions;
  /// Set in every configuration (`--fix` with a value that is not the run's).
  std::vector<Choice> fixed;
  /// Knobs that do not vary, with the values that they have in every configuration.
  std::vector<Choice> standing = {};

  Point current() const;
  /// The choices that turn the run into `point`: fixed ones, then each dimension that differs.
  std::vector<Choice> choices(const Point& point) const;
  /// Configurations; saturates at the largest double.
  double size() const;
};

/// The space of `knobs`. `vary` holds `KNOB` or `KNOB=VALUE,VALUE…`: when it is not empty, only those knobs
/// vary. `fix` holds `KNOB` or `KNOB=VALUE`. Knobs that change the training's numbers vary only when `vary`
/// names them, or with `algorithm`. Errors: an unknown knob (the nearest is named), a value that the knob does not have, a knob in
/// both lists.
Result<Space> make_space(std::span<const Knob> knobs, std::span<const std::string> vary,
                         std::span<const std::string> fix, bool algorithm = false);

}  // namespace headroom::search
