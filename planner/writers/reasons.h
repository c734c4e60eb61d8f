#pragma once

#include <string_view>

#include "simulator/memory/component.h"

namespace headroom::writers {

/// What a component is and what makes it smaller, in a sentence.
std::string_view reason(Component component);

}  // namespace headroom::writers
