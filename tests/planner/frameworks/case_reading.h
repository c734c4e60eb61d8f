#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "models/document/document.h"
#include "planner/frameworks/registry.h"

namespace headroom::test {

/// A flat case as a file, with `--set`.
inline Result<ReadJob> read_case(const std::string& text, std::vector<std::string> overrides = {}) {
  JobInput input;
  input.files.push_back({"case.json", parse_document(text, "case.json").value(), text});
  JobOptions options;
  options.overrides = std::move(overrides);
  return read_job(input, options);
}

/// A recording of `text` gives the Job of `text`, and the machine that it was made on; `rest`, what else it
/// holds, is not read.
inline void expect_only_the_case_is_read(const std::string& text, const std::string& rest) {
  const Result<ReadJob> read = read_case(
      R"({"case": )" + text +
      R"(, "device": "NVIDIA H200", "total_memory": 1000000000000, "alloc_conf": "", )" + rest + "}");
  ASSERT_TRUE(read) << read.error().text();
  const Job alone = read_case(text)->job;
  EXPECT_EQ(read->job.gpu, "NVIDIA H200");
  EXPECT_EQ(read->job.device_memory, 1'000'000'000'000);
  EXPECT_EQ(read->job.batch, alone.batch);
  EXPECT_EQ(read->job.steps, alone.steps);
  EXPECT_EQ(read->job.start, alone.start);
  EXPECT_EQ(read->job.step, alone.step);
}

/// Each change (`key=value`) of `text` is refused at the key beside it.
inline void expect_refused(const std::string& text,
                           const std::vector<std::pair<std::string, std::string>>& wrong) {
  for (const auto& [change, key] : wrong) {
    const Result<ReadJob> read = read_case(text, {change});
    ASSERT_FALSE(read) << change;
    EXPECT_EQ(read.error().key, key) << change << ": " << read.error().text();
  }
}

}  // namespace headroom::test
