#include <gmock/gmock.h>

#include <filesystem>
#include <set>

#include "planner/configuration/yaml_patch.h"
#include "planner/frameworks/registry.h"
#include "tests/planner/frameworks/examples.h"

namespace headroom {
namespace {

/// Frameworks whose keys and knobs are tables (planner/frameworks/settings), by their examples.
const std::vector<std::string> kFrameworks = {"nemo-rl", "chatlearn", "trl"};

struct Example {
  const Framework* framework;
  std::string path;
  ReadJob read;
};

std::vector<Example> all() {
  std::vector<Example> out;
  for (const std::string& name : kFrameworks)
    for (const std::string& path : test::examples(name)) {
      Result<ReadJob> read = read_job(std::vector<std::string>{path}, {});
      EXPECT_TRUE(read) << path << ": " << (read ? "" : read.error().text());
      if (read) out.push_back({find_framework(name), path, std::move(*read)});
    }
  return out;
}

/// What a configuration written beside `path` reads to.
Result<ReadJob> read_text(const std::string& path, const std::string& text) {
  return read_job_text(text, path, {});
}

void expect_same(Job expected, Job found, const std::string& what) {
  found.name = expected.name;
  found.assumptions = expected.assumptions;  // a written key may tell the release that was assumed before
  EXPECT_TRUE(expected == found) << what;
}

TEST(RoundTrip, EveryExampleIsReadByItsFrameworkWithoutAWord) {
  for (const Example& example : all()) {
    EXPECT_EQ(example.read.job.framework, example.framework->name) << example.path;
    EXPECT_TRUE(example.framework->detect(example.read.input)) << example.path;
    for (const Notice& warning : example.read.warnings) ADD_FAILURE() << warning.text();
    EXPECT_THAT(example.read.job.not_modelled, testing::IsEmpty()) << example.path;
    std::set<std::string> seen;
    for (const KeyUse& key : example.read.keys) {
      EXPECT_TRUE(seen.insert(key.key).second) << example.path << " " << key.key;
      EXPECT_NE(key.state, KeyUse::State::unknown) << example.path << " " << key.key;
    }
  }
}

TEST(RoundTrip, WrittenAndReadAgainIsTheSameJob) {
  for (const Example& example : all()) {
    const Result<std::string> text = example.framework->write(example.read, {}, {.lines = {"as it was"}});
    ASSERT_TRUE(text) << example.path;
    const Result<ReadJob> again = read_text(example.path, *text);
    ASSERT_TRUE(again) << example.path << ": " << again.error().text();
    expect_same(example.read.job, again->job, example.path);
  }
}

/// A knob's edit of the settings, and its keys written and read, are one.
TEST(RoundTrip, EveryKnobEditsWhatItWrites) {
  for (const Example& example : all()) {
    std::set<std::string> names;
    for (const Knob& knob : example.framework->knobs(example.read)) {
      EXPECT_TRUE(names.insert(knob.name).second) << knob.name;
      EXPECT_THAT(knob.values, testing::Contains(knob.current)) << example.path << " " << knob.name;
      for (const std::string& value : knob.values) {
        const std::vector<Choice> choices{{knob.name, value}};
        const std::string what = example.path + " " + knob.name + "=" + value;
        const Result<std::vector<Setting>> settings = example.framework->settings_of(example.read, choices);
        ASSERT_TRUE(settings) << what << settings.error().text();
        const Result<std::string> text = example.framework->write(example.read, *settings, {});
        ASSERT_TRUE(text) << what;
        const Result<ReadJob> again = read_text(example.path, *text);
        const Result<Job> edited = example.framework->with(example.read, choices);
        ASSERT_EQ(edited.has_value(), again.has_value())
            << what << ": " << (edited ? again.error().text() : edited.error().text());
        if (edited)
          expect_same(*edited, again->job, what);
        else
          EXPECT_EQ(edited.error().message, again.error().message) << what;
      }
    }
  }
}

TEST(RoundTrip, AKnobOfAnotherFrameworkIsRefused) {
  for (const Example& example : all()) {
    const Result<Job> job = example.framework->with(example.read, std::vector<Choice>{{"no_such_knob", "1"}});
    ASSERT_FALSE(job);
    EXPECT_THAT(job.error().text(), testing::HasSubstr("no_such_knob: is no knob of"));
  }
}

}  // namespace
}  // namespace headroom
