#include "planner/frameworks/verl/knobs.h"

#include <gmock/gmock.h>

#include <set>

#include "planner/frameworks/registry.h"
#include "tests/planner/frameworks/examples.h"

namespace headroom {
namespace {

/// Reads `path` with the keys of `choices` as overrides.
Result<ReadJob> read_with(const std::string& path, const ReadJob& read, const std::vector<Choice>& choices) {
  const auto settings = verl::settings_for(read, choices);
  if (!settings) return tl::unexpected<Error>(settings.error());
  JobOptions options;
  options.overrides.push_back("++headroom.versions.verl=" + read.job.versions.framework);  // as written files state it
  for (const Setting& setting : *settings)
    options.overrides.push_back("++" + setting.key + "=" + setting.value);
  return read_job(std::vector<std::string>{path}, options);
}

void expect_same(const Result<Job>& edited, const Result<ReadJob>& again, const std::string& what) {
  ASSERT_EQ(edited.has_value(), again.has_value())
      << what << ": " << (edited ? again.error().text() : edited.error().text());
  if (!edited) {
    EXPECT_EQ(edited.error().message, again.error().message) << what;
    return;
  }
  Job other = again->job;
  other.name = edited->name;
  other.assumptions = edited->assumptions;  // a written key may tell the release that was assumed before
  EXPECT_TRUE(*edited == other) << what;
}

TEST(VerlKnobs, EditingEqualsReadingAgain) {
  for (const std::string& path : test::examples("verl")) {
    const Result<ReadJob> read = read_job(std::vector<std::string>{path}, {});
    ASSERT_TRUE(read);
    for (const Knob& knob : verl::knobs(*read)) {
      for (const std::string& value : knob.values) {
        const std::vector<Choice> choices{{knob.name, value}};
        expect_same(verl::with(*read, choices), read_with(path, *read, choices),
                    path + " " + knob.name + "=" + value);
      }
    }
  }
}

TEST(VerlKnobs, CombinationsEqualReadingAgain) {
  unsigned state = 1;
  const auto draw = [&](std::size_t n) { return (state = state * 1664525U + 1013904223U) / 65536U % n; };
  for (const std::string& path : test::examples("verl")) {
    const Result<ReadJob> read = read_job(std::vector<std::string>{path}, {});
    ASSERT_TRUE(read);
    const std::vector<Knob> knobs = verl::knobs(*read);
    for (int i = 0; i < 12; ++i) {
      std::vector<Choice> choices;
      std::string what = path;
      for (const Knob& knob : knobs) {
        if (draw(3) != 0) continue;
        choices.push_back({knob.name, knob.values[draw(knob.values.size())]});
        what += " " + knob.name + "=" + choices.back().value;
      }
      expect_same(verl::with(*read, choices), read_with(path, *read, choices), what);
    }
  }
}

TEST(VerlKnobs, TheCurrentValuesChangeNothing) {
  for (const std::string& path : test::examples("verl")) {
    const Result<ReadJob> read = read_job(std::vector<std::string>{path}, {});
    ASSERT_TRUE(read);
    std::set<std::string> names;
    for (const Knob& knob : verl::knobs(*read)) {
      EXPECT_TRUE(names.insert(knob.name).second) << knob.name;
      EXPECT_THAT(knob.values, testing::Contains(knob.current)) << path << " " << knob.name;
      const bool sleeping = !knob.needs.knob.empty();
      if (sleeping || knob.name == "strategy" || knob.name == "critic_token_budget") continue;
      const Result<Job> same = verl::with(*read, std::vector<Choice>{{knob.name, knob.current}});
      ASSERT_TRUE(same) << path << " " << knob.name << ": " << same.error().text();
      EXPECT_TRUE(*same == read->job) << path << " " << knob.name;
    }
  }
}

TEST(VerlKnobs, NameWhatIsWrong) {
  const Result<ReadJob> read = read_job(std::vector<std::string>{test::examples("verl").front()}, {});
  EXPECT_EQ(verl::with(*read, std::vector<Choice>{{"no_such", "1"}}).error().text(),
            "no_such: is no knob of verl");
  EXPECT_EQ(verl::with(*read, std::vector<Choice>{{"max_num_seqs", "-1"}}).error().text(),
            "max_num_seqs: -1 is no value of it");
}

}  // namespace
}  // namespace headroom
