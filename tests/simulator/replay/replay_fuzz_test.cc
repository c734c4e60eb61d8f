#include "tests/fuzz/replay_fuzz.cc"

#include <gtest/gtest.h>

#include "simulator/replay/byte_source.h"
#include "tests/support/data.h"
#include "tests/support/replay.h"

namespace headroom::replay {
namespace {

/// The fuzz target over damaged recordings: it aborts on a wrong result, and the sanitizers see the rest.
void damage(const std::string& bytes, std::uint64_t count) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::string damaged = test::mutated(bytes, i);
    LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(damaged.data()), damaged.size());
  }
}

TEST(ReplayFuzz, DamagedSnapshots) {
  for (const char* name : {"basic", "cpp", "streams", "expandable"}) {
    auto source = ByteSource::open(test::data("snapshots/" + std::string(name) + ".pickle.gz").string());
    ASSERT_TRUE(source);
    damage(read_all(*source, 1 << 24).value(), 600);
  }
}

TEST(ReplayFuzz, DamagedStreams) {
  damage(
      R"({"format":3,"phases":["a","b"],"labels":["x"],"settings":"max_split_size_mb:32","events":[["p",0],["x",1],["x",0],)"
      R"(["a",0,7000000,1,0],["a",1,512],["q",0],["f",1],["f",0],["e"],["S+",9],["p",1],["a",2,90,0,-1,1]]})",
      4000);
}

/// Numbers at the ends of their ranges, where sums overflow.
TEST(ReplayFuzz, ExtremeSizes) {
  for (const char* size : {"0", "1", "1048577", "1152921504606846976", "9223372036854775807",
                           "18446744073709551615", "-9223372036854775808"}) {
    std::string events;
    for (int i = 0; i < 20; ++i)
      events += ",[\"a\"," + std::to_string(i) + "," + size + "],[\"S+\"," + size + "],[\"M-\"," + size + "]";
    damage("{\"events\":[[\"e\"]" + events + "]}", 20);
  }
}

}  // namespace
}  // namespace headroom::replay
