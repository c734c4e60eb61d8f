#include "planner/compare/measured.h"

#include <gtest/gtest.h>

namespace headroom::compare {
namespace {

/// The error of a recording whose second phase has `value` in place of its `key`; "" where it is read.
std::string error_of(const std::string& key, const std::string& value) {
  std::string text =
      "{\"phases\": [\n{\"step\": 0, \"phase\": \"init\", \"peak_alloc\": 1, \"peak_reserved\": 2},\n{";
  for (const auto& [name, usual] : {std::pair<std::string, std::string>{"step", "1"},
                                    {"phase", "\"reward\""},
                                    {"peak_alloc", "5"},
                                    {"peak_reserved", "6"},
                                    {"n_allocs", "7"},
                                    {"depth", "0"}}) {
    const std::string& used = name == key ? value : usual;
    if (!used.empty()) text += (text.ends_with("{") ? "\"" : ", \"") + name + "\": " + used;
  }
  const auto document = parse_document(text + "}]}", "run.json");
  if (!document) return document.error().text();
  const auto measured = measured_of(*document, "run.json");
  return measured ? "" : measured.error().text();
}

TEST(Measured, SaysWhatWasExpectedOfWhichKeyAndWhatWasFound) {
  const std::string place = "run.json:3: phases[1].";
  const std::string step =
      place + "step: expected the number of a step (0 for the first, -1 before it), found ";
  EXPECT_EQ(error_of("step", "null"), step + "null");
  EXPECT_EQ(error_of("step", "\"lots\""), step + "\"lots\"");
  EXPECT_EQ(error_of("step", "1.5"), step + "1.5");
  EXPECT_EQ(error_of("step", ""), step + "no such key");
  EXPECT_EQ(error_of("step", "9223372036854775807"), step + "9223372036854775807");
  EXPECT_EQ(error_of("step", "2147483648"), step + "2147483648");
  EXPECT_EQ(error_of("step", "-2"), step + "-2");
  for (const char* key : {"peak_alloc", "peak_reserved"}) {
    const std::string bytes = place + key + ": expected a number of bytes, 0 or more, found ";
    EXPECT_EQ(error_of(key, "-1"), bytes + "-1");
    EXPECT_EQ(error_of(key, "[1]"), bytes + "a list");
    EXPECT_EQ(error_of(key, "{}"), bytes + "a map");
    EXPECT_EQ(error_of(key, "\"12\""), bytes + "\"12\"");
    EXPECT_EQ(error_of(key, ""), bytes + "no such key");
  }
  const std::string name = place + "phase: expected the name of a phase, such as train_actor, found ";
  EXPECT_EQ(error_of("phase", ""), name + "no such key");
  EXPECT_EQ(error_of("phase", "null"), name + "null");
  EXPECT_EQ(error_of("phase", "\"\""), name + "\"\"");
  EXPECT_EQ(error_of("n_allocs", "-3"),
            place + "n_allocs: expected a number of allocations, 0 or more, found -3");
  EXPECT_EQ(error_of("depth", "-1"),
            place + "depth: expected the number of phases around this one, 0 or more, found -1");
}

TEST(Measured, TakesWhatMayBeLeftOut) {
  EXPECT_EQ(error_of("", ""), "");
  for (const char* key : {"n_allocs", "depth"}) {
    EXPECT_EQ(error_of(key, ""), "");
    EXPECT_EQ(error_of(key, "null"), "");
  }
  EXPECT_EQ(error_of("step", "-1"), "");
  EXPECT_EQ(error_of("step", "2147483647"), "");
}

TEST(Measured, APhaseIsAMap) {
  const auto document = parse_document("{\"phases\": [7]}", "run.json");
  ASSERT_TRUE(document);
  const auto measured = measured_of(*document, "run.json");
  ASSERT_FALSE(measured);
  EXPECT_EQ(measured.error().text(),
            "run.json:1: phases[0]: expected a measured phase with step, phase, peak_alloc and "
            "peak_reserved, found 7");
}

TEST(Measured, ATruncatedFileIsCalledWhatItIs) {
  const auto name = [](const char* text, const char* file) {
    const auto document = parse_document(text, file);
    return document ? std::string() : document.error().message.substr(0, 14);
  };
  EXPECT_EQ(name("{\"phases\": [{\"step\": 0,", "run"), "not valid JSON");
  EXPECT_EQ(name("[1, 2", "run.json"), "not valid JSON");
  EXPECT_EQ(name("a: [1, 2", "run.yaml"), "not valid YAML");
}

}  // namespace
}  // namespace headroom::compare
