#include <gmock/gmock.h>

#include <fstream>
#include <set>
#include <sstream>

#include "tests/planner/frameworks/examples.h"
#include "tests/planner/frameworks/openrlhf/run.h"

/// Frameworks whose runs are scripts: what is written is read as the same job.

namespace headroom {
namespace {

const std::vector<std::string> kFrameworks = {"colossalchat", "deepspeed-chat"};

struct Example {
  const Framework* framework;
  std::string path;
  ReadJob read;
};

std::string text_of(const std::string& path) {
  std::ostringstream out;
  out << std::ifstream(path).rdbuf();
  return out.str();
}

std::vector<Example> all() {
  std::vector<Example> out;
  for (const std::string& name : kFrameworks)
    for (const std::string& path : test::examples(name)) {
      if (!path.ends_with(".sh")) continue;
      Result<ReadJob> read = test::read_launch(text_of(path), {}, path);
      EXPECT_TRUE(read) << path << ": " << (read ? "" : read.error().text());
      if (read) out.push_back({find_framework(name), path, std::move(*read)});
    }
  return out;
}

void expect_same(Job expected, Job found, const std::string& what) {
  found.name = expected.name;
  EXPECT_TRUE(expected == found) << what;
}

TEST(ScriptRoundTrip, EveryExampleIsReadByItsFrameworkWithoutAWord) {
  std::map<std::string, int> counts;
  for (const Example& example : all()) {
    ++counts[std::string(example.framework->name)];
    EXPECT_EQ(example.read.job.framework, example.framework->name) << example.path;
    for (const Notice& warning : example.read.warnings) ADD_FAILURE() << warning.text();
    EXPECT_THAT(example.read.job.not_modelled, testing::IsEmpty()) << example.path;
    for (const KeyUse& key : example.read.keys)
      EXPECT_NE(key.state, KeyUse::State::unknown) << example.path << " " << key.key;
  }
  EXPECT_GE(counts["colossalchat"], 4);
  EXPECT_GE(counts["deepspeed-chat"], 2);
}

TEST(ScriptRoundTrip, WrittenAndReadAgainIsTheSameJob) {
  for (const Example& example : all()) {
    const Result<std::string> text = example.framework->write(example.read, {}, {.lines = {"as it was"}});
    ASSERT_TRUE(text) << example.path << text.error().text();
    const Result<ReadJob> again = test::read_launch(*text, {}, example.path);
    ASSERT_TRUE(again) << example.path << ": " << again.error().text();
    expect_same(example.read.job, again->job, example.path);
  }
}

/// A knob's edit of the settings, and its flags written and read, are one.
TEST(ScriptRoundTrip, EveryKnobEditsWhatItWrites) {
  for (const Example& example : all()) {
    std::set<std::string> names;
    const std::vector<Knob> knobs = example.framework->knobs(example.read);
    EXPECT_FALSE(knobs.empty()) << example.path;
    for (const Knob& knob : knobs) {
      EXPECT_TRUE(names.insert(knob.name).second) << knob.name;
      EXPECT_THAT(knob.values, testing::Contains(knob.current)) << example.path << " " << knob.name;
      for (const std::string& value : knob.values) {
        const std::vector<Choice> choices{{knob.name, value}};
        const std::string what = example.path + " " + knob.name + "=" + value;
        const Result<std::vector<Setting>> settings = example.framework->settings_of(example.read, choices);
        ASSERT_TRUE(settings) << what << settings.error().text();
        const Result<std::string> text = example.framework->write(example.read, *settings, {});
        ASSERT_TRUE(text) << what << text.error().text();
        const Result<ReadJob> again = test::read_launch(*text, {}, example.path);
        const Result<Job> edited = example.framework->with(example.read, choices);
        ASSERT_EQ(edited.has_value(), again.has_value())
            << what << ": " << (edited ? again.error().text() : edited.error().text());
        if (edited) expect_same(*edited, again->job, what);
      }
    }
  }
}

}  // namespace
}  // namespace headroom
