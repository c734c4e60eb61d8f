#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "simulator/job/job.h"

namespace headroom {

/// The words that files and reports use for the values of a job's enumerations, in declaration order.
/// Specialised for every enumeration that a Job holds, DType included.
template <typename Enum>
std::span<const std::pair<Enum, std::string_view>> enum_names();

/// `fsdp2`, `train_actor`, `bf16` …; `?` for a value outside the enumeration.
template <typename Enum>
std::string_view enum_name(Enum value) {
  for (const auto& [known, text] : enum_names<Enum>())
    if (known == value) return text;
  return "?";
}

template <typename Enum>
std::optional<Enum> enum_from(std::string_view name) {
  for (const auto& [known, text] : enum_names<Enum>())
    if (text == name) return known;
  return std::nullopt;
}

}  // namespace headroom
