#include "simulator/replay/recording.h"

#include <gmock/gmock.h>

#include "simulator/replay/verify.h"
#include "tests/support/data.h"

namespace headroom::replay {
namespace {

const std::vector<Recording>& recordings(const std::string& file) {
  static std::map<std::string, std::vector<Recording>> read;
  auto& entry = read[file];
  if (entry.empty()) entry = read_recordings(test::data("allocator/" + file).string()).value();
  return entry;
}

std::size_t matched(const std::vector<CaseResult>& results) {
  std::size_t count = 0;
  for (const CaseResult& r : results) {
    if (!r.matched) std::cout << r.name << ": " << r.difference << "\n";
    count += r.matched ? 1 : 0;
  }
  return count;
}

TEST(Recordings, EveryCaseVerifies) {
  EXPECT_EQ(matched(compare(recordings("recorded.jsonl.gz"), Comparison::verify)), 80);
  EXPECT_EQ(matched(compare(recordings("recorded-with-addresses.jsonl.gz"), Comparison::verify)), 45);
}

TEST(Recordings, MostCasesArePredicted) {
  EXPECT_GE(matched(compare(recordings("recorded.jsonl.gz"), Comparison::predict)), 70);
  EXPECT_GE(matched(compare(recordings("recorded-with-addresses.jsonl.gz"), Comparison::predict)), 42);
}

}  // namespace
}  // namespace headroom::replay
