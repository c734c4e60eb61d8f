#include "tests/support/replay.h"

#include <algorithm>
#include <random>

namespace headroom::test {

std::string mutated(const std::string& bytes, std::uint64_t number) {
  std::mt19937_64 random(number);
  const auto below = [&](std::size_t limit) {
    return static_cast<std::size_t>(random() % std::max<std::size_t>(limit, 1));
  };
  std::string out = bytes;
  for (std::size_t changes = 1 + below(4); changes > 0 && !out.empty(); --changes) {
    const std::size_t at = below(out.size()), length = std::min(below(40), out.size() - at);
    switch (below(7)) {
      case 0:
        out[at] = static_cast<char>(out[at] ^ (1 << below(8)));
        break;
      case 1:
        out[at] = static_cast<char>(below(256));
        break;
      case 2:
        out[at] = static_cast<char>(below(2) == 0 ? 0xff : 0x7f);
        break;
      case 3:
        out.erase(at, length);
        break;
      case 4:
        out.insert(below(out.size()), out.substr(at, length));
        break;
      case 5:
        out.resize(at);
        break;
      default:
        std::copy_n(out.substr(at, length).begin(), length,
                    out.begin() + static_cast<std::ptrdiff_t>(below(out.size() - length + 1)));
        break;
    }
  }
  return out;
}

}  // namespace headroom::test
