#include "planner/frameworks/job/framework.h"

#include <gmock/gmock.h>

#include "planner/frameworks/registry.h"
#include "tests/planner/frameworks/examples.h"

namespace headroom {
namespace {

using testing::HasSubstr;

ReadJob example(JobOptions options = {}) {
  const Result<ReadJob> read = read_job(test::examples("job"), options);
  EXPECT_TRUE(read) << read.error().text();
  return read ? *read : ReadJob{};
}

TEST(JobFramework, OverridesNameItemsByNameOrIndex) {
  JobOptions options;
  options.overrides = {"roles.critic.train.sequences=2", "roles.0.precision.weights=bf16",
                       "batch.prompts=64"};
  const ReadJob read = example(options);
  EXPECT_EQ(read.job.role("critic")->train.sequences, 2);
  EXPECT_EQ(read.job.role("actor")->precision.weights, DType::bf16);
  EXPECT_EQ(read.job.batch.prompts, 64);
  options.overrides = {"roles.nobody.trained=true"};
  EXPECT_THAT(read_job(test::examples("job"), options).error().text(),
              HasSubstr("roles.nobody.trained: the list has no item nobody"));
}

TEST(JobFramework, KnobsEqualTheirKeys) {
  const ReadJob read = example();
  const Framework* framework = find_framework("job");
  for (const Knob& knob : framework->knobs(read)) {
    for (const std::string& value : knob.values) {
      const std::vector<Choice> choices{{knob.name, value}};
      const Result<Job> edited = framework->with(read, choices);
      const Result<std::vector<Setting>> settings = framework->settings_of(read, choices);
      ASSERT_TRUE(settings);
      JobOptions options;
      for (const Setting& setting : *settings) options.overrides.push_back(setting.key + "=" + setting.value);
      const Result<ReadJob> again = read_job(test::examples("job"), options);
      ASSERT_EQ(edited.has_value(), again.has_value()) << knob.name << "=" << value;
      if (edited) {
        EXPECT_TRUE(*edited == again->job) << knob.name << "=" << value;
      }
    }
  }
}

TEST(JobFramework, WritesInPlace) {
  const ReadJob read = example();
  const std::vector<Setting> settings{{"roles.actor.train.sequences", "2"},
                                      {"roles.critic.recompute.kind", "full"}};
  const Result<std::string> text = find_framework("job")->write(read, settings, {.lines = {"budget 76 GiB"}});
  ASSERT_TRUE(text) << text.error().text();
  EXPECT_THAT(*text, HasSubstr("# Written by Headroom.\n# budget 76 GiB\n\n# A plain PPO loop"));
  EXPECT_THAT(*text, HasSubstr("sequences an optimizer step"));  // comments stay
  const Result<Document> document = parse_document(*text, "written");
  EXPECT_EQ(document->find("roles")->items()[0].find_path("train.sequences")->text(), "2");
  EXPECT_EQ(document->find("roles")->items()[2].find_path("recompute.kind")->text(), "full");
}

}  // namespace
}  // namespace headroom
