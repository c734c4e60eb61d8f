#pragma once

#include <cstdint>
#include <string>

namespace headroom::test {

/// One to four random changes of a byte string: bits, bytes, lengths, pieces cut out, doubled or moved.
/// Repeatable: the same number gives the same change.
std::string mutated(const std::string& bytes, std::uint64_t number);

}  // namespace headroom::test
