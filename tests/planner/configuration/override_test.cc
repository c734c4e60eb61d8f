#include "planner/configuration/override.h"

#include <gmock/gmock.h>

#include "planner/configuration/value_grammar.h"

namespace headroom {
namespace {

using testing::HasSubstr;

std::string complaint(std::string_view text) {
  const Result<Override> parsed = parse_override(text, "--set");
  return parsed ? "" : parsed.error().text();
}

TEST(Override, ReadsHydrasFourKinds) {
  const auto kind = [](std::string_view text) { return parse_override(text, "--set")->kind; };
  EXPECT_EQ(kind("a.b=1"), Override::Kind::set);
  EXPECT_EQ(kind("+a.b=1"), Override::Kind::add);
  EXPECT_EQ(kind("++a.b=1"), Override::Kind::force);
  EXPECT_EQ(kind("~a.b"), Override::Kind::remove);
  EXPECT_EQ(parse_override("~a.b=1", "--set")->key, "a.b");
  EXPECT_EQ(parse_override("a.b = x=y", "--set")->value.text(), "x=y");
}

TEST(Override, NamesWhatIsMissing) {
  EXPECT_THAT(complaint("trainer.nnodes"), HasSubstr("--set: trainer.nnodes: expected KEY=VALUE"));
  EXPECT_THAT(complaint("=1"), HasSubstr("dotted key"));
  EXPECT_THAT(complaint("a..b=1"), HasSubstr("dotted key"));
  EXPECT_THAT(complaint("a b=1"), HasSubstr("dotted key"));
  EXPECT_THAT(complaint("a.b=[1"), HasSubstr("--set: a.b: a list is not closed"));
}

TEST(OverrideList, ReadsAPastedCommandLine) {
  const auto list = parse_override_list(R"(# the run of Tuesday
    algorithm.adv_estimator=grpo \
    'trainer.logger=[console, wandb]' \

    actor_rollout_ref.model.path="$HOME/my models/x"   # local
    +actor_rollout_ref.rollout.engine_kwargs.vllm.swap_space=4
)",
                                        "run.args");
  ASSERT_TRUE(list) << list.error().text();
  ASSERT_EQ(list->size(), 4U);
  EXPECT_EQ((*list)[0].line, 2);
  EXPECT_EQ(format_value((*list)[1].value), "[console,wandb]");
  EXPECT_EQ((*list)[2].value.text(), "$HOME/my models/x");
  EXPECT_EQ((*list)[2].line, 5);
  EXPECT_EQ((*list)[3].kind, Override::Kind::add);
}

TEST(OverrideList, PlacesErrors) {
  const auto list = parse_override_list("a=1\n\nb=[\n", "run.args");
  ASSERT_FALSE(list);
  EXPECT_THAT(list.error().text(), HasSubstr("run.args:3: b:"));
}

TEST(OverrideList, IsToldFromYaml) {
  EXPECT_TRUE(looks_like_overrides("# x\n\nalgorithm.adv_estimator=grpo\n"));
  EXPECT_TRUE(looks_like_overrides("+a.b=1"));
  EXPECT_FALSE(looks_like_overrides("algorithm:\n  adv_estimator: grpo\n"));
  EXPECT_FALSE(looks_like_overrides("command: a=b\n"));
  EXPECT_FALSE(looks_like_overrides(""));
}

}  // namespace
}  // namespace headroom
