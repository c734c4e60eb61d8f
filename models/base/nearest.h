#pragma once

#include <span>
#include <string>
#include <string_view>

namespace headroom {

/// Insertions, deletions and replacements of characters that turn `a` into `b`, letters compared without case.
/// O(|a|·|b|) time.
int edit_distance(std::string_view a, std::string_view b);

/// Of the lengths: what the edit distance is at least, in constant time. Names from files can be megabytes.
int length_difference(std::string_view a, std::string_view b);

/// The candidate nearest to `text`, for messages that suggest what was meant: empty when none is closer than a
/// third of the longer name (at least two edits are always allowed). Ties go to the first.
std::string nearest(std::string_view text, std::span<const std::string_view> candidates);

}  // namespace headroom
