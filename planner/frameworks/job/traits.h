#pragma once

#include <array>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "planner/frameworks/job/fields.h"
#include "simulator/job/names.h"

namespace headroom::jobfile {

/// What the visitors of fields.h tell types apart by.

template <typename T>
concept Described = requires {
  sizeof(Fields<T>);
};

template <typename T>
inline constexpr bool is_optional = false;
template <typename T>
inline constexpr bool is_optional<std::optional<T>> = true;

template <typename T>
inline constexpr bool is_list = false;
template <typename T>
inline constexpr bool is_list<std::vector<T>> = true;

/// How a file names no loop of its own.
inline constexpr std::string_view kPlainLoop = "plain";

/// The words for the bits of Parts.
inline constexpr std::array<std::pair<Parts, std::string_view>, 4> kParts = {
    {{kWeights, "weights"},
     {kGradients, "gradients"},
     {kOptimizer, "optimizer"},
     {kMasterWeights, "master_weights"}}};

/// The root's own key: which format, and which version of it.
inline constexpr std::string_view kFormatKey = "headroom";
inline constexpr std::string_view kFormat = "job/1";

}  // namespace headroom::jobfile
