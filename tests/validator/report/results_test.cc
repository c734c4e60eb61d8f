#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/support/data.h"

// What was measured on cards and is committed: every job's report.
namespace headroom::gpu {
namespace {

using Json = nlohmann::json;

template <class Look>
void for_each_job(Look look) {
  for (const auto& folder : std::filesystem::directory_iterator(test::source("validator/results"))) {
    std::ifstream lines(folder.path() / "validate.jsonl");
    for (std::string line; std::getline(lines, line);) {
      const Json job = Json::parse(line);
      look(folder.path().filename().string() + ": " + job.at("name").get<std::string>(),
           job.at("validation"));
    }
  }
}

TEST(Results, NoneOfTheHeaviestOperationsLacksAKernel) {
  int ranked = 0;
  for_each_job([&](const std::string& name, const Json& validation) {
    if (!validation.contains("heaviest")) return;  // of a program that did not rank them yet
    ++ranked;
    for (const char* figure : {"memory", "time"}) {
      const Json& heaviest = validation.at("heaviest").at(figure);
      EXPECT_EQ(heaviest.size(), 10u) << name;
      for (const Json& operation : heaviest)
        EXPECT_EQ(operation.at("without_kernel"), 0) << name << ": " << operation.at("operation");
    }
  });
  EXPECT_GE(ranked, 25);
}

// Offloaded optimizers really stepped, and on the host.
TEST(Results, OptimizersOnTheHostRan) {
  int stepped = 0;
  for_each_job([&](const std::string& name, const Json& validation) {
    const Json& work = validation.at("work");
    if (!work.contains("optimizer")) return;
    EXPECT_EQ(work.at("optimizer").at("without_kernel"), 0) << name;
    stepped += work.at("optimizer").value("on_host", 0) > 0;
  });
  EXPECT_GE(stepped, 2);
}

// What `validate` promises by default, of every job that ended; a job at part of its depth has its own
// report.
TEST(Results, DevicePeaksAreWithinOnePercentInTheMeanAndThreeAtWorst) {
  double sum = 0;
  int jobs = 0;
  for_each_job([&](const std::string& name, const Json& validation) {
    const Json& errors = validation.at("probe_errors");
    if (!validation.at("out_of_memory").is_null() || errors.at("phases") == 0) return;
    EXPECT_LE(errors.at("worst").get<double>(), 0.03) << name;
    sum += errors.at("mean").get<double>();
    ++jobs;
  });
  ASSERT_GE(jobs, 25);
  EXPECT_LE(sum / jobs, 0.01);
}

}  // namespace
}  // namespace headroom::gpu
