#include <gmock/gmock.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "planner/frameworks/job/file.h"
#include "planner/frameworks/registry.h"
#include "tests/planner/frameworks/examples.h"

namespace headroom {
namespace {

/// The Jobs of the example configurations as job files under tests/data/verl. To write them anew after a
/// change that is meant, run this test with HEADROOM_UPDATE_GOLDENS=1 and read the difference.
TEST(VerlGolden, ExamplesGiveTheseJobs) {
  for (const std::string& path : test::examples("verl")) {
    const Result<ReadJob> read = read_job(std::vector<std::string>{path}, {});
    ASSERT_TRUE(read) << path << ": " << read.error().text();
    EXPECT_TRUE(read->warnings.empty()) << path << ": " << read->warnings.front().text();
    const std::string text = write_yaml(jobfile::write_job_file(read->job));
    const auto golden = test::data("verl/" + read->job.name + ".job.yaml");
    if (std::getenv("HEADROOM_UPDATE_GOLDENS") != nullptr) std::ofstream(golden) << text;
    std::ostringstream kept;
    kept << std::ifstream(golden).rdbuf();
    EXPECT_EQ(text, kept.str()) << golden;
  }
}

}  // namespace
}  // namespace headroom
