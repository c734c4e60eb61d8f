#pragma once

#include <string>
#include <string_view>

namespace headroom::writers {

/// `page` with JSON in the place of `@DATA@`, so that nothing in it ends the script element that holds it.
std::string page_with(std::string_view page, std::string_view json);

}  // namespace headroom::writers
