#include "validator/measurements.h"

#include <gtest/gtest.h>

#include "tests/support/data.h"

namespace headroom::gpu {
namespace {

Measurements measured() {
  Measurements out;
  out.gpu = "NVIDIA H100";
  out.total_memory = 80 * kGiB;
  out.memory = {{.action = "context", .used = 500 * kMiB, .added = 500 * kMiB},
                {.action = "given back", .used = 400 * kMiB, .added = -100 * kMiB}};
  out.rates = {{.kind = "copy", .shape = "1", .dtype = DType::fp16, .flops = 0, .bytes = 4, .seconds = 1e-6}};
  return out;
}

/// What reading gives after `from` in the file became `to`.
Result<Measurements> read_with(const std::string& from, const std::string& to) {
  std::string text = to_json(measured());
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from << " in " << text;
  text.replace(at, from.size(), to);
  const auto document = parse_document(text, "calibrate.json");
  EXPECT_TRUE(document);
  return read_measurements(*document, "calibrate.json");
}

TEST(Measurements, ReadBack) {
  const auto again = read_with("", "");
  ASSERT_TRUE(again) << again.error().text();
  EXPECT_EQ(to_json(*again), to_json(measured()));
}

TEST(Measurements, WhatCannotBeIsRefusedByKeyAndLine) {
  struct Case {
    const char *from, *to, *key;
  };
  for (const Case& one :
       {Case{"\"used\": 524288000", "\"used\": -1", "used"},
        Case{"\"used\": 524288000", "\"used\": 100000000000000000", "used"},
        Case{"\"added\": 524288000", "\"added\": 100000000000000000", "added"},
        Case{"\"dtype\": \"fp16\"", "\"dtype\": \"half-ish\"", "dtype"},
        Case{"\"gpus\": 1", "\"gpus\": 0", "gpus"}, Case{"\"seconds\": 1e-06", "\"seconds\": 0", "seconds"},
        Case{"\"seconds\": 1e-06", "\"seconds\": -1", "seconds"},
        Case{"\"bytes\": 4.0", "\"bytes\": -4.0", "bytes"}}) {
    const auto read = read_with(one.from, one.to);
    ASSERT_FALSE(read) << one.to;
    EXPECT_EQ(read.error().key, one.key) << one.to;
    EXPECT_GT(read.error().line, 1) << one.to;
    EXPECT_EQ(read.error().file, "calibrate.json");
  }
}

}  // namespace
}  // namespace headroom::gpu
