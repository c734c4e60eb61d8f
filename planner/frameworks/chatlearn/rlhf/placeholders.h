#pragma once

#include <map>
#include <string>
#include <string_view>

#include "models/document/document.h"

namespace headroom::chatlearn::rlhf {

/// ChatLearn's placeholders (releases up to 1.0.3): a scalar `${NAME:DEFAULT}` is the environment variable NAME, else
/// DEFAULT (cut at a further `:`), else null. Lists are left as they are.

/// The variable that a scalar's text asks for; empty: it is no placeholder.
std::string placeholder_name(std::string_view text);


/// `document` with its placeholders replaced: by `environment`, else by the variables of this process, else by their
/// defaults. `None` becomes null, lines stay.
Document without_placeholders(const Document& document, const std::map<std::string, std::string>& environment);

/// `text` with another default: `${NAME:VALUE}`.
std::string with_default(std::string_view text, const std::string& value);

}  // namespace headroom::chatlearn::rlhf
