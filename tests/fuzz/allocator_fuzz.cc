// Searches for programs that make the caching allocator unsound or different from the reference, and for
// settings that crash their parser.
//   tests/fuzz/run.sh allocator_fuzz 600

#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "tests/simulator/allocator/script.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace headroom::allocator;
  if (size == 0) return 0;
  if (data[0] == 0xFF) {
    (void)parse_allocator_settings({reinterpret_cast<const char*>(data) + 1, size - 1});
    return 0;
  }
  const std::string problem = test::Script(data, size).run();
  if (problem.empty()) return 0;
  std::fprintf(stderr, "%s\n", problem.c_str());
  std::abort();
}
