#pragma once

#include <array>

#include "planner/cli/arguments.h"
#include "planner/cli/prediction.h"

namespace headroom::cli {

/// The forms in which the winner is written.
struct Form {
  const char* flag;
  Result<std::string> (*Framework::*write)(const ReadJob&, std::span<const Setting>, const WriteHeader&);
};
constexpr std::array<Form, 3> kForms = {{{"--yaml", &Framework::write},
                                         {"--script", &Framework::write_script},
                                         {"--overrides", &Framework::write_overrides}}};

/// Of the forms asked for, those that this run has not: told before the search.
Status expect_forms(const Arguments& arguments, const Run& run);

}  // namespace headroom::cli
